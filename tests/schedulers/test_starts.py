"""When batch systems expect jobs to start; what Slurm prints here, a real 22.05.8 printed."""

from __future__ import annotations

from datetime import datetime

import pytest

from hpcdist.base.command import Completed
from hpcdist.schedulers.base import Estimate
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.pbs import PBS
from hpcdist.schedulers.slurm import SLURM
from hpcdist.schedulers.slurm.queries import SlurmStarts
from hpcdist.testing import MISSING

STARTS = SLURM.starts
TEST = SlurmStarts().test("#!/bin/bash\n")
JOBS = [Job("9", "a", "/a", "t"), Job("10", "b", "/b", "t"), Job("12;far", "c", "/c", "t")]


def test_slurm_gets_the_script_itself_and_submits_nothing() -> None:
    assert TEST.argv == ("sbatch", "--test-only")
    assert TEST.stdin == "#!/bin/bash\n"
    assert TEST.environment == (("SLURM_TIME_FORMAT", "%s"),)


@pytest.mark.parametrize(
    ("code", "printed", "estimate"),
    [
        (
            0,
            "sbatch: Job 5 to start at 1795463530 using 2 processors on nodes n[1-2] in partition gpu\n",
            Estimate(1795463530.0),
        ),
        (0, "sbatch: Job 7 to start at 1795463530 using 2 processors on c1,n1\n", Estimate(1795463530.0)),
        (
            1,
            "allocation failure: Requested node configuration is not available\n",
            Estimate(why="allocation failure: Requested node configuration is not available"),
        ),
        (
            1,
            "sbatch: error: x\nallocation failure: Invalid partition name specified\n",
            Estimate(why="allocation failure: Invalid partition name specified"),
        ),
        (0, "", Estimate(why="exit code 0 without a message")),
        (
            0,
            "sbatch: Job 5 to start at Unknown using 2 processors\n",
            Estimate(why="sbatch: Job 5 to start at Unknown using 2 processors"),
        ),
    ],
)
def test_what_sbatch_answers(code: int, printed: str, estimate: Estimate) -> None:
    assert STARTS.read_test(Completed(TEST, code, stderr=printed)) == estimate


def test_a_local_time_is_read_too() -> None:
    printed = "sbatch: Job 5 to start at 2026-11-23T19:52:10 using 2 processors on nodes n1\n"
    at = datetime(2026, 11, 23, 19, 52, 10).astimezone().timestamp()
    assert STARTS.read_test(Completed(TEST, 0, stderr=printed)) == Estimate(at)


def test_without_an_answer_nothing_is_known() -> None:
    assert STARTS.read_test(MISSING) == Estimate(why="there is no sbatch on this machine")
    slow = Completed(TEST, 124, stderr="sbatch: Job 5", timed_out=True)
    assert STARTS.read_test(slow) == Estimate(why="it did not end within 15 s")


def test_slurm_is_asked_once_a_cluster_for_jobs_that_wait() -> None:
    commands = [*STARTS.commands(JOBS)]
    assert [command.argv for command in commands] == [
        ("squeue", "-h", "-t", "PD", "-j", "9,10", "-o", "%i|%S"),
        ("squeue", "-M", "far", "-h", "-t", "PD", "-j", "12", "-o", "%i|%S"),
    ]
    printed = "9_[3-4]|1795463600\n9_2|1795463530\n10|N/A\n11|1795463530\njunk\n"
    assert STARTS.read(Completed(commands[0], 0, printed), JOBS) == {"9": 1795463530.0}


def test_pbs_estimates_jobs_that_were_submitted() -> None:
    jobs = [
        Job("7013475.pbs", "a", "/a", "t"),
        Job("7013476.pbs", "b", "/b", "t"),
        Job("junk", "c", "/c", "t"),
    ]
    [command] = PBS.starts.commands(jobs)
    assert PBS.starts.test("") is None
    assert command.argv[-5:] == ("-f", "-F", "dsv", "7013475.pbs", "7013476.pbs")
    printed = (
        "Job Id: 7013475.pbs|job_state=Q|estimated.start_time=Tue Feb 14 02:10:01 2023|project=x\n"
        "Job Id: 7013476.pbs|job_state=Q|project=x\n"
    )
    at = datetime(2023, 2, 14, 2, 10, 1).astimezone().timestamp()
    assert PBS.starts.read(Completed(command, 0, printed), jobs) == {"7013475.pbs": at}
