"""Wiring: the variables of a framework for each task, computed before the job; in the job bash does it.

What is known only in the job has a placeholder: nodes are ``node0``, ``node1``, ..., the job's first port is
``PORT``, and the variables of the run keep their ``$``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate

from hpcdist.plan import placeholders as given
from hpcdist.plan.devices import devices
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placeholders import Peers, Placeholder
from hpcdist.plan.placement import Task
from hpcdist.plan.values import Variable


class Wiring:
    """The variables that a plan's framework gives to tasks; ``shared``: those that are the same for all."""

    def __init__(self, job: PreparedJob) -> None:
        self._plan = job
        runs = list(job.placement.tasks_per_node())
        self._ends = list(accumulate(count for count, _ in runs))
        self._sizes = [tasks for _, tasks in runs]
        self._peers: dict[str, str] = {}
        self.shared = {
            item.name: self._value(item, {})
            for item in job.environment.variables
            if item.name in job.environment.framework_variables
        }

    def of(self, task: Task) -> dict[str, str]:
        """Return the variables that differ by task; without each task's shell there are none."""
        if self._plan.launch.mode == "once":
            return {}
        known = {
            given.RANK.name: task.rank,
            given.LOCAL_RANK.name: task.local_rank,
            given.LOCAL_SIZE.name: self._sizes[bisect_right(self._ends, task.node)],
            given.NODE.name: task.node,
            given.ROLE.name: task.role,
            given.INDEX.name: task.index,
            given.ADDRESS.name: f"node{task.node}",
            given.PROCESSES.name: task.processes,
            given.GPUS.name: ",".join(map(str, devices(self._plan, task))),
        }
        return {
            variable.name: self._value(variable, known)
            for variable in self._plan.environment.task_variables
            if variable.name in self._plan.environment.framework_variables
            and variable.role in ("", task.role)
        }

    def _value(self, variable: Variable, of_task: Mapping[str, object]) -> str:
        if variable.template is None:
            return variable.value
        known: Mapping[str, object] = {
            given.HEAD_ADDRESS.name: "node0",
            given.PORT.name: "PORT",
            given.SIZE.name: self._plan.placement.size,
            given.NODES.name: self._plan.placement.nodes,
            **of_task,
        }

        def value(part: Placeholder | Peers) -> str:
            if isinstance(part, Peers):
                return self._all(part.role)
            text = str(known.get(part.name, f"${part.name}"))
            return text.replace(part.old, part.new, 1) if part.old else text

        return variable.template.filled(value)

    def _all(self, role: str) -> str:
        """Return what ``peers`` prints: where the replicas of a role listen."""
        if role not in self._peers:
            found = (
                f'"node{task.node}:PORT{f"+{task.local_rank}" if task.local_rank else ""}"'
                for row in self._plan.placement.rows
                if row.role == role
                for task in map(row.task, range(0, row.tasks, row.tasks_per_replica))
            )
            self._peers[role] = ",".join(found)
        return self._peers[role]
