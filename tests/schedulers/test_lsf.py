"""The form of LSF's answers is that of ``tests/transcripts/lsf``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

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
from hpcdist.schedulers.lsf import LSF, REASONS, Bhist, Bjobs, status
from hpcdist.schedulers.lsf.directives import HEADER, hours_and_minutes, mail_flags
from hpcdist.site.model import Directives, Site
from hpcdist.site.nodes import Gpus
from hpcdist.site.settings import Lsf
from hpcdist.testing import MISSING, TIMED_OUT, contract, failed
from tests.wording import Wording

from .plans import answer_id, group, plan, site

TRANSCRIPTS = Path(__file__).parents[1] / "transcripts" / "lsf"
SITE = site(scheduler="lsf", launcher="mpirun", gpus=Gpus(request="gpus_per_node"))
EASY = site(scheduler="lsf", launcher="jsrun", lsf=Lsf(request="nodes", alloc_flags=("gpumps", "smt4")))
PLAN = plan(scheduler="lsf", gpu_request="gpus_per_node")
ANSWER = "Job <123> is submitted to queue <batch>.\n"


def texts(asked: Plan, machine: Site = SITE) -> list[str]:
    return [directive_text(HEADER, line) for line in LSF.directives(asked, machine)]


def job(job_id: str, token: str = "") -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", token)


def said(text: str) -> Completed:
    return Completed(Command(("bjobs",)), 0, text)


@pytest.mark.parametrize(
    "answer",
    [
        ANSWER,
        "Job <123> is submitted to default queue <normal>.\n",
        f"Welcome!\n{ANSWER}Have a nice day\n",
    ],
)
def test_contract(answer: str) -> None:
    contract.commands_and_answers(LSF, answer, "123")


def test_directives_of_slots() -> None:
    assert texts(PLAN) == [
        "-J mnist",
        "-q gpu",
        "-n 64",
        '-R "rusage[mem=64000MB] span[ptile=32]"',
        "-gpu num=4:mode=shared:j_exclusive=yes",
        "-rn",
    ]


def test_directives_of_the_easy_mode() -> None:
    assert texts(plan(account="abc", walltime=Walltime(5401), exclusive=True), EASY) == [
        "-J mnist",
        "-P abc",
        "-q gpu",
        "-W 1:31",
        "-nnodes 2",
        '-alloc_flags "gpumps smt4"',
        "-rn",
    ]


def test_allocation_flags_of_the_experiment_replace_those_of_the_site() -> None:
    own = texts(plan(extra_directives=("-alloc_flags 'gpumps nvme'",)), EASY)
    assert [text for text in own if "alloc" in text] == ['-alloc_flags "gpumps nvme"']


def test_a_site_may_take_accounts_as_user_groups() -> None:
    machine = site(scheduler="lsf", launcher="mpirun", lsf=Lsf(account="-G"))
    assert texts(plan(account="bank"), machine)[:2] == ["-J mnist", "-G bank"]


def test_directives_of_everything_at_once() -> None:
    rich = plan(
        group(constraint="a100 && !busy"),
        gpu_request="gpus_per_node",
        account="proj",
        walltime=Walltime(5400),
        exclusive=True,
        array="1-10:3,15%2",
        dependency=("12", "afterany:3:4_2", "afternotok:5_*?after:6"),
        signal="B:USR1@61",
        requeue=True,
        mail=Mail("me@example.org", ("begin", "end", "fail")),
        submit_environment="clean",
        extra_directives=("-app gpu", "-G 'a b'", "-stage storage=5", "-H"),
        exclude_nodes=("n1", "n-2"),
    )
    machine = site(
        scheduler="lsf",
        launcher="mpirun",
        lsf=Lsf(memory="slot"),
        gpus=Gpus(request="gpus_per_node", typed=True),
        directives=Directives(mandatory=("-x", '-sla "gold"')),
    )
    assert texts(rich, machine) == [
        '-J "mnist[1-10:3,15]%2"',
        "-P proj",
        "-q gpu",
        "-W 1:30",
        "-R \"select[hname!='n1' && hname!='n-2']\"",
        "-n 64",
        '-R "select[a100 && !busy] rusage[mem=2000MB] span[ptile=32]"',
        "-gpu num=4:mode=shared:j_exclusive=yes:gmodel=a100",
        "-x",
        '-w "done(12) && ended(3) && ended(4[2]) && (exit(5) || started(6))"',
        "-wa USR1",
        "-wt 2",
        "-r",
        "-u me@example.org",
        "-B",
        "-N",
        "-env none",
        "-sla gold",
        "-app gpu",
        '-G "a b"',
        "-stage storage=5",
        "-H",
    ]


def test_the_easy_mode_takes_flags_of_csm() -> None:
    extra = plan(extra_directives=("-core_isolation 2", "-cn_cu maxcus=1", "-jsm y", "-smt 4"))
    lines = texts(extra, site(scheduler="lsf", lsf=Lsf(request="nodes")))
    assert lines[-4:] == ["-core_isolation 2", "-cn_cu maxcus=1", "-jsm y", "-smt 4"]


def test_no_gpus_no_memory() -> None:
    lines = texts(plan(group(gpus=0, memory=None, partition=None)))
    assert lines == ["-J mnist", "-n 64", '-R "span[ptile=32]"', "-rn"]


def test_a_site_that_gives_gpus_unasked() -> None:
    assert not any("-gpu" in line for line in texts(plan(gpu_request="none")))


@pytest.mark.parametrize(
    ("changed", "machine"),
    [
        pytest.param(plan(group(), group()), SITE, id="group group"),
        pytest.param(plan(command="true\n#BSUB -q x\n"), SITE, id="command=true\n#BSUB -q x\n"),
        pytest.param(
            plan(variables=(Variable(name="X", value="a\n#BSUB -q x", origin=DEFAULT),)),
            SITE,
            id="variables=name=X value=a\n#BSUB -q x",
        ),
        pytest.param(
            plan(setup=(Word.raw("#BSUB -q x", Origin("site", "x", "setup")),)), SITE, id="setup=#BSUB -q x"
        ),
        pytest.param(plan(qos="high"), SITE, id="qos=high"),
        pytest.param(plan(elastic=True), SITE, id="elastic=True"),
        pytest.param(plan(gpu_request="gpus_per_task"), SITE, id="gpu_request=gpus_per_task"),
        pytest.param(plan(group(constraint="a100")), EASY, id="group constraint=a100 easy"),
        pytest.param(plan(array="0-9"), SITE, id="array=0-9"),
        pytest.param(plan(array="5,0"), SITE, id="array=5,0"),
        pytest.param(plan(array="1-9%0"), SITE, id="array=1-9%0"),
        pytest.param(plan(dependency=("singleton",)), SITE, id="dependency=singleton"),
        pytest.param(plan(dependency=("aftercorr:7",)), SITE, id="dependency=aftercorr:7"),
        pytest.param(plan(dependency=("after:7+5",)), SITE, id="dependency=after:7+5"),
        pytest.param(plan(signal="ALRM@60", walltime=Walltime(60)), SITE, id="signal=ALRM@60 walltime=60"),
        pytest.param(
            plan(signal="R:USR1@60", walltime=Walltime(60)), SITE, id="signal=R:USR1@60 walltime=60"
        ),
        pytest.param(plan(signal="USR1@60"), SITE, id="signal=USR1@60"),
        pytest.param(plan(mail=Mail("a", ("requeue",))), SITE, id="mail=Mail a requeue"),
        pytest.param(plan(extra_directives=("-q x",)), SITE, id="-q x"),
        pytest.param(plan(extra_directives=("-R 'span[hosts=1]'",)), SITE, id="-R span hosts=1"),
        pytest.param(plan(extra_directives=("-o x",)), SITE, id="-o x"),
        pytest.param(plan(extra_directives=("-Jd x",)), SITE, id="-Jd x"),
        pytest.param(plan(extra_directives=("-K",)), SITE, id="-K"),
        pytest.param(plan(extra_directives=("-csm y",)), EASY, id="-csm y easy"),
        pytest.param(plan(extra_directives=("--nnodes 2",)), SITE, id="--nnodes 2"),
        pytest.param(plan(extra_directives=("-Pproj",)), SITE, id="-Pproj"),
        pytest.param(plan(extra_directives=("app x",)), SITE, id="app x"),
        pytest.param(plan(extra_directives=("-alloc_flags nvme",)), SITE, id="-alloc_flags nvme"),
        pytest.param(plan(extra_directives=("-core_isolation 2",)), SITE, id="-core_isolation 2"),
        pytest.param(plan(extra_directives=("-nnodes 2",)), SITE, id="-nnodes 2"),
        pytest.param(PLAN, site(directives=Directives(mandatory=("-jsm n",))), id="mandatory=-jsm n"),
        pytest.param(PLAN, site(lsf=Lsf(alloc_flags=("smt4",))), id="alloc_flags=smt4"),
        pytest.param(plan(extra_directives=("-app a b",)), SITE, id="-app a b"),
        pytest.param(plan(extra_directives=("-app 'a",)), SITE, id="-app a"),
        pytest.param(PLAN, site(directives=Directives(forbidden=("-gpu",))), id="forbidden=-gpu"),
        pytest.param(PLAN, site(directives=Directives(mandatory=("-q x",))), id="mandatory=-q x"),
    ],
)
def test_refusals(changed: Plan, machine: Site, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        LSF.directives(changed, machine)
    wording(str(error.value))


def test_the_head_of_a_script() -> None:
    directives = (Directive(flag="-J", value="a", origin=Origin("place", "exp.yml:2")),)
    assert list(LSF.header(plan(directives=directives, lsf=Lsf(submit="stdin")), "/runs/a 1")) == [
        ("# bsub reads it from its standard input: bsub <job.sh", Origin("site", "testbed", "lsf.submit")),
        ('#BSUB -o "/runs/a 1/logs/lsf.report"', Origin("rule", "run directory")),
        ("#BSUB -J a", Origin("place", "exp.yml:2")),
    ]
    assert [line for line, _ in LSF.header(plan(array="1-3", lsf=Lsf(submit="file")), None)] == [
        "# bsub reads it by its name: bsub job.sh",
        "#BSUB -o mnist-%J.%I.out",
    ]
    assert [line for line, _ in LSF.header(plan(array="1-3"), "/r")][1] == "#BSUB -o /r/logs/lsf.%I.report"


def test_a_directory_that_bsub_would_read_as_a_pattern(wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        list(LSF.header(PLAN, "/runs/%J-1"))
    wording(str(error.value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-x"),
        ("a-1_b.c", "-x a-1_b.c"),
        ("a b", '-x "a b"'),
        ("it's", '-x "it\'s"'),
        ('say "x"', "-x 'say \"x\"'"),
        ("$HOME", "-x '$HOME'"),
    ],
)
def test_quoting(value: str | None, text: str) -> None:
    assert directive_text(HEADER, Directive(flag="-x", value=value, origin=DEFAULT)) == text


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "both ' and \"", "it's $5"])
def test_values_that_no_directive_can_hold(value: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        directive_text(HEADER, Directive(flag="-J", value=value, origin=Origin("place", "exp.yml:3")))
    wording(str(error.value))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "0:01"), (60, "0:01"), (61, "0:02"), (3600, "1:00"), (86399, "24:00"), (90000, "25:00")],
)
def test_run_limits_are_whole_minutes(seconds: int, text: str) -> None:
    assert hours_and_minutes(seconds) == text


@pytest.mark.parametrize(
    ("events", "flags"),
    [
        (("end", "fail"), ["-N"]),
        (("fail",), ["-Ne"]),
        (("begin",), ["-B"]),
        (("ALL",), ["-B", "-N"]),
        (("none",), []),
    ],
)
def test_mail(events: tuple[str, ...], flags: list[str]) -> None:
    assert mail_flags(events) == flags


def test_submit_says_how_the_script_wants_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "bsub").write_text('#!/bin/bash\necho "$#:$*:$(cat)"\n')
    (tmp_path / "bsub").chmod(0o755)
    found = []
    for name, stdin in (("a b.sh", True), ("b.sh", False)):
        script = tmp_path / name
        script.write_text(
            "".join(
                f"{line}\n"
                for line, _ in LSF.header(plan(lsf=Lsf(submit="stdin" if stdin else "file")), None)
            )
        )
        argv = LSF.submit(Submission(str(script), str(tmp_path), "tok")).argv
        done = subprocess.run(
            argv,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout)
    assert found[0].startswith("2:-Jd hpcdist:tok:# bsub reads it from its standard input")
    assert found[1] == f"3:-Jd hpcdist:tok {tmp_path}/b.sh:\n"


def test_a_script_that_is_gone_was_not_submitted(tmp_path: Path, wording: Wording) -> None:
    command = LSF.submit(Submission(str(tmp_path / "none"), str(tmp_path), "tok"))
    done = subprocess.run(command.argv, capture_output=True, text=True, check=False)
    with pytest.raises(SchedulerError) as error:
        LSF.read_submit(Completed(command, done.returncode, done.stdout, done.stderr))
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value).replace(str(tmp_path), "TMP"))


def test_variables_that_would_hide_the_answer() -> None:
    command = LSF.submit(Submission("/runs/a-1/job.sh", "/runs/a-1", "abc"))
    assert set(command.drop_environment) == {"BSUB_", "LSB_BJOBS_"}
    assert command.keep_environment == ("LC_ALL",)


@pytest.mark.parametrize(
    "completed",
    [
        MISSING,
        failed(127, "hpcdist: line 3: exec: bsub: not found"),
        failed(255, "nope: No such queue. Job not submitted."),
        failed(255, "User cannot use the queue. Job not submitted."),
        failed(255, "01:30:00: Bad RUNLIMIT specification. Job not submitted."),
        failed(255, "RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted."),
        failed(255, "Too many processors requested. Job not submitted."),
        failed(255, "Bad resource requirement syntax. Job not submitted."),
        failed(255, "A project is required.\nRequest aborted by esub. Job not submitted."),
        failed(255, "bsub: illegal option -- Q\nUsage: bsub [options] command"),
    ],
    ids=answer_id,
)
def test_certain_refusals(completed: Completed, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as error:
        LSF.read_submit(completed)
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value))


@pytest.mark.parametrize(
    "completed",
    [
        TIMED_OUT,
        failed(-9),
        failed(0, "", "hello"),
        failed(255, "Communication time out. Job not submitted."),
        failed(255, "Failed in LSF library call: Connection reset by peer. Job not submitted."),
        failed(255, "Batch library internal error. Job not submitted."),
        failed(255, "batch system daemon not responding ... still trying"),
        failed(255, "Traceback: a wrapper of the site"),
        failed(1, "something after it", ANSWER),
        failed(0, "", ANSWER + ANSWER.replace("2", "3")),
        failed(1),
    ],
)
def test_ambiguous_submit_answers(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown):
        LSF.read_submit(completed)


def test_refusal_after_waiting_for_lsf(wording: Wording) -> None:
    waited = "Cannot connect to LSF. Please wait ...\n" * 3
    with pytest.raises(SchedulerError) as error:
        LSF.read_submit(failed(255, f"{waited}x: No such queue. Job not submitted."))
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value))


TOKENS = {f"{22001 + number}": letter * 3 for number, letter in enumerate("abcdefghij")}


def test_bjobs_of_10_1() -> None:
    text = (TRANSCRIPTS / "bjobs.10.1.json").read_text()
    jobs = [job(job_id, token) for job_id, token in TOKENS.items()]
    assert Bjobs().read(said(text), [*jobs, job("99")]) == {
        "22001": Status(JobState.PENDING, "PEND", None, "New job is waiting for scheduling", "bjobs"),
        "22002": Status(JobState.RUNNING, "RUN", None, "", "bjobs"),
        "22003": Status(JobState.COMPLETED, "DONE", 0, "", "bjobs"),
        "22004": Status(JobState.CANCELLED, "EXIT", None, "TERM_OWNER: job killed by owner", "bjobs"),
        "22005": Status(
            JobState.TIMEOUT,
            "EXIT",
            140,
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit",
            "bjobs",
        ),
        "22006": Status(
            JobState.OUT_OF_MEMORY,
            "EXIT",
            137,
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
            "bjobs",
        ),
        "22007_1": Status(JobState.COMPLETED, "DONE", 0, "", "bjobs"),
        "22007_2": Status(JobState.FAILED, "EXIT", 3, "", "bjobs"),
        "22008": Status(JobState.SUSPENDED, "PSUSP", None, "", "bjobs"),
        "22009": Status(JobState.UNKNOWN, "UNKWN", None, "", "bjobs"),
        "22010": Status(JobState.UNKNOWN, "", None, "its id now belongs to another job", "bjobs"),
    }
    assert LSF.read_find(said(text)) == {letter * 3: str(22001 + n) for n, letter in enumerate("abcdefghi")}


def test_bjobs_of_9_1() -> None:
    text = (TRANSCRIPTS / "bjobs.9.1.txt").read_text()
    jobs = [job(job_id, token) for job_id, token in TOKENS.items()]
    assert {key: (found.state, found.exit_code) for key, found in Bjobs().read(said(text), jobs).items()} == {
        "22001": (JobState.PENDING, None),
        "22003": (JobState.COMPLETED, 0),
        "22005": (JobState.TIMEOUT, 140),
        "22007_1": (JobState.COMPLETED, 0),
        "22007_2": (JobState.FAILED, 3),
    }
    assert LSF.read_find(said(text)) == {"aaa": "22001", "ccc": "22003", "eee": "22005", "ggg": "22007"}


def test_bjobs_of_8() -> None:
    text = (TRANSCRIPTS / "bjobs.8.txt").read_text()
    jobs = [job("5132676", "aaa"), job("5137399", "bbb"), job("1", "ccc")]
    assert Bjobs().read(said(text), jobs) == {
        "5132676": Status(JobState.RUNNING, "RUN", None, "", "bjobs"),
        "5137399": Status(JobState.PENDING, "PEND", None, "", "bjobs"),
    }
    assert LSF.read_find(said(text)) == {}


def test_the_elements_of_an_array_in_the_table() -> None:
    line = "7       me      {:5} normal     login       n1          *t [x][{}] Nov 13 12:18\n"
    text = "JOBID   USER    STAT  QUEUE\n" + "".join(map(line.format, ("RUN", "DONE", "EXIT"), (1, 2, 10)))
    found = Bjobs().read(said(text), [job("7", "")])
    assert {key: status.state for key, status in found.items()} == {
        "7_1": JobState.RUNNING, "7_2": JobState.COMPLETED, "7_10": JobState.FAILED
    }  # fmt: skip


def test_of_elements_that_cannot_be_told_apart_none_is_a_success() -> None:
    rows = [{"JOBID": "7", "STAT": stat} for stat in ("EXIT", "DONE")]
    for each in (rows, rows[::-1]):
        found = Bjobs().read(said(json.dumps({"RECORDS": each})), [job("7", "")])
        assert found["7"].state is JobState.FAILED


def test_bjobs_asks_once_for_all() -> None:
    (command,) = Bjobs().commands([job("1"), job("2")])
    assert command.argv[:2] == ("bash", "-c")
    assert command.argv[-1] == "jobid jobindex stat exit_code exit_reason pend_reason job_description"


@pytest.mark.parametrize(
    ("body", "code", "out"),
    [
        ("echo '{}'", 0, "{}\n"),
        ('[[ $2 != -json ]] || exit 255; echo "$3"', 0, "-o\n"),
        ("[[ $* == '-a -w' ]] || exit 255; echo table", 0, "table\n"),
        ("echo No job found >&2; exit 255", 0, "No job found\n"),
        ("echo No job found >&2", 0, "No job found\n"),
        ("echo LSF is down >&2; exit 255", 255, ""),
    ],
)
def test_bjobs_of_whatever_version(body: str, code: int, out: str, tmp_path: Path) -> None:
    (tmp_path / "bjobs").write_text(f"#!/bin/bash\n{body}\n")
    (tmp_path / "bjobs").chmod(0o755)
    (command,) = Bjobs().commands([])
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(command.argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, out)
    assert (code == 0) == (done.stderr == "")


def test_bhist() -> None:
    text = (TRANSCRIPTS / "bhist.10.1.txt").read_text()
    one, other = Bhist().commands([job("22006", "fff"), job("7")])
    assert (one.argv, other.argv) == (("bhist", "-n", "0", "-l", "22006"), ("bhist", "-n", "0", "-l", "7"))
    reason = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit"
    assert Bhist().read(Completed(one, 0, text), [job("22006", "fff")]) == {
        "22006": Status(JobState.OUT_OF_MEMORY, "EXIT", 1, reason, "bhist")
    }
    assert Bhist().read(Completed(one, 0, text), [job("22006", "ggg")]) == {}
    running = text[: text.index("Tue Dec 23 16:34:13: Exited")]
    assert Bhist().read(Completed(one, 0, running), [job("22006", "fff")]) == {}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            ["Done successfully. The CPU time used is 3 seconds;"],
            Status(JobState.COMPLETED, "DONE", 0, "", "bhist"),
        ),
        (
            ["Exited by signal 9. The CPU time used is 3 seconds;"],
            Status(JobState.FAILED, "EXIT", 137, "", "bhist"),
        ),
        (
            ["Completed <exit>; TERM_OWNER: job killed by owner."],
            Status(JobState.CANCELLED, "EXIT", None, "TERM_OWNER: job killed by owner", "bhist"),
        ),
        (["Exited with exit code 5. The CPU time", "Requeued job is waiting;", "Starting (Pid 7);"], None),
    ],
)
def test_ends_in_the_history(events: list[str], expected: Status | None) -> None:
    (command,) = Bhist().commands([job("12")])
    text = "Job <12>, User <me>\n" + "".join(f"Sat Nov 21 07:44:04: {event}\n" for event in events)
    assert Bhist().read(Completed(command, 0, text), [job("12")]) == ({"12": expected} if expected else {})


def test_the_elements_of_an_array_in_the_history() -> None:
    (command,) = Bhist().commands([job("12")])
    first = "Job <12[1]>, User <me>\nSat Nov 21 07:44:04: Done successfully. x\n-----\n"
    second = "Job <12[2]>, User <me>\nSat Nov 21 07:44:04: Starting (Pid 7);\n"
    done = Status(JobState.COMPLETED, "DONE", 0, "", "bhist")
    assert Bhist().read(Completed(command, 0, first + second), [job("12")]) == {
        "12_1": done,
        "12_2": Status(JobState.UNKNOWN, "not over", source="bhist"),
    }
    ended = second + "Sat Nov 21 07:45:04: Exited with exit code 4. x\n"
    found = Bhist().read(Completed(command, 0, first + ended), [job("12")])
    assert found == {"12_1": done, "12_2": Status(JobState.FAILED, "EXIT", 4, "", "bhist")}


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PEND", JobState.PENDING),
        ("PROV", JobState.PENDING),
        ("WAIT", JobState.PENDING),
        ("PSUSP", JobState.SUSPENDED),
        ("USUSP", JobState.SUSPENDED),
        ("SSUSP", JobState.SUSPENDED),
        ("RUN", JobState.RUNNING),
        ("DONE", JobState.COMPLETED),
        ("EXIT", JobState.FAILED),
        ("ZOMBI", JobState.UNKNOWN),
        ("UNKWN", JobState.UNKNOWN),
        ("BROODING", JobState.UNKNOWN),
    ],
)
def test_every_state_has_a_meaning(word: str, state: JobState) -> None:
    assert (status(word).state, status(word).native) == (state, word)


@pytest.mark.parametrize("reason", REASONS)
def test_reasons_of_an_exit(reason: str) -> None:
    assert status("EXIT", "130", f"{reason}: job killed") == Status(
        REASONS[reason], "EXIT", 130, f"{reason}: job killed", "bjobs"
    )
    assert status("RUN", "", f"{reason}: job killed").state is JobState.RUNNING


def test_every_reason_of_the_manual_is_known() -> None:
    """As https://www.ibm.com/docs/en/spectrum-lsf/10.1.0 lists them, and lsbatch.h of 10.1."""
    manual = (
        "ADMIN BUCKET_KILL CHKPNT CPULIMIT CSM_ALLOC CTRL_PID CWD_NOTEXIST DATA DEADLINE EXTERNAL_SIGNAL "
        "FORCE_ADMIN FORCE_OWNER KUBE LOAD MC_RECALL MEMLIMIT ORPHAN_SYSTEM OTHER OWNER PREEMPT "
        "PRE_EXEC_FAIL PROCESSLIMIT RC RC_RECLAIM REMOVE_HUNG_JOB REQUEUE_ADMIN REQUEUE_OWNER REQUEUE_RC RMS "
        "RUNLIMIT SLURM SWAP THREADLIMIT UNKNOWN WINDOW ZOMBIE"
    )
    assert sorted(REASONS) == [f"TERM_{word}" for word in manual.split()]
    ends = ("RC", "REQUEUE_RC", "ORPHAN_SYSTEM", "RMS", "EXTERNAL_SIGNAL", "NEW_IN_10_2")
    assert [status("EXIT", "1", f"TERM_{word}: x").state for word in ends] == [
        JobState.PREEMPTED, JobState.PREEMPTED, JobState.CANCELLED, JobState.NODE_FAIL, JobState.FAILED,
        JobState.FAILED,
    ]  # fmt: skip


