"""ibrun: TACC's launcher (Vista, Lonestar6, Stampede3, Frontera), for whatever MPI is loaded.

It takes the layout of the job from Slurm's variables, so it starts equal tasks only, as many on each node as
the job requested; ``-n`` and ``-o`` select some of them. It passes on the whole environment, and binds no
CPUs: a site may set ``binding: [task_affinity]``, the program that does.

Source: github.com/TACC/TACC-Docs, the user guides' section "Launching MPI applications".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.layers.launchers.plain import Plain, tasks_on_each_node
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_ORIGIN: Final = Origin("launcher", "ibrun")


class Ibrun(Plain):
    """TACC's ibrun; a site with Open MPI sets its ``rank_variables``."""

    name = "ibrun"
    program = "ibrun"
    mpi_flavours: tuple[str, ...] = ("intel", "mvapich")
    rank_variables: RankVariables | None = RankVariables(
        rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID"
    )
    schedulers = frozenset({"slurm"})
    site_options = frozenset({"binding", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset({"-n", "-o"})
    provides_mpi = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``ibrun`` for all tasks of the job.

        Raises:
            PlanError: where Slurm's layout of the job differs from the plan's.
        """
        tasks_on_each_node(job, "ibrun starts the same number of tasks on every node")
        if not job.placement.is_even:
            message = "ibrun starts tasks as Slurm lays them out, equal ones on nodes of one kind"
            hint = "give all replicas the same CPUs, or write `batch: {launcher: srun}`"
            raise PlanError(Problem(message, ("environment", "replicas"), hint))
        return tuple(_words(job, options))


def _words(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    for text in ("ibrun", "-n", str(job.placement.size), "-o", "0"):
        yield Word(text=text, origin=_ORIGIN)
    yield from job.arguments
    for text in options.binding:
        yield Word(text=text, origin=Origin("site", job.identity.site, "launchers.ibrun.binding"))


IBRUN: Final = Ibrun()
