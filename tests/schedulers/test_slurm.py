"""Texts of answers are those of a real Slurm 22.05.8."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import PlanError, SchedulerError, SubmissionUnknown
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Mail
from hpcdist.plan.model import Plan
from hpcdist.plan.values import DEFAULT, Directive, Origin
from hpcdist.schedulers.base import Submission
from hpcdist.schedulers.directives import directive_text
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.schedulers.slurm import SLURM
from hpcdist.schedulers.slurm.directives import HEADER
from hpcdist.schedulers.slurm.queries import STATES, Sacct, Scontrol, Squeue, status
from hpcdist.site.model import Directives, Site
from hpcdist.site.nodes import Gpus
from hpcdist.testing import MISSING, TIMED_OUT, contract, failed
from tests.wording import Wording

from .plans import PLAN, SITE, answer_id, group, plan, site

SAID = "sbatch: error: Batch job submission failed: "


def texts(plan: Plan, site: Site, number: int = 0) -> list[str]:
    return [directive_text(HEADER, line) for line in SLURM.directives(plan, site) if line.group == number]


def job(job_id: str, token: str = "") -> Job:
    return Job(job_id, "mnist-1", "/runs/mnist-1", token)


def test_contract() -> None:
    contract.commands_and_answers(SLURM, "123\n", "123")


@pytest.mark.parametrize(
    ("answer", "job_id"),
    [
        ("  123;tursa\n", "123;tursa"),
        ("Submitted batch job 123\n", "123"),
        ("Submitted batch job 123 on cluster tursa\n", "123;tursa"),
    ],
)
def test_contract_with_other_answers(answer: str, job_id: str) -> None:
    contract.commands_and_answers(SLURM, answer, job_id)


def test_directives_of_a_plain_job() -> None:
    assert texts(PLAN, SITE) == [
        "--job-name=mnist",
        "--no-requeue",
        "--export=ALL",
        "--partition=gpu",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=8",
        "--mem=64000M",
        "--gres=gpu:4",
    ]


def test_directives_of_everything_at_once() -> None:
    rich = plan(
        group(constraint="a100&nvlink"),
        name="my job #1",
        account="proj",
        qos="high",
        walltime=Walltime(5400),
        exclusive=True,
        array="0-9%2",
        dependency=("12", "afterany:3:4", "singleton"),
        signal="B:USR1@60",
        requeue=True,
        mail=Mail("me@example.org", ("end", "fail")),
        submit_environment="clean",
        extra_directives=("--reservation=school", "-x 'n[1-2]'", '--licenses="a b"', "--contiguous"),
    )
    machine = site(directives=Directives(mandatory=("--exclusive", "-L scratch")), gpus=Gpus(typed=True))
    assert texts(rich, machine) == [
        '--job-name="my job #1"',
        "--array=0-9%2",
        "--dependency=afterok:12,afterany:3:4,singleton",
        "--signal=B:USR1@60",
        "--requeue",
        "--open-mode=append",
        "--mail-user=me@example.org",
        "--mail-type=END,FAIL",
        "--export=NONE",
        "--account=proj",
        "--partition=gpu",
        "--qos=high",
        "--time=01:30:00",
        '--constraint="a100&nvlink"',
        "--exclusive",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=8",
        "--mem=64000M",
        "--gres=gpu:a100:4",
        "-L scratch",
        "--reservation=school",
        '--exclude="n[1-2]"',
        '--licenses="a b"',
        "--contiguous",
    ]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("gres", ["--gres=gpu:4"]),
        ("gpus_per_node", ["--gpus-per-node=4"]),
        ("gpus_per_task", ["--gpus-per-task=1"]),
        ("none", []),
    ],
)
def test_gpu_requests(request_: str, expected: list[str]) -> None:
    assert [text for text in texts(plan(gpu_request=request_), SITE) if "gpu" in text] == [
        "--partition=gpu",
        *expected,
    ]


def test_no_gpus_no_memory() -> None:
    lines = texts(plan(group(gpus=0, memory=None, partition=None)), SITE)
    assert lines == [
        "--job-name=mnist",
        "--no-requeue",
        "--export=ALL",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=8",
    ]


def test_uneven_tasks_ask_for_whole_nodes_of_cpus() -> None:
    lines = texts(plan(group(even=False, tasks_per_node=3, cpus=10, gpus=0)), SITE)
    assert lines[4:] == [
        "--nodes=2",
        "--ntasks-per-node=10",
        "--cpus-per-task=1",
        "--mem=64000M",
    ]


def test_heterogeneous_groups() -> None:
    two = plan(group(), group(partition="cpu", gpus=0, nodes=1), account="proj", signal="USR1@60")
    assert texts(two, SITE, 1) == [
        "--account=proj",
        "--partition=cpu",
        "--nodes=1",
        "--ntasks-per-node=4",
        "--cpus-per-task=8",
        "--mem=64000M",
    ]
    assert [line.group for line in SLURM.directives(two, SITE)] == [0] * 11 + [1] * 6


def test_origins() -> None:
    known = plan(
        group(origin=Origin("place", "exp.yml:9")),
        origins={"name": Origin("place", "exp.yml:2"), "nodes": Origin("place", "exp.yml:7")},
    )
    lines = SLURM.directives(known, SITE)
    assert lines[0] == Directive(flag="--job-name", value="mnist", origin=Origin("place", "exp.yml:2"))
    origins = {line.flag: line.origin for line in lines}
    assert origins["--nodes"] == Origin("place", "exp.yml:7")
    assert origins["--mem"] == Origin("place", "exp.yml:9")


@pytest.mark.parametrize(
    ("texts_of_file", "value"),
    [
        (("4711,4712:4713",), "afterok:4711,afterok:4712:4713"),
        (("12_*",), "afterok:12_*"),
        (("12?afterany:13+5",), "afterok:12?afterany:13+5"),
        (("12", "singleton"), "afterok:12,singleton"),
    ],
)
def test_ids_alone_are_written_with_a_kind_wherever_they_stand(
    texts_of_file: tuple[str, ...], value: str
) -> None:
    found = SLURM.directives(plan(dependency=texts_of_file), SITE)
    assert [line.value for line in found if line.flag == "--dependency"] == [value]


@pytest.mark.parametrize(
    ("changed", "machine"),
    [
        pytest.param(plan(group(), group(), array="0-3"), SITE, id="group group array=0-3"),
        pytest.param(plan(dependency=("1", "2?3")), SITE, id="dependency=1 2?3"),
        pytest.param(plan(dependency=("1,2?3",)), SITE, id="dependency=1,2?3"),
        pytest.param(
            plan(group(even=False), gpu_request="gpus_per_task"),
            SITE,
            id="group even=False gpu_request=gpus_per_task",
        ),
        pytest.param(
            plan(group(gpus_per_task=None), gpu_request="gpus_per_task"),
            SITE,
            id="group gpus_per_task=None gpu_request=gpus_per_task",
        ),
        pytest.param(plan(extra_directives=("--mem=4G",)), SITE, id="--mem=4G"),
        pytest.param(plan(extra_directives=("-p x",)), SITE, id="-p x"),
        pytest.param(plan(extra_directives=("--part=x",)), SITE, id="--part=x"),
        pytest.param(plan(extra_directives=("--output=x",)), SITE, id="--output=x"),
        pytest.param(plan(extra_directives=("--comment=x",)), SITE, id="--comment=x"),
        pytest.param(plan(extra_directives=("-D /tmp",)), SITE, id="-D /tmp"),
        pytest.param(plan(extra_directives=("--gres=lscratch:9",)), SITE, id="--gres=lscratch:9"),
        pytest.param(plan(extra_directives=("--licenses=a b",)), SITE, id="--licenses=a b"),
        pytest.param(plan(extra_directives=("#SBATCH --hold",)), SITE, id="#SBATCH --hold"),
        pytest.param(plan(extra_directives=("--licenses='a",)), SITE, id="--licenses=a"),
        pytest.param(
            PLAN, site(directives=Directives(forbidden=("--gres", "--mem"))), id="forbidden=--gres --mem"
        ),
        pytest.param(PLAN, site(directives=Directives(mandatory=("--nodes=4",))), id="mandatory=--nodes=4"),
    ],
)
def test_refusals(changed: Plan, machine: Site, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        SLURM.directives(changed, machine)
    wording(str(error.value))


def test_gres_of_ones_own_where_hpcdist_asks_for_none() -> None:
    lines = texts(plan(group(gpus=0), extra_directives=("--gres=lscratch:9",)), SITE)
    assert lines[-1] == "--gres=lscratch:9"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "--hold"),
        ("a-1_b.c", "--hold=a-1_b.c"),
        ("my job", '--hold="my job"'),
        ("a#b", '--hold="a#b"'),
        ('a"b\\c', '--hold="a\\"b\\\\c"'),
        ("it's", '--hold="it\'s"'),
        ("ünï", '--hold="ünï"'),
        ("$HOME `date`", '--hold="$HOME `date`"'),
        ("", '--hold=""'),
    ],
)
def test_quoting_as_sbatch_reads_it(value: str | None, text: str) -> None:
    assert directive_text(HEADER, Directive(flag="--hold", value=value, origin=DEFAULT)) == text


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b", "a\x1bb", "a\x85b", "a\u2028b"])
def test_values_that_no_directive_can_hold(value: str, wording: Wording) -> None:
    with pytest.raises(PlanError) as error:
        directive_text(HEADER, Directive(flag="--job-name", value=value, origin=Origin("place", "exp.yml:3")))
    wording(str(error.value))


def test_submit_command() -> None:
    command = SLURM.submit(Submission("/runs/a-1/job.sh", "/runs/a-1", "abc"))
    assert command.argv == ("sbatch", "--parsable", "--comment=hpcdist:abc", "/runs/a-1/job.sh")
    assert {"SBATCH_", "SLURM_"} <= set(command.drop_environment)
    assert {"SLURM_CONF", "LC_ALL"} <= set(command.keep_environment)


@pytest.mark.parametrize(
    "completed",
    [
        MISSING,
        failed(
            1,
            SAID + "Invalid account or account/partition combination",
        ),
        failed(
            1,
            "sbatch: error: invalid partition specified: nope\n" + SAID + "Invalid partition name specified",
        ),
        failed(1, SAID + "Requested node configuration is not available"),
        failed(1, SAID + "Requested time limit is invalid"),
        failed(1, SAID + "Invalid qos specification"),
        failed(1, SAID + "Invalid job array specification"),
        failed(1, SAID + "Invalid generic resource (gres) specification"),
        failed(1, SAID + "Invalid wckey specification"),
        failed(1, SAID + "Invalid Trackable RESource (TRES) specification"),
        failed(1, SAID + "Invalid user id"),
        failed(255, "sbatch: error: Invalid --mail-type specification"),
        failed(255, "sbatch: error: invalid number of nodes (-N 0)"),
        failed(255, "sbatch: unrecognized option '--bogus=1'"),
        failed(1, "sbatch: error: Batch script is empty!"),
        failed(
            1,
            "sbatch: error: _establish_config_source: failed to fetch config\n"
            "sbatch: fatal: Could not establish a configuration source",
        ),
        failed(
            1,
            "sbatch: error: ClusterName needs to be specified\n"
            "sbatch: fatal: Unable to process configuration file",
        ),
        failed(1, SAID + "Access/permission denied"),
        failed(
            1,
            SAID + "Unable to contact slurm controller (connect failure)",
        ),
    ],
    ids=answer_id,
)
def test_certain_refusals(completed: Completed, wording: Wording) -> None:
    with pytest.raises(SchedulerError) as error:
        SLURM.read_submit(completed)
    assert not isinstance(error.value, SubmissionUnknown)
    wording(str(error.value))


@pytest.mark.parametrize(
    "completed",
    [
        TIMED_OUT,
        failed(-9),
        failed(0, "", "hello"),
        failed(0, "", "123\nRemaining budget\n12345\n"),
        failed(0, "", "Welcome!\n123\n"),
        failed(0, "", "Submitted batch job 123\nSubmitted batch job 124\n"),
        failed(0, "", "You have Submitted batch job 123\n"),
        failed(1, SAID + "Invalid authentication credential"),
        failed(1, SAID + "Invalid job credential"),
        failed(1, SAID + "Protocol authentication error"),
        failed(1, SAID + "Invalid configuration for external job"),
        failed(1, "sbatch: error: Invalid authentication credential"),
        failed(1, "sbatch: error: slurm_unpack_received_msg: Invalid Protocol Version 9728 from uid=0"),
        failed(1, SAID + "Socket timed out on send/recv operation"),
        failed(
            1,
            SAID + "Unable to contact slurm controller (receive failure)",
        ),
        failed(1, SAID + "Connection reset by peer"),
        failed(1, SAID + "Connection timed out"),
        failed(1, SAID + "Unexpected message received"),
        failed(1, SAID + "Unspecified error"),
        failed(1, "sbatch: error: Invalid user option ignored\n" + SAID + "Connection timed out"),
        failed(1, "Traceback (most recent call last): a wrapper of the site"),
        failed(1, "sbatch: error: something after it", "123\n"),
        failed(1),
    ],
)
def test_ambiguous_submit_answers(completed: Completed) -> None:
    with pytest.raises(SubmissionUnknown):
        SLURM.read_submit(completed)


def test_find() -> None:
    squeue, sacct = SLURM.find()
    assert squeue.argv == ("squeue", "--me", "-h", "-t", "all", "-o", "%i|%k")
    assert sacct.argv[0] == "sacct"
    answer = (
        "14|(null)\n20_1|hpcdist:aaa\n20_[3-5%2]|hpcdist:aaa\n21+0|hpcdist:hhh\n21+1|hpcdist:hhh\n"
        "30|hpcdist:a b|c\n31|mine: hpcdist:x\n32|\n"
    )
    assert SLURM.read_find(Completed(squeue, 0, answer)) == {"aaa": "20", "hhh": "21"}


SQUEUE = Command(("squeue",))
ANSWER = (
    "14|COMPLETED|None|(null)\n"
    "20_1|FAILED|NonZeroExitCode|hpcdist:aaa\n"
    "20_[3-5%2]|PENDING|JobArrayTaskLimit|hpcdist:aaa\n"
    "20_0|RUNNING|None|hpcdist:aaa\n"
    "21+0|PENDING|Resources|hpcdist:hhh\n"
    "21+1|PENDING|None|hpcdist:hhh\n"
    "22|BROODING|None|(null)\n"
    "23|RUNNING|None|hpcdist:older\n"
    "24|CONFIGURING|a, b|x|y|z\n"
)


def test_squeue() -> None:
    ids = {"14": "", "20": "aaa", "21": "hhh", "22": "", "23": "newer", "24": "", "99": ""}
    jobs = [job(job_id, token) for job_id, token in ids.items()]
    assert [command.argv for command in Squeue().commands(jobs)] == [
        ("squeue", "--me", "-h", "-t", "all", "-o", "%i|%T|%r|%k")
    ]
    assert Squeue().read(Completed(SQUEUE, 0, ANSWER), jobs) == {
        "14": Status(JobState.COMPLETED, "COMPLETED", source="squeue"),
        "20": Status(JobState.PENDING, "PENDING", None, "JobArrayTaskLimit", "squeue"),
        "20_0": Status(JobState.RUNNING, "RUNNING", source="squeue"),
        "20_1": Status(JobState.FAILED, "FAILED", None, "NonZeroExitCode", "squeue"),
        "21": Status(JobState.PENDING, "PENDING", None, "Resources", "squeue"),
        "22": Status(JobState.UNKNOWN, "BROODING", source="squeue"),
        "23": Status(JobState.UNKNOWN, reason="its id now belongs to another job", source="squeue"),
        "24": Status(JobState.PENDING, "CONFIGURING", None, "a, b", "squeue"),
    }


def test_several_clusters(wording: Wording) -> None:
    jobs = [job("7;east"), job("7;west"), job("8;east")]
    east, west = Sacct().commands(jobs)
    assert east.argv[:3] == ("sacct", "-M", "east")
    assert "7,8" in east.argv
    states = Sacct().read(Completed(west, 0, "7|FAILED|5:0|None\n8|FAILED|5:0|None\n"), jobs)
    assert states == {"7;west": Status(JobState.FAILED, "FAILED", 5, "", "sacct")}
    with pytest.raises(SchedulerError) as error:
        SLURM.cancel(jobs)
    wording(str(error.value))
    assert SLURM.cancel(jobs[::2]).argv == ("scancel", "-M", "east", "7", "8")
    assert SLURM.cancel_element(jobs[0], 3).argv == ("scancel", "-M", "east", "7_3")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("FAILED|3:0|Dependency", ""),
        ("FAILED|3:0|Resources", ""),
        ("FAILED|3:0|QOSMaxGRESPerUser", ""),
        ("TIMEOUT|0:0|Priority", ""),
        ("NODE_FAIL|0:0|BeginTime", ""),
        ("CANCELLED by 7|0:0|Dependency", ""),
        ("PREEMPTED|0:0|JobArrayTaskLimit", ""),
        ("CANCELLED by 7|0:0|DependencyNeverSatisfied", "DependencyNeverSatisfied"),
        ("FAILED|3:0|NonZeroExitCode", "NonZeroExitCode"),
        ("FAILED|0:53|RaisedSignal:53(Real-time_signal_19)", "RaisedSignal:53(Real-time_signal_19)"),
        ("PENDING|0:0|Dependency", "Dependency"),
        ("RUNNING|0:0|Dependency", ""),
    ],
)
def test_why_a_job_waited_is_not_why_it_ended(row: str, reason: str) -> None:
    found = Sacct().read(Completed(Command(("sacct",)), 0, f"2|{row}\n"), [job("2")])
    assert found["2"].reason == reason


def test_sacct() -> None:
    jobs = [job(text) for text in ("1", "2", "4", "5", "6", "7", "99")]
    (command,) = Sacct().commands(jobs)
    assert command.argv == (
        "sacct",
        "-n",
        "-P",
        "-j",
        "1,2,4,5,6,7,99",
        "-o",
        "jobid,state,exitcode,reason",
    )
    answer = (
        "2+0|FAILED|0:9|None\n2+1|FAILED|0:9|None\n4|FAILED|5:0|None\n5|CANCELLED by 21001|0:0|None\n"
        "6|COMPLETED|0:0|None\n7|OUT_OF_MEMORY|0:125|OutOfMemory\n"
        "1_0|COMPLETED|0:0|None\n1_1|FAILED|3:0|None\n1_2|COMPLETED|0:0|JobArrayTaskLimit\n"
        "1_[4-6:2%1]|CANCELLED by 21001|0:0|None\n"
    )
    assert Sacct().read(Completed(command, 0, answer), jobs) == {
        "1_0": Status(JobState.COMPLETED, "COMPLETED", 0, "", "sacct"),
        "1_1": Status(JobState.FAILED, "FAILED", 3, "", "sacct"),
        "1_2": Status(JobState.COMPLETED, "COMPLETED", 0, "", "sacct"),
        "1_4": Status(JobState.CANCELLED, "CANCELLED by 21001", None, "", "sacct"),
        "1_6": Status(JobState.CANCELLED, "CANCELLED by 21001", None, "", "sacct"),
        "2": Status(JobState.FAILED, "FAILED", 137, "", "sacct"),
        "4": Status(JobState.FAILED, "FAILED", 5, "", "sacct"),
        "5": Status(JobState.CANCELLED, "CANCELLED by 21001", None, "", "sacct"),
        "6": Status(JobState.COMPLETED, "COMPLETED", 0, "", "sacct"),
        "7": Status(JobState.OUT_OF_MEMORY, "OUT_OF_MEMORY", 137, "OutOfMemory", "sacct"),
    }


def test_memory_that_ran_out_in_the_last_step_that_failed() -> None:
    """As Slurm 22.05.8 answers, with ConstrainRAMSpace; the last line is made up."""
    out = "1|FAILED|9:0|None\n1.batch|FAILED|9:0|\n1.0|OUT_OF_MEMORY|0:125|\n1.1|COMPLETED|0:0|\n"
    batch = "2|OUT_OF_MEMORY|0:125|None\n2.batch|OUT_OF_MEMORY|0:125|\n"
    went_on = out.replace("1|", "3|", 1).replace("1.", "3.") + "3.2|FAILED|9:0|\n"
    found = Sacct().read(
        Completed(Command(("sacct",)), 0, out + batch + went_on), [job("1"), job("2"), job("3")]
    )
    assert found == {
        "1": Status(JobState.OUT_OF_MEMORY, "FAILED", 9, "", "sacct"),
        "2": Status(JobState.OUT_OF_MEMORY, "OUT_OF_MEMORY", 137, "", "sacct"),
        "3": Status(JobState.FAILED, "FAILED", 9, "", "sacct"),
    }


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (
            ("COMPLETED|0:0|None", "CANCELLED by 5|0:0|None"),
            Status(
                JobState.CANCELLED, "CANCELLED by 5", None,
                "component 0 COMPLETED, component 1 CANCELLED by 5", "sacct",
            ),
        ),
        (
            ("CANCELLED|0:0|None", "FAILED|7:0|NonZeroExitCode"),
            Status(
                JobState.FAILED, "FAILED", 7,
                "component 0 CANCELLED, component 1 FAILED (NonZeroExitCode)", "sacct",
            ),
        ),
        (
            ("FAILED|1:0|NonZeroExitCode", "NODE_FAIL|0:0|None"),
            Status(
                JobState.NODE_FAIL, "NODE_FAIL", None, "component 0 FAILED, component 1 NODE_FAIL", "sacct"
            ),
        ),
        (
            ("RUNNING|0:0|None", "NODE_FAIL|0:0|None"),
            Status(JobState.RUNNING, "RUNNING", None, "component 0 RUNNING, component 1 NODE_FAIL", "sacct"),
        ),
        (("FAILED|7:0|None", "FAILED|0:9|None"), Status(JobState.FAILED, "FAILED", 7, "", "sacct")),
    ],
)  # fmt: skip
def test_components_that_differ_are_named(states: Sequence[str], expected: Status) -> None:
    answer = "".join(f"2+{number}|{state}\n" for number, state in enumerate(states))
    assert Sacct().read(Completed(Command(("sacct",)), 0, answer), [job("2")]) == {"2": expected}


SHOWN = """\
JobId=25 ArrayJobId=20 ArrayTaskId=1 ArrayTaskThrottle=2 JobName=x JobState=COMPLETED Reason=None
   UserId=hu1(21001) GroupId=hu1(21001) MCS_label=N/A
   JobState={state} Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code}
   DerivedExitCode=7:0
   WorkDir=/tmp/hu1
   Comment=hpcdist:aaa 
   Power=

