"""What the PBS of these tests refuses, as the real one does; of the golden scripts it refuses nothing."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT
from tests.slurm.process import until

from .conftest import FAKES, Person, machine

GOLDEN = CHECKOUT / "tests" / "golden"
BAD, NO_RESOURCE, NO_QUEUE, NO_ATTRIBUTE = 166, 187, 170, 154


@pytest.mark.extended
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("-A", 1, "requires an argument -- 'A'"),
        ("-J 0-0", 2, "illegal -J value"),
        ("-J 0-10000", 3, "Array job exceeds server or queue size limit"),
        ("-J 0-7:0", 2, "illegal -J value"),
        ("-J 0-7\n#PBS -r n", 1, "cannot submit non-rerunable Array Job"),
        ("-J 1,3,5", 2, "illegal -J value"),
        ("-J 3", 2, "illegal -J value"),
        ("-J 5-1", 2, "illegal -J value"),
        ("-J a-b", 2, "illegal -J value"),
        ("-M me@here@there", 2, "illegal -M value"),
        ("-M me,", 2, "illegal -M value"),
        ("-M 'me and you'", 2, "illegal -M value"),
        ("-N 'a b'", 2, "illegal -N value"),
        ("-N a/b", 2, "illegal -N value"),
        ("-N a[1]", 2, "illegal -N value"),
        ("-N ü", 2, "illegal -N value"),
        (f"-N {'x' * 231}", 2, "Job name is too long"),
        ("-R x", 2, "illegal -R value"),
        ("-S bash", 2, "illegal -S value"),
        ("-S /bin/bash,/bin/sh", 2, "illegal -S value"),
        ("-W", 1, "requires an argument -- 'W'"),
        ("-W block=perhaps", 1, "illegal -W value"),
        ("-W colour=red", NO_ATTRIBUTE, "qsub: Error (15002) submitting job"),
        ("-W depend", 1, "illegal -W value"),
        ("-W depend=", 2, "illegal -W value"),
        ("-W depend=1234", 2, "illegal -W value"),
        ("-W depend=afterok", 2, "illegal -W value"),
        ("-W depend=afterany:1.a:2[].a,afternotok:3", 2, "illegal -W value"),
        ("-W depend=afterok:1234,", 1, "illegal -W value"),
        ("-W depend=afterok:1234[5]", 2, "cannot have dependancy on subjob or range"),
        ("-W depend=afterok:1234_5", 2, "illegal -W value"),
        ("-W depend=aftercorr:1234", 2, "illegal -W value"),
        ("-W depend=singleton", 2, "illegal -W value"),
        ("-W group_list=a,b", 2, "illegal -W value"),
        ("-W group_list=a=b", 1, "illegal -W value"),
        ("-W run_count=-1", 2, "illegal -W value"),
        ("-W sandbox=HERE", 2, "illegal -W value"),
        ("-W umask=rwx", 2, "illegal -W value"),
        ("-Z", 1, "invalid option -- 'Z'"),
        ("-a tomorrow", 1, "illegal -a value"),
        ("-c u", 1, "illegal -c value"),
        ("-c w=", 2, "illegal -c value"),
        ("-d /tmp", 1, "invalid option -- 'd'"),
        ("-j yes", 2, "illegal -j value"),
        ("-k d", 2, "illegal -k value"),
        ("-k on", 2, "illegal -k value"),
        ("-l 'software=a b'", NO_RESOURCE, "Unknown resource Resource_List.b"),
        ("-l =1", 1, "illegal -l value"),
        ("-l colour=red", NO_RESOURCE, "Unknown resource Resource_List.colour"),
        ("-l mem=1.5gb", BAD, "Resource_List.mem"),
        ("-l mem=16gib", BAD, "Resource_List.mem"),
        ("-l ncpus=-1", BAD, "Resource_List.ncpus"),
        ("-l ncpus=two", BAD, "Resource_List.ncpus"),
        ("-l ncpus=2,", 1, "illegal -l value"),
        ("-l place=excl", 7, 'Cannot have "place" without "select"'),
        ("-l select=", BAD, "Resource_List.select"),
        ("-l select=1+", BAD, "Resource_List.select"),
        ("-l select=1:", BAD, "Resource_List.select"),
        ("-l select=1:2:ncpus=1", BAD, "Resource_List.select"),
        ("-l select=1:colour=red", NO_RESOURCE, "Unknown resource: colour"),
        ("-l select=1:mem=1.5gb", BAD, "value select.mem"),
        ("-l select=1:model", BAD, "Resource_List.select"),
        ("-l select=1:ncpus=1:ncpus=2", 12, "duplicated resource within a section of a select"),
        ("-l select=1:ncpus=1,mem=1gb", 5, 'cannot be used with "select" or "place", resource is: mem'),
        ("-l select=1:walltime=90", 4, 'invalid in "select" specification: walltime'),
        ("-l select=1\n#PBS -l nodes=1", 6, "Cannot be used with select or place: nodes"),
        ("-l select=x:ncpus=1", BAD, "Resource_List.select"),
        ("-l walltime=1-00:00:00", BAD, "Resource_List.walltime"),
        ("-l walltime=1:00:00:00", BAD, "Resource_List.walltime"),
        ("-l walltime=1h", BAD, "Resource_List.walltime"),
        ("-m 'a b'", 2, "illegal -m value"),
        ("-m na", 2, "illegal -m value"),
        ("-p -1025", 2, "illegal -p value"),
        ("-p 1024", 2, "illegal -p value"),
        ("-p high", 2, "illegal -p value"),
        ("-q 'a b'", 2, "illegally formed destination"),
        ("-q nowhere", NO_QUEUE, "Unknown queue"),
        ("-q workq # mine", 1, "directive error: -q workq # mine"),
        ("-q workq\r", 1, "cr, lf"),
        ("-r maybe", 1, "illegal -r value"),
        ("-t 0-3", 1, "invalid option -- 't'"),
        ("-u a,b", 2, "illegal -u value"),
        ("-v UNSET_HERE", 1, "cannot send environment with the job"),
        ("-V\n  #PBS -q nowhere", NO_QUEUE, "Unknown queue"),
        ("-V\n\n# a comment\n:\n#PBS -q nowhere", NO_QUEUE, "Unknown queue"),
    ],
)  # fmt: skip
def test_what_this_pbs_refuses(person: Person, line: str, code: int, said: str) -> None:
    done = person.run("qsub", person.script(f"#PBS {line}", "true"))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_on_the_command_line_a_wrong_option_has_another_code(person: Person) -> None:
    done = person.run("qsub", "-t", "0-3", person.script("true"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid option -- 't'\nusage" in done.stderr


@pytest.mark.extended
@pytest.mark.parametrize(
    "line",
    [
        "-J 0-39999:9999",
        "-J 0-7%2",
        "-N 1.st_+-",
        "-W depend=afterok:4711",
        "-W depend=afterany:1.fakepbs:2[].fakepbs,afternotok:3",
        "-a 12311200.30",
        "-c w=5",
        "-k doe",
        "-l select=1:ncpus=0",
        "-l select=1:ncpus=1:mpiprocs=4",
        "-l select=1:ncpus=1+3:host=a+2",
        "-l select=99\n#PBS -l select=1",
        "-l walltime=00:00:00",
        "-l walltime=1:30",
        "-l walltime=90.5",
        "-p -1024",
        f"-A {'x' * 4100}",
        "-V\n# PBS -q nowhere\n##PBS -q nowhere",
        "-V\ntrue\n#PBS -q nowhere",
        "-q \\\nworkq",
    ],
)
def test_what_this_pbs_takes_in_silence(person: Person, line: str) -> None:
    done = person.run("qsub", person.script(f"#PBS {line}", "true"))
    assert (done.returncode, done.stderr) == (0, "")
    if "walltime" in line:
        shown = ("qstat", "-x", "-f", "-F", "dsv", done.stdout.strip())
        until(lambda: "|job_state=F|" in person.run(*shown).stdout, "the end of the job")


def test_it_refuses_no_golden_script(tmp_path: Path) -> None:
    scripts = [file for file in sorted(GOLDEN.rglob("*.sh")) if "\n#PBS " in file.read_text()]
    queues = sorted(
        {name for file in scripts for name in re.findall(r"(?m)^#PBS -q ([^@\s]+)", file.read_text())}
    )
    own = ["filesystems", "gpu_type", "model", "system", "wd"]
    spool = machine(tmp_path / "spool", {}, queues=["workq", *queues], resources=own)
    assert len(scripts) > 9
    command: list[str | Path] = [sys.executable, FAKES / "fakepbs.py", "check", *scripts]
    done = Person(tmp_path, {**os.environ, "FAKE_PBS": str(spool)}).run(*command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
