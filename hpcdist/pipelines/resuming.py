"""Runs again what did not end well in a pipeline, and what depends on that, each as a further job of its run.

The runs keep their directories, so that paths of outputs stay valid; a program finds its checkpoints. The
outputs of operations that ended well are used as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hpcdist.errors import ConfigError, Problem, SchedulerError, comma_list
from hpcdist.loading.planning import Awaiting
from hpcdist.pipelines import looking, model, store
from hpcdist.pipelines.looking import Node
from hpcdist.pipelines.planning import ending_orphans
from hpcdist.pipelines.store import Stored
from hpcdist.runs import awaited, control
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState

Pairs = Sequence[tuple[str, str]]
"""Params or settings, with their texts."""


class Rerun(Protocol):
    """Submits a further job of a run, as `searches.resume.run_again`."""

    def __call__(
        self, run: Run, services: Services, output: Output, awaiting: Awaiting, *, whole: bool
    ) -> Run:
        """Return the run with that job."""
        ...


def resume(stored: Stored, services: Services, output: Output, rerun: Rerun) -> list[Run]:
    """Submit a further job for each operation that did not end well, and for those that depend on it.

    Repeated after an interruption, it completes the rest: what lives by then is left alone.

    Raises:
        ConfigError: if all ended well or live, or one of them cannot run again.
        SchedulerError: if the state of one is unknown, or as `control.submit`.
    """
    nodes = looking.look(stored, services)
    again = _again(nodes)
    _check(stored, nodes, again)
    stuck = [node.run for node in again if node.run and node.state is JobState.PENDING]
    if stuck:
        control.cancel(stuck, services)
        control.wait(stuck, services)
    names = {node.name for node in again}
    whole = {node.name for node in again if names & {other for other, _ in node.needs}}
    return [
        rerun(node.run, services, output, _awaiting(node.run, services), whole=node.name in whole)
        for node in again
        if node.run
    ]


def _awaiting(run: Run, services: Services) -> Awaiting:
    runs_dir, remote = run.directory.path.parent, run.record.remote
    return ending_orphans(partial(awaited.resolved, runs_dir=runs_dir, services=services, remote=remote))


def with_outputs(run: Run, *changes: Pairs) -> list[tuple[tuple[str, str], ...]]:
    """Return changes of an operation with the paths of the outputs that they name; of other runs, the same.

    Raises:
        ConfigError: if one is not of an operation before it, or is written in another way.
    """
    name, _, own = run.record.operation.partition("/")
    stored = store.find(run.directory.path.parent, name) if name else None
    if stored is None:
        return [tuple(pairs) for pairs in changes]
    runs, before = stored.runs(), _before(stored, own)

    def outputs(other: str) -> str:
        if other in before and other in runs:
            return str(runs[other].directory.outputs)
        hint = f"it needs {comma_list(before)}" if before else "it needs none"
        message = f"{name}/{own} does not need {other}, and so cannot use its outputs"
        raise ConfigError(Problem(message, hint=hint))

    wrong = model.problems([text for pairs in changes for _, text in pairs])
    if problems := dict.fromkeys(problem._replace(path=()) for problem in wrong):
        raise ConfigError(*problems)
    return [tuple((key, str(model.filled(text, outputs, {}))) for key, text in pairs) for pairs in changes]


def _before(stored: Stored, name: str) -> list[str]:
    """Return the operations that end before this one begins, in the order of the file."""
    found, left = set[str](), [name]
    while left:
        more = {need for need, _ in stored.needs.get(left.pop(), ())} - found
        found |= more
        left += more
    return [other for other in stored.needs if other in found]


def _again(nodes: Sequence[Node]) -> list[Node]:
    """Return the operations that run again, in their order."""
    names: set[str] = set()
    for node in nodes:
        bad = node.blocked_by or (node.state.is_final and node.state is not JobState.COMPLETED)
        if (bad and node.is_needed) or any(other in names for other, _ in node.needs):
            names.add(node.name)
    return [node for node in nodes if node.name in names]


def _check(stored: Stored, nodes: Sequence[Node], again: Sequence[Node]) -> None:
    missing = [node.name for node in nodes if node.run is None or node.state is JobState.UNSUBMITTED]
    if missing:
        message = f"{stored.name} was not submitted as a whole: {', '.join(missing)} has no job"
        raise ConfigError(Problem(message, hint="submit its file again, which goes on with it"))
    if unknown := [node for node in nodes if node.state is JobState.UNKNOWN]:
        message = f"the state of {stored.name}/{unknown[0].name} is unknown: {unknown[0].reason}"
        raise SchedulerError(Problem(message, hint="resume it when the batch system answers"))
    if live := [node for node in again if not node.state.is_final and node.state is not JobState.PENDING]:
        message = f"{stored.name}/{live[0].name} is {live[0].state.value}, and would have to run again"
        raise ConfigError(Problem(message, hint=f"wait for it, or `hpcdist cancel {stored.name}`"))
    if not again:
        raise ConfigError(Problem(f"every operation of {stored.name} has completed, or is still to run"))
