"""PyTorch: the variables of ``torch.distributed``'s ``env://`` rendezvous, one task a replica.

WORLD_SIZE counts tasks and RANK is the task's, as Polyaxon 0.6 sets them
(https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization).
"""

from __future__ import annotations

from hpcdist.experiment import Experiment
from hpcdist.frameworks.mpi import Mpi
from hpcdist.plan import Plan, Variable

_SHARED = {"MASTER_ADDR": "$HPCDIST_HEAD_ADDRESS", "MASTER_PORT": "$HPCDIST_PORT"}
_OWN = {
    "WORLD_SIZE": "$HPCDIST_SIZE",
    "RANK": "$HPCDIST_RANK",
    "LOCAL_RANK": "$HPCDIST_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "$HPCDIST_LOCAL_SIZE",
    "NODE_RANK": "$HPCDIST_NODE",
}


class PyTorch(Mpi):
    """torch.distributed."""

    name = "pytorch"
    needs_mpi = False

    def variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return where rank 0 listens."""
        del plan, experiment
        return _expressions(_SHARED)

    def task_variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return the task's place in the world."""
        del plan, experiment
        return _expressions(_OWN)


def _expressions(table: dict[str, str]) -> tuple[Variable, ...]:
    return tuple(Variable.raw(name, value, "framework pytorch") for name, value in table.items())


PYTORCH = PyTorch()
