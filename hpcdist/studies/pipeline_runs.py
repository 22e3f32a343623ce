"""The runs of pipelines: the directory and progress of each, and which runs may be removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import MsgspecError, Struct
from msgspec.structs import astuple

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import endings, finding, job_states, removing, rundir, search_progress
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState

FILE: Final = finding.PIPELINE
_TEXT: Final = "pipeline.yml"
_MOST: Final = 1 << 22


class PipelinePhase(str, Enum):
    """The progress of a pipeline's submission: only one that is ``submitting`` is resumed."""

    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"


class _Written(Struct, frozen=True):
    digest: str
    site: str
    created_at: str
    needs: dict[str, list[tuple[str, str]]]
    phase: PipelinePhase


class StoredPipeline(NamedTuple):
    """A pipeline as it was submitted; ``needs``: what each operation needs, with conditions, in order."""

    directory: RunDirectory
    digest: str
    site: str
    created_at: str
    needs: Mapping[str, Sequence[tuple[str, str]]]
    phase: PipelinePhase = PipelinePhase.SUBMITTING

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.directory.name

    def save(self, text: str | None = None, changes: Sequence[str] = ()) -> StoredPipeline:
        """Write it, with the text of its file and the options if that is given; return it.

        Raises:
            OSError: if it cannot be written.
        """
        if text is not None:
            self.directory.write(_TEXT, text)
            self.directory.write(rundir.OPTIONS, f"{json.dumps([*changes])}\n")
        data = {**self._asdict(), "phase": self.phase.value}
        del data["directory"]
        self.directory.write(FILE, f"{json.dumps(data, indent=2)}\n")
        return self

    def runs(self) -> dict[str, Run]:
        """Return the run of each operation, in order; of several runs the last one that has a job."""
        found = finding.of_pipeline(self.directory.path.parent, self.name)
        by_name = {run.record.operation.partition("/")[2]: run for run in found}
        return {name: by_name[name] for name in self.needs if name in by_name}


def find_pipeline(runs_dir: Path, name: str) -> StoredPipeline | None:
    """Return the pipeline of this name, or in this directory, if there is one.

    Raises:
        ConfigError: if it cannot be read.
    """
    path = finding.pipeline_directory(runs_dir, name)
    return read_stored(RunDirectory(path)) if path else None


def read_stored(directory: RunDirectory) -> StoredPipeline:
    """Return the pipeline in this directory.

    Raises:
        ConfigError: if it cannot be read, or is invalid.
    """
    try:
        return StoredPipeline(
            directory, *astuple(msgspec.json.decode(directory.read(FILE, _MOST), type=_Written))
        )
    except OSError as error:
        raise _unreadable(directory, str(error.strerror)) from error
    except (MsgspecError, RecursionError) as error:
        raise _unreadable(directory, f"it is invalid: {error}") from error


def _unreadable(directory: RunDirectory, why: str) -> ConfigError:
    hint = "its runs are still there: `hpcdist status --offline`"
    return ConfigError(Problem(f"{directory.path / FILE} cannot be read: {why}", hint=hint))


def interrupted_submission(runs_dir: Path, digest: str, site: str) -> StoredPipeline | None:
    """Return the pipeline of the same file whose submission did not end, if there is one."""
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        if (path / FILE).is_file():
            try:
                stored = read_stored(RunDirectory(path.absolute()))
            except ConfigError:
                continue
            if (stored.digest, stored.site, stored.phase) == (digest, site, PipelinePhase.SUBMITTING):
                return stored
    return None


# --- A pipeline's progress: its operations as a graph, each with the state of its run

_BAD: Final = frozenset(state for state in JobState if state.is_final) - {JobState.COMPLETED}
_NEVER: Final = {"afterok": _BAD, "aftercorr": _BAD, "afternotok": frozenset({JobState.COMPLETED})}
"""The ends of an operation after which one that waits in this way never starts."""

_NOT_NEEDED: Final = "not needed"
_WAITING: Final = (JobState.PENDING, JobState.CANCELLED)