def test_unknown_exit_reason() -> None:
    assert status("EXIT", "1", "TERM_UNKNOWN: LSF cannot determine").state is JobState.FAILED


@pytest.mark.parametrize(
    ("body", "code", "err"),
    [
        ("echo 'Job <1> is being terminated'", 0, ""),
        ("echo 'Job <1>: Job has already finished' >&2; exit 255", 0, ""),
        ("echo 'Job <1>: No matching job found' >&2; exit 255", 1, "Job <1>: No matching job found\n"),
        (
            "echo 'Job <1>: Permission denied'; echo 'Job <2> is being terminated'; exit 255",
            1,
            "Job <1>: Permission denied\n",
        ),
        ("exit 255", 1, "bkill ended without a message\n"),
    ],
)
def test_cancel(body: str, code: int, err: str, tmp_path: Path) -> None:
    (tmp_path / "bkill").write_text(f"#!/bin/bash\n{body}\n")
    (tmp_path / "bkill").chmod(0o755)
    argv = LSF.cancel([job("1"), job("2")]).argv
    assert argv[-2:] == ("1", "2")
    assert LSF.cancel_element(job("1"), 3).argv == (*argv[:-2], "1[3]")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, err)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(
            {"RECORDS": [{"JOBID": "x", "STAT": "RUN"}, {"JOBID": "1"}, 7, {"JOBID": 1, "STAT": "RUN"}]}
        ),
        json.dumps({"RECORDS": {"JOBID": "1"}}),
        '{"RECORDS": [{"JOBID": "1", "STAT": "RUN"',
        "[" * 100_000,
        "{" * 100_000,
    ],
)
def test_junk(text: str) -> None:
    assert Bjobs().read(said(text), [job("1")]) == {}


@pytest.mark.parametrize(
    ("texts_of_file", "value"),
    [
        (("1?2,3",), "done(1) || (done(2) && done(3))"),
        (("1:2?3", "afterany:4"), "((done(1) && done(2)) || done(3)) && ended(4)"),
        (("1?2",), "done(1) || done(2)"),
    ],
)
def test_conditions_with_another_operator_stand_in_parentheses(
    texts_of_file: tuple[str, ...], value: str
) -> None:
    found = LSF.directives(plan(dependency=texts_of_file), SITE)
    assert [line.value for line in found if line.flag == "-w"] == [value]
