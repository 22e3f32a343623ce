"""Wiring: what its framework tells each task, worked out before the job; the script leaves it to bash.

What only the job knows has a name in its place: nodes are ``node0``, ``node1``, ..., the job's first port is
``PORT``, and the variables of the run keep their ``$``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Final

from hpcdist.plan.devices import devices
from hpcdist.plan.model import Plan, Task, Variable

_PIECE: Final = re.compile(
    r"""
    \\(?P<escaped>.)
    | \$\(peers\ (?P<role>\w+)\)
    | \$\{(?P<name>\w+)/(?P<old>\w+)/(?P<new>\w+)\}
    | \$(?P<plain>\w+)
    """,
    re.VERBOSE,
)


class Wiring:
    """The variables that a plan's framework gives to tasks; ``shared`` are those that all have alike."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        runs = list(plan.placement.tasks_per_node())
        self._ends = list(accumulate(count for count, _ in runs))
        self._sizes = [tasks for _, tasks in runs]
        self._peers: dict[str, str] = {}
        self.shared = {item.name: self._value(item, {}) for item in plan.variables if item.name in plan.told}

    def of(self, task: Task) -> dict[str, str]:
        """Return the variables that differ by task; without the task wrapper there are none."""
        if self._plan.launches == "once":
            return {}
        known = {
            "HPCDIST_RANK": task.rank,
            "HPCDIST_LOCAL_RANK": task.local_rank,
            "HPCDIST_LOCAL_SIZE": self._sizes[bisect_right(self._ends, task.node)],
            "HPCDIST_NODE": task.node,
            "HPCDIST_ROLE": task.role,
            "HPCDIST_INDEX": task.index,
            "HPCDIST_ADDRESS": f"node{task.node}",
            "HPCDIST_PROCESSES": task.processes,
            "HPCDIST_GPUS": ",".join(map(str, devices(self._plan, task))),
        }
        return {
            variable.name: self._value(variable, known)
            for variable in self._plan.task_variables
            if variable.name in self._plan.told and variable.role in ("", task.role)
        }

    def _value(self, variable: Variable, known: dict[str, object]) -> str:
        if not variable.shell:
            return variable.value
        names: dict[str, object] = {
            "HPCDIST_HEAD_ADDRESS": "node0",
            "HPCDIST_PORT": "PORT",
            "HPCDIST_SIZE": self._plan.placement.size,
            "HPCDIST_NODES": self._plan.placement.nodes,
            **known,
        }

        def piece(match: re.Match[str]) -> str:
            if match["escaped"]:
                return match["escaped"]
            if match["role"]:
                return self._all(match["role"])
            if match["name"]:
                return str(names[match["name"]]).replace(match["old"], match["new"], 1)
            return str(names.get(match["plain"], match[0]))

        return _PIECE.sub(piece, variable.value)

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
