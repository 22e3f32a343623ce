"""Texts of answers are those of a real Grid Engine 8.1.9; see tests/transcripts/sge."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import PlanError, SchedulerError, SubmissionUnknown
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Mail
from hpcdist.plan.model import Plan
from hpcdist.plan.values import DEFAULT, Directive, Origin, Variable, Word
from hpcdist.schedulers.base import Submission
from hpcdist.schedulers.directives import directive_text
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.schedulers.sge import SGE, Qacct, SgeQstat, state
from hpcdist.schedulers.sge.directives import HEADER
from hpcdist.site.model import Directives, Site
from hpcdist.site.nodes import NodeType
from hpcdist.site.settings import Sge
from hpcdist.testing import MISSING, TIMED_OUT, contract, failed
from tests.wording import Wording

from .plans import answer_id, group, plan, site

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts" / "sge"
MANY = Sge(environments={"32": "mpi-32", "4": "four"}, one_node="smp", exclusive="excl")
MACHINE = site(scheduler="sge", sge=MANY)
FRACTIONS = site(scheduler="sge", sge=msgspec.structs.replace(MANY, gpu_fractions=True))
PLAIN = plan(group(gpus=0))


def texts(plan: Plan, site: Site = MACHINE) -> list[str]:
    return [directive_text(HEADER, line) for line in SGE.directives(plan, site)]


def job(job_id: str, token: str = "") -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", token)


def answer(name: str) -> Completed:
    return Completed(Command(()), 0, (TRANSCRIPTS / name).read_text())


def test_contract() -> None:
    contract.commands_and_answers(SGE, "123\n", "123")


@pytest.mark.parametrize(
    "said",
    [
        "  123.1-10:2\n",
        'Your job 123 ("mnist (2)") has been submitted\n',
        'Your job-array 123.1-10:2 ("mnist") has been submitted\n',
    ],
)
def test_contract_with_other_answers(said: str) -> None:
    contract.commands_and_answers(SGE, said, "123")


def test_directives_of_a_plain_job() -> None:
    assert texts(PLAIN) == ["-N mnist", "-r n", "-V", "-q gpu", "-pe mpi-32 64"]


def test_directives_of_everything_at_once() -> None:
    rich = plan(
        group(constraint="arch=lx-amd64,fast"),
        name="3d",
        account="proj",
        walltime=Walltime(5400),
        exclusive=True,
        array="1-9:2%2",
        dependency=("afterany:12:13", "afterany:4"),
        requeue=True,
        mail=Mail("me@example.org", ("end", "fail")),
        submit_environment="clean",
        extra_directives=("-R y", "-l scratch=2G,ssd", "-p -10", "-ckpt save", "-soft"),
        exclude_nodes=("n1", "n2"),
    )
    dialect = Sge(
        environments={"*": "mpi_{slots}"},
        gpu_fractions=True,
        memory="h_vmem",
        exclusive="excl",
        account="-A",
    )
    machine = site(scheduler="sge", sge=dialect, directives=Directives(mandatory=("-l os=el9",)))
    assert texts(rich, machine) == [
        "-N _3d",
        "-A proj",
        "-t 1-9:2",
        "-tc 2",
        "-hold_jid 12,13,4",
        '-l "hostname=!(n1|n2)"',
        "-r y",
        "-M me@example.org",
        "-m ae",
        "-q gpu",
        "-pe mpi_32 64",
        "-l h_rt=01:30:00",
        "-l arch=lx-amd64,fast",
        "-l gpu=0.125",
        "-l h_vmem=2000M",
        "-l excl=true",
        "-l os=el9",
        "-R y",
        "-l scratch=2G",
        "-l ssd=true",
        "-p -10",
        "-ckpt save",
        "-soft",
    ]


@pytest.mark.parametrize(
    ("dialect", "changed", "expected"),
    [
        (Sge(environments={"32": "a"}, one_node="smp"), PLAIN, "-pe a 64"),
        (Sge(environments={"*": "any"}), PLAIN, "-pe any 64"),
        (Sge(environments={"32": "a"}, one_node="smp"), plan(group(gpus=0, nodes=1)), "-pe a 32"),
        (Sge(one_node="smp"), plan(group(gpus=0, nodes=1)), "-pe smp 32"),
        (Sge(one_node="smp"), plan(group(gpus=0, nodes=1, cpus=1)), ""),
        (Sge(environments={"1": "one"}), plan(group(gpus=0, nodes=1, cpus=1)), "-pe one 1"),
        (Sge(whole_nodes="fill"), plan(group(gpus=0), exclusive=True), "-pe fill 80"),
        (Sge(whole_nodes="fill"), plan(group(gpus=0, cpus=40)), "-pe fill 80"),
    ],
)
def test_parallel_environments(dialect: Sge, changed: Plan, expected: str) -> None:
    owned = plan(*changed.placement.groups, exclusive=changed.request.exclusive, origins={"exclusive": WHOLE})
    machine = site(scheduler="sge", sge=dialect, node_types={"a100": NodeType(cpus=40)})
    assert "".join(text for text in texts(owned, machine) if text.startswith("-pe")) == expected


WHOLE = Origin("site", "testbed", "whole_nodes")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Sge(environments={"32": "a"}, gpu_fractions=True), "-l gpu=0.125"),
        (Sge(environments={"32": "a"}, gpus="ngpus", gpus_per="host"), "-l ngpus=4"),
    ],
)
def test_gpu_requests(dialect: Sge, expected: str) -> None:
    assert texts(plan(), site(sge=dialect))[-1] == expected
    assert not any("gpu=" in text for text in texts(plan(gpu_request="none"), site(sge=dialect)))


def test_whole_gpus_for_each_slot_need_no_fractions() -> None:
    assert texts(plan(group(cpus=2)), site(sge=Sge(environments={"2": "a"})))[-1] == "-l gpu=2"


def test_gpus_that_are_counted_once_a_job() -> None:
    dialect = Sge(environments={"32": "a"}, gpus_per="job")
    assert texts(plan(group(nodes=1)), site(sge=dialect))[-1] == "-l gpu=4"


def test_memory_for_each_host() -> None:
    dialect = Sge(environments={"32": "a"}, memory="mem_free", memory_per="host")
    assert texts(PLAIN, site(sge=dialect))[-1] == "-l mem_free=64000M"


@pytest.mark.parametrize(
    ("changed", "machine"),
    [
        pytest.param(plan(group(), group()), FRACTIONS, id="group group"),
        pytest.param(plan(group(cpus=24)), MACHINE, id="group cpus=24"),
        pytest.param(plan(), MACHINE, id="plain"),
        pytest.param(
            plan(),
            site(sge=Sge(environments={"32": "a"}, gpus_per="job")),
            id="environments=32:a gpus_per=job",
        ),
        pytest.param(
            plan(sge=Sge(remote="qrsh"), launcher="horovodrun", remote_shell="ssh"),
            FRACTIONS,
            id="remote=qrsh launcher=horovodrun remote_shell=ssh",
        ),
        pytest.param(plan(), site(sge=Sge(gpus=None)), id="gpus=None"),
        pytest.param(plan(exclusive=True), site(sge=Sge()), id="exclusive=True"),
        pytest.param(plan(qos="high"), FRACTIONS, id="qos=high"),
        pytest.param(plan(signal="USR1@60"), FRACTIONS, id="signal=USR1@60"),
        pytest.param(plan(elastic=True), FRACTIONS, id="elastic=True"),
        pytest.param(plan(array="0-3"), FRACTIONS, id="array=0-3"),
        pytest.param(plan(array="1,3"), FRACTIONS, id="array=1,3"),
        pytest.param(plan(dependency=("12",)), FRACTIONS, id="dependency=12"),
        pytest.param(plan(dependency=("afterok:1:2",)), FRACTIONS, id="dependency=afterok:1:2"),
        pytest.param(plan(dependency=("singleton",)), FRACTIONS, id="dependency=singleton"),
        pytest.param(
            plan(dependency=("after:1+5,afterok:2_3",)), FRACTIONS, id="dependency=after:1+5,afterok:2_3"
        ),
        pytest.param(
            plan(dependency=("afterany:1?afterany:2",)), FRACTIONS, id="dependency=afterany:1?afterany:2"
        ),
        pytest.param(plan(mail=Mail("me", ("requeue",))), FRACTIONS, id="mail=Mail me requeue"),
        pytest.param(plan(command="x\n#$ -l a=b\n"), FRACTIONS, id="command=x\n#$ -l a=b\n"),
        pytest.param(
            plan(variables=(Variable(name="A", value="x\n#$ y", origin=DEFAULT),)),
            FRACTIONS,
            id="variables=name=A value=x\n#$ y",
        ),
        pytest.param(
            plan(setup=(Word.raw("#$ -V", Origin("site", "x", "setup")),)), FRACTIONS, id="setup=#$ -V"
        ),
        pytest.param(plan(extra_directives=("-hold 12",)), FRACTIONS, id="-hold 12"),
        pytest.param(
            PLAIN, site(sge=MANY, directives=Directives(mandatory=("-par 4",))), id="MANY mandatory=-par 4"
        ),
        pytest.param(plan(extra_directives=("-pe x 3",)), FRACTIONS, id="-pe x 3"),
        pytest.param(plan(extra_directives=("-l a=1,h_rt=9",)), FRACTIONS, id="-l a=1,h_rt=9"),
        pytest.param(plan(extra_directives=("-l gpu=1",)), FRACTIONS, id="-l gpu=1"),
        pytest.param(plan(extra_directives=("-P x",)), FRACTIONS, id="-P x"),
        pytest.param(plan(extra_directives=("-o x",)), FRACTIONS, id="-o x"),
        pytest.param(plan(extra_directives=("-ac a=b",)), FRACTIONS, id="-ac a=b"),
        pytest.param(plan(extra_directives=("-R",)), FRACTIONS, id="-R"),
        pytest.param(plan(extra_directives=("#$ -R y",)), FRACTIONS, id="#$ -R y"),
        pytest.param(plan(extra_directives=("-p 'x",)), FRACTIONS, id="-p x"),
        pytest.param(PLAIN, site(sge=MANY, directives=Directives(forbidden=("-q",))), id="MANY forbidden=-q"),
    ],
)
def test_refusals(changed: Plan, machine: Site, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        SGE.directives(changed, machine)
    wording(str(error.value))


@pytest.mark.parametrize(
    ("flag", "value", "text"),
    [
        ("-h", None, "-h"),
        ("-q", "a@n1,b*", "-q a@n1,b*"),
        ("-l h_rt", "01:00:00", "-l h_rt=01:00:00"),
        ("-pe", "mpi 4", "-pe mpi 4"),
        ("-P", "a b", '-P "a b"'),
    ],
)
def test_quoting_as_qsub_reads_it(flag: str, value: str | None, text: str) -> None:
    assert directive_text(HEADER, Directive(flag=flag, value=value, origin=DEFAULT)) == text


@pytest.mark.parametrize("value", ["a\nb", 'a"b', "it's", "a#b", "a\x1bb"])
def test_values_that_no_directive_can_hold(value: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        directive_text(HEADER, Directive(flag="-P", value=value, origin=Origin("place", "exp.yml:3")))
    wording(str(error.value))


@pytest.mark.parametrize(
    ("run_dir", "array", "text"),
    [
        ("/runs/a-1", None, "#$ -o :/runs/a-1/logs/job.out"),
        ("/my runs:1/a", None, '#$ -o ":/my runs:1/a/logs/job.out"'),
        ("/runs/a-1", "1-3", "#$ -o :/runs/a-1/logs/job-$TASK_ID.out"),
        (None, None, "#$ -o mnist-$JOB_ID.out"),
        (None, "1-3", "#$ -o mnist-$JOB_ID-$TASK_ID.out"),
    ],
)
def test_where_the_output_goes(run_dir: str | None, array: str | None, text: str) -> None:
    lines = [line for line, _ in SGE.header(plan(array=array), run_dir)]
    assert lines == ["#$ -S /bin/bash", "#$ -cwd", "#$ -j y", text]


@pytest.mark.parametrize("run_dir", ["/a,b", "/a$JOB_ID", '/a"b', "/it's", "/a#b"])
def test_paths_that_qsub_reads_in_ways_of_its_own(run_dir: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        list(SGE.header(PLAIN, run_dir))
    wording(str(error.value))


def test_submit_command() -> None:
    command = SGE.submit(Submission("/runs/a-1/job.sh", "/runs/a-1", "abc"))
    assert command.argv == ("qsub", "-terse", "-ac", "hpcdist=abc", "/runs/a-1/job.sh")
    assert SGE.submit(Submission("/job.sh", "/", "abc", ("7",), ("-g", "tga-x"))).argv == (
        "qsub", "-terse", "-ac", "hpcdist=abc", "-hold_jid", "7", "-g", "tga-x", "/job.sh",
    )  # fmt: skip
    assert {"JOB_ID", "SLURM_", "SGE_"} <= set(command.drop_environment)
    assert {"SGE_ROOT", "SGE_CELL", "LC_ALL"} <= set(command.keep_environment)


REFUSED = "Unable to run job: {}\nExiting.\n"


@pytest.mark.parametrize(
    "completed",
    [
        MISSING,
        failed(1, REFUSED.format('unknown resource "nosuch"')),
        failed(1, REFUSED.format('job rejected: the requested parallel environment "x" does not exist')),
        failed(1, REFUSED.format('Job was rejected because job requests unknown queue "nosuch"')),
        failed(1, REFUSED.format('job rejected: the requested project "nosuch" does not exist')),
        failed(1, REFUSED.format('attribute "h_rt" is not a time value')),
        failed(5, "qsub: Unknown option\n"),
        failed(14, "Unable to read script file because of error: error opening x"),
    ],
    ids=answer_id,
)
def test_certain_refusals(completed: Completed, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as error:
        SGE.read_submit(completed)
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value))


@pytest.mark.parametrize(
    "completed",
    [
        TIMED_OUT,
        failed(-9),
        failed(0, "", "hello"),
        failed(1, REFUSED.format("Error reading answer list from qmaster")),
        failed(1, REFUSED.format("failed receiving gdi request response for mid=1 (got syncron message")),
        failed(1, "Traceback (most recent call last): a wrapper of the site"),
        failed(1, "something after it", "123\n"),
        failed(0, "", "123\nRemaining budget\n12345\n"),
        failed(0, "", 'Welcome!\nYour job 12 ("mnist") has been submitted\n'),
        failed(1, REFUSED.format("unable to send message to qmaster using port 6444: got send timeout")),
        failed(1, "denied: of course not", 'Your job 12 ("mnist") has been submitted\n'),
        failed(1),
    ],
)
def test_ambiguous_submit_answers(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown):
        SGE.read_submit(completed)


def test_find() -> None:
    found = SGE.read_find(answer("states.8.1.9.xml"))
    assert found == {"aaa": "5", "bbb": "6", "ccc": "7", "ddd": "8", "eee": "9", "fff": "10", "ggg": "11"}


@pytest.mark.parametrize("around", ["", "qmaster_response"])
def test_find_in_the_answers_of_other_grid_engines(around: str) -> None:
    """Open Grid Scheduler and Univa 8.6.6 put the details into ``djob_info`` itself, 6.2 into one more."""
    said = answer("states.8.1.9.xml")
    lines = (line for line in said.stdout.splitlines() if line.strip() not in ("<element>", "</element>"))
    text = "\n".join(lines)
    if around:
        text = text.replace("<djob_info>", f"<djob_info><{around}>")
        text = text.replace("</djob_info>", f"</{around}></djob_info>")
    assert "<djob_info>" in text
    assert SGE.read_find(said._replace(stdout=text)) == SGE.read_find(said)


def test_qstat() -> None:
    tokens = {
        "5": "aaa",
        "6": "bbb",
        "7": "ccc",
        "8": "ddd",
        "9": "eee",
        "10": "older",
        "11": "ggg",
        "12": "hhh",
    }
    jobs = [job(number, token) for number, token in {**tokens, "4242": "x"}.items()]
    (command,) = SgeQstat().commands(jobs)
    assert command.argv[-1] == "5,6,7,8,9,10,11,12,4242"
    other = Status(JobState.UNKNOWN, reason="its id now belongs to another job", source="qstat")
    found = SgeQstat().read(answer("states.8.1.9.xml"), jobs)
    assert found == {
        "5": Status(JobState.RUNNING, "r", source="qstat"),
        "6": Status(JobState.PENDING, "qw", None, found["6"].reason, "qstat"),
        "7": Status(JobState.PENDING, "hqw", None, found["7"].reason, "qstat"),
        "8": Status(JobState.PENDING, "Eqw", None, found["8"].reason, "qstat"),
        "9": Status(JobState.RUNNING, "r", source="qstat"),
        "10": other,
        "11": Status(JobState.RUNNING, "Rr", source="qstat"),
        "12": other,
    }
    assert "error: can't open output file" in found["8"].reason
    assert found["8"].reason.endswith("; when that is mended, `qmod -cj 8` lets it run")
    assert found["6"].reason.startswith('cannot run in PE "mpi-16" because it only offers')


@pytest.mark.parametrize(
    ("letters", "meaning"),
    [
        *((word, JobState.PENDING) for word in ("qw", "hqw", "hRwq", "Eqw", "EhRqw", "dqw")),
        *((word, JobState.RUNNING) for word in ("r", "t", "Rr", "Rt", "dr", "dt", "dRr", "hr", "hRr")),
        *((word, JobState.SUSPENDED) for word in ("s", "ts", "S", "tS", "T", "tT", "Rs", "RS", "ds", "dS")),
        *((word, JobState.UNKNOWN) for word in ("", "z", "d", "x", "running", "rr?")),
    ],
)
def test_every_state_has_a_meaning(letters: str, meaning: JobState) -> None:
    assert state(letters) is meaning


def test_qacct() -> None:
    jobs = [job(number) for number in ("13", "14", "15", "16", "17", "99")]
    (command,) = Qacct().commands(jobs)
    assert command.argv[4:8] == ("13", "/runs/mnist-1", "14", "/runs/mnist-1")
    assert Qacct().read(answer("qacct.8.1.9.txt"), jobs) == {
        "13": Status(JobState.COMPLETED, "exit_status 0", 0, "", "qacct"),
        "14": Status(JobState.FAILED, "exit_status 5", 5, "", "qacct"),
        "15": Status(
            JobState.TIMEOUT,
            "failed 37  : qmaster enforced h_rt, h_cpu, or h_vmem limit",
            137,
            "",
            "qacct",
        ),
        "16": Status(
            JobState.FAILED, "failed 100 : assumedly after job", 137, "assumedly after job", "qacct"
        ),
        **dict.fromkeys(("17_1", "17_2", "17_3"), Status(JobState.FAILED, "exit_status 3", 3, "", "qacct")),
    }


@pytest.mark.parametrize(
    ("failed", "category", "wallclock", "state"),
    [
        ("100 : assumedly after job", "-l h_rt=3", "3s", JobState.TIMEOUT),
        ("100 : assumedly after job", "-l h_rt=4", "3s", JobState.FAILED),
        ("100 : assumedly after job", "-l h_vmem=1G", "3s", JobState.FAILED),
        ("37  : qmaster enforced a limit", "-l h_rt=9,h_vmem=1G", "3s", JobState.OUT_OF_MEMORY),
        ("37  : qmaster enforced a limit", "-l h_cpu=9,h_vmem=1G", "3s", JobState.FAILED),
        ("37  : qmaster enforced a limit", "-l h_rt=3,h_vmem=1G", "3.02", JobState.TIMEOUT),
    ],
)  # fmt: skip
def test_limits_that_ended_a_job(failed: str, category: str, wallclock: str, state: JobState) -> None:
    lines = ("jobnumber 16", f"failed {failed}", "exit_status 137 (Killed)", f"ru_wallclock {wallclock}")
    record = "\n".join([*lines, f"category {category}"])
    found = Qacct().read(Completed(Command(("qacct",)), 0, record), [job("16")])
    assert (found["16"].state, found["16"].exit_code) == (state, 137)


def test_what_was_deleted_is_cancelled() -> None:
    past = answer("qacct.8.1.9.txt")
    said = past._replace(stdout=f"cancelled 16\ncancelled 99\ncancelled 17\nsettling 14\n{past.stdout}")
    found = Qacct().read(said, [job(number) for number in ("14", "16", "17", "99")])
    assert {number: status.state for number, status in found.items()} == {
        "14": JobState.UNKNOWN,
        "16": JobState.CANCELLED,
        "17": JobState.CANCELLED,  # of tasks that were deleted while they waited
        **dict.fromkeys(("17_1", "17_2", "17_3"), JobState.FAILED),
        "99": JobState.CANCELLED,
    }


def test_a_job_whose_processes_on_other_hosts_have_records_of_their_own() -> None:
    found = Qacct().read(answer("tight.8.1.9.txt"), [job("1")])
    assert (found["1"].state, found["1"].exit_code) == (JobState.FAILED, 137)


def test_hosts_that_do_not_report_are_named() -> None:
    assert SGE.ask_nodes(("n1", "n2")).argv == ("qhost", "-h", "n1,n2")
    assert SGE.read_nodes(answer("down.8.1.9.txt")) == ("n2",)
    assert SGE.read_nodes(Completed(Command(()), 1, "error: no such host")) == ()


def test_cancel() -> None:
    command = SGE.cancel([job("1"), job("2")])
    assert command.argv[3:] == ("hpcdist", "1", "/runs/mnist-1", "2", "/runs/mnist-1")


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("has registered the job-array task 7.3 for deletion; exit 0", 0, ""),
        ("denied: job 7 does not exist; exit 1", 0, ""),
        ("denied: not yours; exit 1", 1, "denied: not yours -- 7 -t 3"),
    ],
)
def test_an_element_is_cancelled_alone(tmp_path: Path, answer: str, code: int, said: str) -> None:
    text, _, end = answer.partition(";")
    (tmp_path / "qdel").write_text(f'#!/bin/bash\necho "{text} -- $*"\n{end}\n')
    (tmp_path / "qdel").chmod(0o755)
    argv = SGE.cancel_element(job("7"), 3).argv
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (code, said)


FAKE_QACCT = """#!/bin/bash
echo "asked $4" >>"$LOG"
case $4 in 5) exit 1 ;; *) printf 'jobnumber    %s\\ntaskid 1\\nfailed 0\\nexit_status 0\\n' "$4" ;; esac
"""


@pytest.mark.parametrize(
    ("number", "events", "asked", "said"),
    [
        ("4", ["started 4 {now} 0", "ended 4 {now} 7"], False, []),
        ("4", ["started 4 {now} 0"], True, []),
        ("4", ["started 4 {now} 0", "ended 4 {now} 137"], True, []),
        ("5", ["started 5 {now} 0", "ended 5 {now} 137"], True, ["settling 5"]),
        ("5", ["started 5 1000 0", "ended 5 1000 137"], True, []),
        ("5", ["ended 5 {now} 143", "started 5 {now} 1"], True, []),
        ("5", ["cancelled 5 {now} 0"], True, ["cancelled 5"]),
        ("4", ["ended 4.1 {now} 0", "ended 4.2 {now} 0"], True, ["settling 4"]),
        ("4", ["ended 4.1 1000 0", "ended 4.2 1000 0"], True, []),
    ],
)
def test_whom_the_accounting_is_asked_for(
    number: str,
    events: list[str],
    asked: bool,  # noqa: FBT001 (a case of the table)
    said: list[str],
    tmp_path: Path,
) -> None:
    now = str(int(time.time()))
    (tmp_path / "events").write_text("".join(f"{line.replace('{now}', now)}\n" for line in events))
    (tmp_path / "job.sh").write_text("")
    (tmp_path / "qacct").write_text(FAKE_QACCT)
    (tmp_path / "qacct").chmod(0o755)
    (command,) = Qacct().commands([Job(number, "a-1", str(tmp_path), "t")])
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")}
    done = subprocess.run(command.argv, env=environment, capture_output=True, text=True, check=True)
    assert (tmp_path / "log").exists() is asked
    assert [line for line in done.stdout.splitlines() if line.startswith(("settling", "cancelled"))] == said
