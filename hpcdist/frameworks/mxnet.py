"""MXNet: the DMLC variables of its parameter-server rendezvous; the master is the scheduler.

Source: ps-lite's environment variables; what Polyaxon 0.6 sets.
"""

from __future__ import annotations

from hpcdist.experiment import Experiment
from hpcdist.frameworks.mpi import Mpi
from hpcdist.plan import Plan, Variable

_ORIGIN = "framework mxnet"


class MxNet(Mpi):
    """MXNet's distributed key-value store, one task a replica."""

    name = "mxnet"
    roles = frozenset({"master", "worker", "ps"})
    needs_mpi = False

    def variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return where the scheduler is, and how many there are of the others."""
        del experiment
        counts = dict.fromkeys(("worker", "ps"), 0)
        for row in plan.placement.rows:
            if row.role in counts:
                counts[row.role] += row.tasks // row.tasks_per_replica
        return (
            Variable.raw("DMLC_PS_ROOT_URI", "$HPCDIST_HEAD_ADDRESS", _ORIGIN),
            Variable.raw("DMLC_PS_ROOT_PORT", "$HPCDIST_PORT", _ORIGIN),
            Variable(name="DMLC_NUM_WORKER", value=str(counts["worker"]), origin=_ORIGIN),
            Variable(name="DMLC_NUM_SERVER", value=str(counts["ps"]), origin=_ORIGIN),
        )

    def task_variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return the task's role: scheduler, worker or server; and which server it is."""
        del plan, experiment
        names = "declare -A dmlc=([master]=scheduler [worker]=worker [ps]=server)"
        value = f"$({names} && echo ${{dmlc[$HPCDIST_ROLE]}})"
        server = "$([[ $HPCDIST_ROLE != ps ]] || echo $HPCDIST_INDEX)"
        return Variable.raw("DMLC_ROLE", value, _ORIGIN), Variable.raw("DMLC_SERVER_ID", server, _ORIGIN)


MXNET = MxNet()
