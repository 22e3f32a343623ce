"""TensorFlow: TF_CONFIG for each task, with the cluster that Polyaxon 0.6 describes (master, worker, ps).

Each task listens on the job's port plus its local rank, so tasks that share a node do not collide.
"""

from __future__ import annotations

from hpcdist.experiment import Experiment
from hpcdist.frameworks.mpi import Mpi
from hpcdist.plan import Plan, Variable

_ORIGIN = "framework tensorflow"


class TensorFlow(Mpi):
    """TensorFlow's distributed runtime, one task a replica."""

    name = "tensorflow"
    roles = frozenset({"master", "worker", "ps"})
    needs_mpi = False

    def task_variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return TF_CONFIG: where everybody is, and which of them this task is."""
        del experiment
        present = dict.fromkeys(row.role for row in plan.placement.rows)
        cluster = ", ".join(rf"\"{role}\": [$(peers {role})]" for role in present)
        task = r"\"task\": {\"type\": \"$HPCDIST_ROLE\", \"index\": $HPCDIST_INDEX}"
        rest = r"\"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\""
        value = rf"{{\"cluster\": {{{cluster}}}, {task}, {rest}}}"
        return (Variable.raw("TF_CONFIG", value, _ORIGIN),)


TENSORFLOW = TensorFlow()
