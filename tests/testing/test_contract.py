from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hpcdist.command import Command, Completed
from hpcdist.job import Job, JobState, Status
from hpcdist.schedulers import Query
from hpcdist.schedulers.slurm import Slurm
from hpcdist.schedulers.slurm.queries import Squeue
from hpcdist.testing import MISSING, TIMED_OUT, FakeShell, contract, failed


class Guessing(Squeue):
    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        return {job.id: Status(JobState.COMPLETED, completed.stdout) for job in jobs}


class Optimist(Slurm):
    def queries(self) -> tuple[Query, ...]:
        return (Guessing(),)


class Careless(Slurm):
    def read_submit(self, completed: Completed) -> str:
        return completed.stdout.strip()


@pytest.mark.parametrize(("scheduler", "said"), [(Optimist(), "out of ''"), (Careless(), "is no doubt")])
def test_the_contract_finds_faults(scheduler: Slurm, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        contract.check(scheduler, answer="123\n", job_id="123")


def test_fake_shell() -> None:
    shell = FakeShell(
        [
            (("squeue", "--me"), "12|RUNNING\n"),
            (lambda command: command.timeout > 100, TIMED_OUT),
            (("sbatch",), MISSING),
            (("sacct",), failed(1, "disabled")),
        ]
    )
    squeue = Command(("squeue", "--me"))
    assert shell.run(squeue) == Completed(squeue, 0, "12|RUNNING\n")
    assert shell.run(Command(("sbatch",), timeout=120)).timed_out
    assert shell.run(Command(("sbatch",))).missing
    assert shell.run(Command(("sacct",))).stderr == "disabled"
    assert shell.programs == ["squeue", "sbatch", "sbatch", "sacct"]
    with pytest.raises(AssertionError, match="scancel 12"):
        shell.run(Command(("scancel", "12")))
