"""A job whose files cannot be written, or are not what was written: it must run nothing, and say so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import LOCAL, planned
from tests.script.jobs import BASH, ONE_PROCESS, write

LONG = f"echo one >>ran\n# {'é' * 4000}\necho rm -r important/ >>ran\necho end >>ran"


def job(folder: Path, before: str = "", **data: Any) -> subprocess.CompletedProcess[str]:
    """Run a submitted job in this folder, ``before`` being a line of the shell that starts it."""
    write(folder / "run", planned(data.pop("machine", ONE_PROCESS), **data))
    return subprocess.run(
        [BASH, "-c", f"{before}\nexec {BASH} run/job.sh"],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ends(folder: Path) -> list[str]:
    """Return the codes that the event log has."""
    lines = (folder / "run" / "events").read_text().splitlines()
    return [line.rpartition(" ")[2] for line in lines if line.startswith("ended ")]


def test_commands_that_bash_cannot_write_are_not_run(tmp_path: Path) -> None:
    """Before 5.1 it has them in a file, which may be no longer than 4 KiB here, as on a full disk."""
    done = job(tmp_path, "export BASH_COMPAT=5.0; trap '' XFSZ; ulimit -f 4", run={"cmd": LONG})
    assert (done.returncode, (tmp_path / "ran").exists(), ends(tmp_path)) == (86, False, ["86"])
    assert "hpcdist: bash cannot write them to /tmp; is the disk full?" in done.stderr


def test_an_event_log_that_cannot_be_begun(tmp_path: Path) -> None:
    (tmp_path / "run" / "events").mkdir(parents=True)
    done = job(tmp_path, run={"cmd": "touch ran"})
    assert (done.returncode, (tmp_path / "ran").exists()) == (86, False)
    assert "is the disk full, or your quota used up?" in done.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_right_where_the_end_cannot_be_written(tmp_path: Path, code: int) -> None:
    done = job(tmp_path, run={"cmd": f"rm run/events; mkdir run/events; exit {code}"})
    end = f"hpcdist: the end (exit code {code}) cannot be written to {tmp_path}/run/events: Is a directory"
    assert (done.returncode, end in done.stderr.splitlines()) == (code, True)


@pytest.mark.parametrize(
    ("is_there", "says"), [(True, "run is not your own"), (False, "run/runtime; is its file system mounted")]
)
def test_a_run_directory_that_is_a_link(tmp_path: Path, says: str, *, is_there: bool) -> None:
    """Nothing is made where it leads to."""
    write(tmp_path / "run", planned(ONE_PROCESS, run={"cmd": "touch ran"}))
    (tmp_path / "run").rename(tmp_path / ("elsewhere" if is_there else "another"))
    (tmp_path / "run").symlink_to("elsewhere")
    before = sorted(tmp_path.rglob("*"))
    script = next(tmp_path.glob("*/job.sh"))
    done = subprocess.run([BASH, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr, sorted(tmp_path.rglob("*"))) == (86, True, before)


MPIRUN = """\
#!/bin/bash
# Starts tasks as on two nodes, and loses one.
while [[ $1 != bash ]]; do shift; done
export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0
"$@" &
sleep 0.5
kill -TERM %1
wait %1
exit 205
"""


def test_a_node_that_is_lost(tmp_path: Path) -> None:
    """What the launcher then does to the other tasks is not the cause."""
    (tmp_path / "mpirun").write_text(MPIRUN)
    (tmp_path / "mpirun").chmod(0o755)
    data: dict[str, Any] = {"framework": "mpi", "environment": environment(1)}
    done = job(tmp_path, machine=LOCAL, run={"cmd": "sleep 2"}, batch={"launcher": "mpirun"}, **data)
    assert (done.returncode, ends(tmp_path)) == (205, ["205"])
    assert (
        "hpcdist: mpirun ended with exit code 205, and no task recorded why: a node or a task" in done.stderr
    )


SRUN = """\
#!/bin/bash
printf %s "$HOSTILE" >hostile.$$ && mv hostile.$$ hostile
printf %s "${@: -1}" >command.$$ && mv command.$$ command
exit 3
"""


def test_the_script_of_a_heterogeneous_job_without_its_empty_lines(tmp_path: Path) -> None:
    """Slurm 22.05's sbatch leaves them out; values and commands have theirs all the same."""
    for name, text in {"srun": SRUN, "scontrol": '#!/bin/bash\necho "$3"\n'}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    gpu = resources(gpu=1)
    section = {
        "resources": gpu,
        "replicas": {"n_workers": 1, "n_ps": 1, "default_worker": {"resources": gpu}},
        "env_vars": {"HOSTILE": "it's\n\n\na value\n"},
    }
    command = "\ncat <<END\n\n\nEMPTY_LINE\nEND\n\n"
    plan = planned(framework="tensorflow", environment=section, run={"cmd": command})
    assert len(plan.placement.groups) == 2
    lines = [line for line in render(plan).split("\n") if line]
    nodes = {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": f"n{n}" for n in range(2)}
    done = subprocess.run(
        [BASH, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=nodes | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert (tmp_path / "hostile").read_text() == "it's\n\n\na value\n"
    assert "cat <<END\n\n\nEMPTY_LINE\nEND" in (tmp_path / "command").read_text()
