"""How far a pipeline is: its operations as a graph, each with the state of its run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.pipelines import store
from hpcdist.pipelines.store import Stored
from hpcdist.runs import endings, search_progress, states
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState

_BAD: Final = frozenset(state for state in JobState if state.is_final) - {JobState.COMPLETED}
_NEVER: Final = {"afterok": _BAD, "aftercorr": _BAD, "afternotok": frozenset({JobState.COMPLETED})}
"""The ends of an operation after which one that waits in this way never starts."""

_NOT_NEEDED: Final = "not needed"
_WAITING: Final = (JobState.PENDING, JobState.CANCELLED)


class Node(NamedTuple):
    """An operation: what it needs, the report on its run, and how many operations are before it at most.

    ``blocked_by``: an operation whose end, as it was, lets this one never start; it may wait all the same.
    ``is_needed``: whether that is a fault: what waits for a failure is not needed where all went well.
    """

    name: str
    needs: Sequence[tuple[str, str]]
    report: Report | None
    depth: int = 0
    blocked_by: str = ""
    is_needed: bool = True

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
        if self.report and (found := search_progress.awaiting_next(self.report)):
            return "; ".join(filter(None, [own, found.text, search_progress.next_step_hint(self.report.run)]))
        if not self.blocked_by:
            return own
        return f"{'it can never start' if self.is_needed else _NOT_NEEDED}: {self.blocked_by}"

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
            "is_needed": self.is_needed,
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
        blocking = [*_blocking(node, nodes)]
        nodes[name] = node._replace(
            blocked_by=next((why for why, _ in blocking), ""),
            is_needed=not blocking or any(is_fault for _, is_fault in blocking),
        )
    return [*nodes.values()]


def _blocking(node: Node, nodes: Mapping[str, Node]) -> Iterator[tuple[str, bool]]:
    """Yield why a job that has not started never will, and whether that is a fault.

    It is an end of what it needs, or that this never comes.
    """
    if node.report and (node.state not in _WAITING or _has_started(node.report)):
        return
    for name, condition in node.needs:
        other = nodes[name]
        if other.blocked_by and condition != "afterany":
            yield f"{name} never ran", other.is_needed
        elif other.state in _NEVER.get(condition, ()):
            yield f"{name} is {other.state.value}", condition != "afternotok"


def unneeded(reports: Iterable[Report]) -> set[RunDirectory]:
    """Return the directories of those of these runs that were not needed, as far as they tell.

    Raises:
        ConfigError: if the record of a pipeline cannot be read.
    """
    pipelines: dict[Path, dict[str, Report]] = {}
    for report in reports:
        pipeline, _, name = report.run.record.operation.partition("/")
        if pipeline:
            beside = report.run.directory.path.with_name(pipeline)
            pipelines.setdefault(beside, {})[name] = report
    found = ((store.find(path.parent, path.name), own) for path, own in pipelines.items())
    nodes = (node for stored, own in found if stored for node in graph(stored.needs, own))
    return {node.run.directory for node in nodes if node.run and not node.is_needed}


def _has_started(report: Report) -> bool:
    last = report.jobs[-1].run.job
    return last is not None and endings.has_started(last)


def summary(name: str, nodes: Sequence[Node]) -> str:
    """Return how many operations are in each state: ``diamond-1: 1 completed, 2 running, 1 pending``."""
    counts: dict[str, int] = {}
    for node in nodes:
        state = node.state.value if node.is_needed else _NOT_NEEDED
        counts[state] = counts.get(state, 0) + 1
    return f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items())
