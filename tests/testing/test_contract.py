from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import PlanError
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.values import Directive
from hpcdist.schedulers import INSTALLATIONS, schedulers
from hpcdist.schedulers.base import Query
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.schedulers.slurm import Slurm
from hpcdist.schedulers.slurm.queries import Squeue
from hpcdist.site.model import Site
from hpcdist.site.settings import Sge
from hpcdist.testing import MISSING, TIMED_OUT, FakeShell, contract, failed
from hpcdist.testing.contract import altered

from .native_states import NATIVES

LOCAL = {
    "batch.walltime": "the script ends itself",
    "environment.resources.cpu": "the machine has what it has; tasks are bound as far as it reaches",
    "environment.resources.gpu": "the script gives each task its own, without asking anyone",
    "environment.resources.memory": "nobody shares the machine out",
    "horovod.elastic": "there is no other node to lose",
}

ANSWERS = {
    "slurm": ("123\n", "123"),
    "pbs": ("123.pbs01\n", "123.pbs01"),
    "lsf": ("Job <123> is submitted to queue <normal>.\n", "123"),
    "flux": ("\u0192BSmuzWv3\n", "fBSmuzWv3"),
    "sge": ("123\n", "123"),
    "local": ("123\n", "123"),
}

SLOTS = Sge(environments={"*": "mpi{slots}"}, gpus="gpu", memory="h_vmem", exclusive="exclusive")


@pytest.mark.parametrize("name", ANSWERS)
def test_every_scheduler_fulfils_the_contract(name: str) -> None:
    answer, job_id = ANSWERS[name]
    contract.check(
        schedulers.get(name),
        answer=answer,
        job_id=job_id,
        native_states=NATIVES[name],
        site=Site(name="anywhere", description="a machine", scheduler=name, launcher="mpirun", sge=SLOTS),
        harmless=LOCAL if name == "local" else {},
    )


class Guessing(Squeue):
    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        return {job.id: Status(JobState.COMPLETED, completed.stdout) for job in jobs}


class Hopeful(Squeue):
    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        read = super().read(completed, jobs)
        return {
            job_id: replace(status, state=JobState.RUNNING) if status.state is JobState.UNKNOWN else status
            for job_id, status in read.items()
        }


class Forgetful(Squeue):
    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        return {
            job_id: replace(status, native="") for job_id, status in super().read(completed, jobs).items()
        }


class Asking(Slurm):
    def __init__(self, first: Query) -> None:
        self.first = first

    def queries(self) -> tuple[Query, ...]:
        return (self.first, *super().queries()[1:])


class Careless(Slurm):
    def read_submit(self, completed: Completed) -> str:
        return completed.stdout.strip()


class Deaf(Slurm):
    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        return tuple(line for line in super().directives(job, site) if line.flag != "--qos")


class Coarse(Slurm):
    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        waits = tuple(str(one).replace("afternotok", "afterok") for one in job.request.dependency)
        return super().directives(altered(job, dependency=waits), site)


class Vague(Slurm):
    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        if job.request.requeue:
            raise PlanError("this cannot be done")
        return super().directives(job, site)


class Broken(Slurm):
    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        if job.completion.elastic:
            raise KeyError("elastic")
        return super().directives(job, site)


class Everywhere(Slurm):
    installation = INSTALLATIONS["slurm"]._replace(variable="", files=(), question=None)


class Alone(Slurm):
    is_batch_system = False


class Nowhere(Slurm):
    installation = INSTALLATIONS["slurm"]._replace(command="")


class Certain(Slurm):
    installation = INSTALLATIONS["slurm"]._replace(denials=())


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (Asking(Guessing()), "out of ''"),
        (Asking(Hopeful()), "'REVOKED' was read as running, not unknown"),
        (Asking(Forgetful()), "of 'PENDING' only '' was kept"),
        (Everywhere(), "only sbatch shows that Slurm is set up"),
        (Alone(), "slurm has an installation, but is not a batch system"),
        (Nowhere(), "has no title or no command"),
        (Certain(), "the question scontrol ping needs denials"),
        (Careless(), "is not a SubmissionUnknown"),
        (Deaf(), "batch.qos is silently ignored: qos='qos-x7' became ''"),
        (Coarse(), r"batch.dependency: dependency=\('afternotok:123',\) and .* became the same"),
        (Vague(), "batch.requeue is refused, but the problem does not name it: this cannot be done"),
        (Broken(), r"made KeyError\('elastic'\), which is not a PlanError"),
    ],
)
def test_the_contract_finds_faults(scheduler: Slurm, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        contract.check(scheduler, answer="123\n", job_id="123", native_states=NATIVES["slurm"])


def test_contract_requires_native_states_of_every_query() -> None:
    native_states = NATIVES["slurm"]
    with pytest.raises(AssertionError, match="3 queries, but native states of 2"):
        contract.check(Slurm(), answer="123\n", job_id="123", native_states=native_states[:2])
    silent = [native._replace(words={}) for native in native_states]
    with pytest.raises(
        AssertionError, match="no native state is mapped to cancelled, completed, failed, running"
    ):
        contract.check(Slurm(), answer="123\n", job_id="123", native_states=silent)


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
