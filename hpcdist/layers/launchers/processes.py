"""Plain processes on one machine: no MPI and no launcher, for frameworks that connect over TCP."""

from __future__ import annotations

from hpcdist.errors import PlanError
from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.values import Word
from hpcdist.site.model import LauncherOptions, RankVariables


class Processes(Plain):
    """The job script itself starts the tasks and ends them all when one fails."""

    name = "processes"
    program = "bash"
    rank_variables: RankVariables | None = RankVariables(
        rank="HPCDIST_START_RANK", size="HPCDIST_START_SIZE", local_rank="HPCDIST_START_RANK"
    )
    schedulers = frozenset({"local"})
    can_go_on = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return nothing: the script itself starts the tasks.

        Raises:
            PlanError: on more than one node.
        """
        del options
        if job.placement.nodes > 1:
            raise PlanError("launcher processes starts tasks on one node only; use srun or mpirun")
        return ()


PROCESSES = Processes()