class OperationState(NamedTuple):
    """An operation: its needs, the report on its run, and the length of the longest chain before it.

    ``blocked_by``: why it can never start, by the end of another operation; its job may still wait.
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
        """Its run, if there is one yet."""
        return self.report and self.report.run

    @property
    def state(self) -> JobState:
        """The state of its run by the batch system."""
        return self.report.status.state if self.report else JobState.UNSUBMITTED

    @property
    def reason(self) -> str:
        """Why it does not run, or why it ended so."""
        own = self.report.status.reason if self.report else "it was not submitted"
        if self.report and (found := search_progress.awaiting_next(self.report)):
            hint = search_progress.next_step_hint(self.report.run)
            return "; ".join(filter(None, [own, found.text, hint]))
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


def operation_states(stored: StoredPipeline, services: Services) -> list[OperationState]:
    """Return the operations in their order, with their states by one query for all runs."""
    runs = stored.runs()
    reports = dict(zip(runs, job_states.status([*runs.values()], services), strict=True))
    return operation_graph(stored.needs, reports)


def operation_graph(
    needs: Mapping[str, Sequence[tuple[str, str]]], reports: Mapping[str, Report]
) -> list[OperationState]:
    """Return the nodes of these operations, each given after its needs."""
    nodes: dict[str, OperationState] = {}
    for name, own in needs.items():
        depth = 1 + max((nodes[other].depth for other, _ in own), default=-1)
        node = OperationState(name, own, reports.get(name), depth)
        blocking = [*_blocking(node, nodes)]
        nodes[name] = node._replace(
            blocked_by=next((why for why, _ in blocking), ""),
            is_needed=not blocking or any(is_fault for _, is_fault in blocking),
        )
    return [*nodes.values()]


def _blocking(node: OperationState, nodes: Mapping[str, OperationState]) -> Iterator[tuple[str, bool]]:
    """Yield why a job that has not started never will, and whether that is a fault.

    Either a needed operation ended so, or it never runs.
    """
    if node.report and (node.state not in _WAITING or _has_started(node.report)):
        return
    for name, condition in node.needs:
        other = nodes[name]
        if other.blocked_by and condition != "afterany":
            yield f"{name} never ran", other.is_needed
        elif other.state in _NEVER.get(condition, ()):
            yield f"{name} is {other.state.value}", condition != "afternotok"


def unneeded_runs(reports: Iterable[Report]) -> set[RunDirectory]:
    """Return the directories of runs that were not needed, as far as these runs show it.

    Raises:
        ConfigError: if the record of a pipeline cannot be read.
    """
    pipelines: dict[Path, dict[str, Report]] = {}
    for report in reports:
        pipeline, _, name = report.run.record.operation.partition("/")
        if pipeline:
            directory = report.run.directory.path.with_name(pipeline)
            pipelines.setdefault(directory, {})[name] = report
    found = ((find_pipeline(path.parent, path.name), own) for path, own in pipelines.items())
    nodes = (node for stored, own in found if stored for node in operation_graph(stored.needs, own))
    return {node.run.directory for node in nodes if node.run and not node.is_needed}


def _has_started(report: Report) -> bool:
    last = report.jobs[-1].run.job
    return last is not None and endings.has_started(last)


def summary(name: str, nodes: Sequence[OperationState]) -> str:
    """Return how many operations are in each state: ``diamond-1: 1 completed, 2 running, 1 pending``."""
    counts: dict[str, int] = {}
    for node in nodes:
        state = node.state.value if node.is_needed else _NOT_NEEDED
        counts[state] = counts.get(state, 0) + 1
    return f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items())


# --- Removing runs, unless operations may use their outputs; a pipeline goes with its last run


def runs_in_use(
    found: Sequence[Run], services: Services, *, force: bool = False
) -> dict[RunDirectory, ConfigError]:
    """Return runs with outputs that other operations may use, each with the reason, by one query for all.

    They belong to a pipeline with another operation that has not ended. ``force``: an operation of unknown
    state counts as ended.
    """
    names = {(run.directory.path.parent, run.record.operation.partition("/")[0]) for run in found}
    others = [run for runs_dir, name in names if name for run in finding.of_pipeline(runs_dir, name)]
    reports = job_states.status(others, services) if others else []
    left = [one for one in reports if not one.is_over and not (force and _is_unknown(one))]
    live = {_pipeline(one.run): one for one in reversed(left)}
    errors: dict[RunDirectory, ConfigError] = {}
    for run in found:
        one = live.get(_pipeline(run)) if run.record.operation else None
        if one and one.run.directory != run.directory:
            message = (
                f"{run.name} may be used by {one.run.record.operation}, which is {one.status.state.value}"
            )
            hint = f"`hpcdist cancel {one.run.name}` ends its job"
            errors[run.directory] = ConfigError(Problem(message, hint=hint))
    return errors


def _is_unknown(report: Report) -> bool:
    return report.status.state is JobState.UNKNOWN and not report.status.native


def _pipeline(run: Run) -> RunDirectory:
    return RunDirectory(run.directory.path.with_name(run.record.operation.partition("/")[0]))


def remove_empty(runs: Iterable[Run], named: Iterable[Path] = ()) -> list[str]:
    """Remove the directories of pipelines that have no run left; return their names.

    ``runs``: the runs that were removed; ``named``: directories of further pipelines.

    Raises:
        ConfigError: if one cannot be removed.
    """
    of_runs = (_pipeline(run) for run in runs if run.record.operation)
    removed = []
    for directory in dict.fromkeys([*of_runs, *map(RunDirectory, named)]):
        place = directory.path.parent, directory.name
        if finding.pipeline_directory(*place) and not finding.of_pipeline(*place):
            try:
                removing.remove_directory(directory)
            except OSError as error:
                message = f"{directory.name} cannot be removed: {error.strerror or error}"
                raise ConfigError(Problem(message)) from error
            removed.append(directory.name)
    return removed
