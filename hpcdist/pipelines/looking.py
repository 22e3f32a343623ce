"""How far a pipeline is: its operations as a graph, each with the state of its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpcdist.pipelines.store import Stored
from hpcdist.runs import endings, states
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState

_BAD: Final = frozenset(state for state in JobState if state.is_final) - {JobState.COMPLETED}
_NEVER: Final = {"afterok": _BAD, "aftercorr": _BAD, "afternotok": frozenset({JobState.COMPLETED})}
"""The ends of an operation after which one that waits in this way never starts."""

_WAITING: Final = (JobState.PENDING, JobState.CANCELLED)


class Node(NamedTuple):
    """An operation: what it needs, the report on its run, and how many operations are before it at most.

    ``blocked_by``: an operation whose end, as it was, lets this one never start; it may wait all the same.
    """

    name: str
    needs: Sequence[tuple[str, str]]
    report: Report | None
    depth: int = 0
    blocked_by: str = ""

    @property
    def run(self) -> Run | None:
        """Its run, None if there is none yet."""
        return self.report and self.report.run

    @property
    def state(self) -> JobState:
        """The state of its run; the batch system's own."""
        return self.report.status.state if self.report else JobState.UNSUBMITTED

    @property
    def reason(self) -> str:
        """Why it does not run, or why it ended so."""
        own = self.report.status.reason if self.report else "it was not submitted"
        return f"it can never start: {self.blocked_by}" if self.blocked_by else own

    def as_data(self) -> dict[str, Any]:
        """Return it for JSON."""
        status = self.report.status if self.report else None
        return {
            "operation": self.name,
            "needs": [{"operation": name, "condition": condition} for name, condition in self.needs],
            "run": self.run.name if self.run else None,
            "job_ids": [job.record.job_id for job in self.run.jobs] if self.run else [],
            "state": self.state.value,
            "native_state": status.native if status else "",
            "exit_code": status.exit_code if status else None,
            "reason": self.reason,
            "can_start": not self.blocked_by,
        }


def look(stored: Stored, services: Services) -> list[Node]:
    """Return the operations in their order, with their states by one query for all runs."""
    runs = stored.runs()
    reports = dict(zip(runs, states.status([*runs.values()], services), strict=True))
    return graph(stored.needs, reports)


def graph(needs: Mapping[str, Sequence[tuple[str, str]]], reports: Mapping[str, Report]) -> list[Node]:
    """Return the nodes of these operations, which stand in their order."""
    nodes: dict[str, Node] = {}
    for name, own in needs.items():
        depth = 1 + max((nodes[other].depth for other, _ in own), default=-1)
        node = Node(name, own, reports.get(name), depth)
        nodes[name] = node._replace(blocked_by=next(_blocking(node, nodes), ""))
    return [*nodes.values()]


def _blocking(node: Node, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield why a job that has not started never will: an end of what it needs, or that this never comes."""
    if node.report and (node.state not in _WAITING or _has_started(node.report)):
        return
    for name, condition in node.needs:
        other = nodes[name]
        never = _NEVER.get(condition, frozenset())
        if other.blocked_by and condition != "afterany":
            yield f"{name} never ran"
        elif other.state in never:
            yield f"{name} is {other.state.value}"


def _has_started(report: Report) -> bool:
    last = report.jobs[-1].run.job
    return last is not None and endings.has_started(last)


def summary(name: str, nodes: Sequence[Node]) -> str:
    """Return how many operations are in each state: ``diamond-1: 1 completed, 2 running, 1 pending``."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.state.value] = counts.get(node.state.value, 0) + 1
    return f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items())