"""  # noqa: W291 (so Slurm writes it)


def test_scontrol() -> None:
    one, other = Scontrol().commands([job("20", "aaa"), job("21")])
    assert (one.argv, other.argv) == (("scontrol", "show", "job", "20"), ("scontrol", "show", "job", "21"))
    answer = SHOWN.format(state="COMPLETED", code="0:0") + SHOWN.format(state="FAILED", code="5:0")
    assert Scontrol().read(Completed(one, 0, answer), [job("20", "aaa")]) == {
        "20_1": Status(JobState.FAILED, "FAILED", 5, "NonZeroExitCode", "scontrol")
    }
    assert Scontrol().read(Completed(one, 0, answer), [job("20", "bbb")]) == {}


def test_scontrol_shows_the_components() -> None:
    [command] = Scontrol().commands([job("24")])
    answer = "".join(
        f"JobId={24 + place} HetJobId=24 HetJobOffset={place} JobName=x\n"
        f"   JobState={state} Reason=None Dependency=(null)\n   Requeue=1 Restarts=0 ExitCode=0:0\n\n"
        for place, state in enumerate(("COMPLETED", "CANCELLED"))
    )
    reason = "component 0 COMPLETED, component 1 CANCELLED"
    assert Scontrol().read(Completed(command, 0, answer), [job("24")]) == {
        "24": Status(JobState.CANCELLED, "CANCELLED", None, reason, "scontrol")
    }


def test_every_state_has_a_meaning() -> None:
    finals = {word for word, state in STATES.items() if state.is_final}
    assert finals == {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "TIMEOUT",
    }
    assert status("CANCELLED+").state is JobState.CANCELLED
    assert status("SIGNALING").state is JobState.RUNNING
    assert status("REQUEUE_HOLD").state is JobState.PENDING
    assert status("").state is JobState.UNKNOWN


def test_nodes_that_are_lost() -> None:
    assert SLURM.ask_nodes(("n1", "n2")).argv == ("sinfo", "-h", "-N", "-o", "%N|%T", "-n", "n1,n2")
    said = (
        "n1|idle\nn2|down*\nn2|down*\nn3|down\nn4|idle*\nn5|mixed\nn6|drained\nn7|drained*\nn8|idle~\njunk\n"
    )
    assert SLURM.read_nodes(Completed(SQUEUE, 0, said)) == ("n2", "n3", "n4", "n7")
