"""Submitting pipelines, each operation exactly once, and running again what did not end well.

A submission that is interrupted between two operations is resumed by the next one of the same file:
operations with a job keep it, the others are submitted. If the batch system refuses an operation, those
before it are cancelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hpcdist.base import locks, ownership
from hpcdist.base.errors import (
    ConfigError,
    OutputError,
    PlanError,
    Problem,
    SchedulerError,
    SubmissionUnknown,
    comma_list,
)
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.runs import awaited, cancelling, job_states, requests, rundir, this_machine, waiting
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput, SubmitRequest
from hpcdist.schedulers.job import JobState
from hpcdist.studies.pipeline_plan import (
    Operation,
    Pipeline,
    PlannedOperation,
    PlanOne,
    Runs,
    expected_runs,
    fill_references,
    malformed_references,
    plan_operation,
    plan_operations,
    with_orphan_directive,
)
from hpcdist.studies.pipeline_runs import (
    OperationState,
    PipelinePhase,
    StoredPipeline,
    find_pipeline,
    interrupted_submission,
    operation_states,
)

if TYPE_CHECKING:
    from hpcdist.runs.remotes.machines import Target

_BUSY: Final = "another `hpcdist submit` of the same pipeline is running; waiting for it to finish"

Submit = Callable[[SubmitRequest, Planned, SubmitOutput], Run]
"""Submits the run of a plan as `submission.submit`."""


class PipelineRequest(NamedTuple):
    """A pipeline as read with these options, and how it is planned: for ``remote``, or for this machine."""

    pipeline: Pipeline
    options: ExperimentOptions
    runs_dir: Path
    plan: PlanOne
    remote: Target | None = None

    @property
    def digest(self) -> str:
        """What identifies the pipeline on its machine."""
        own = self.pipeline.document.text, self.options.changes, self.options.remote or ""
        return rundir.digest(json.dumps(own))


def plan(request: PipelineRequest) -> list[PlannedOperation]:
    """Plan all operations, with the run directories that they will have.

    Raises:
        ConfigError: with the problems of all operations.
        PlanError: as `plan_operations`.
    """
    pipeline, remote = request.pipeline, request.remote
    name = rundir.next_name(request.runs_dir, pipeline.name)
    runs = expected_runs(pipeline, name, remote.all_runs if remote else request.runs_dir)
    return plan_operations(pipeline, name, runs, request.plan)


def submit_planned(
    request: PipelineRequest,
    planned: Sequence[PlannedOperation],
    services: Services,
    output: SubmitOutput,
    *,
    again: bool = False,
) -> tuple[StoredPipeline, dict[str, Run]]:
    """Submit all operations, which were planned before, on the remote or here.

    Raises:
        ConfigError: if a program would not be found there, or as `submit`.
        SchedulerError: as `submit`.
    """
    from hpcdist.runs.remotes import machines as remotes  # with the user's config

    if request.remote:
        for step in planned:
            remotes.check_code(step.made, request.remote)
    this_machine.check(request.runs_dir)
    submit_run = partial(remotes.submit, request.remote, request.runs_dir, services)
    return submit(request, planned[0].made.plan.identity.site, services, submit_run, output, again=again)


class _Submission(NamedTuple):
    request: PipelineRequest
    stored: StoredPipeline
    services: Services
    submit: Submit
    output: SubmitOutput

    def all(self) -> dict[str, Run]:
        """Submit the operations that have no job yet; return the runs of all."""
        found = {name: run for name, run in self.stored.runs().items() if run.job}
        for operation in self.request.pipeline.operations:
            run = found.get(operation.name)
            if not run or any(job.record.phase is not rundir.Phase.SUBMITTED for job in run.jobs):
                paths = {name: Path(run.record.there or run.directory.path) for name, run in found.items()}
                found[operation.name] = self._one(operation, paths)
        return found

    def _one(self, operation: Operation, runs: Runs) -> Run:
        pipeline, options, runs_dir, plan, _ = self.request
        remote = options.remote or ""
        find = partial(awaited.resolved, runs_dir=runs_dir, services=self.services, remote=remote)
        step = plan_operation(pipeline, operation, self.stored.name, runs, plan, find)
        return self.submit(request_of(step, self.stored.name, self.services), step.made, self.output)

    def take_back(self) -> list[str]:
        """Cancel what was submitted; return what became of it, in sentences."""
        found = [run for run in self.stored.runs().values() if run.job]
        self.stored._replace(phase=PipelinePhase.WITHDRAWN).save()
        if not found:
            return []
        names = ", ".join(run.name for run in found)
        try:
            cancelling.cancel(found, self.services)
        except SchedulerError as error:
            return [f"{names} may still run: {problem}" for problem in error.problems]
        return [f"{names}: taken back, requested to cancel what was submitted of {self.stored.name}"]


def request_of(step: PlannedOperation, pipeline: str, services: Services) -> SubmitRequest:
    """Return the request for the run of an operation; its mark names the operation, which identifies it.

    Raises:
        PlanError: as `requests.of`.
    """
    name, mark = step.operation.name, f"operation {step.operation.name} of {pipeline}"
    request = requests.of(step.made, step.options, services.runner, text=step.text, mark=mark)
    return request._replace(operation=f"{pipeline}/{name}")


def submit(  # noqa: PLR0913 - a pipeline, and how its runs are submitted
    request: PipelineRequest,
    site: str,
    services: Services,
    submit_run: Submit,
    output: SubmitOutput,
    *,
    again: bool = False,
) -> tuple[StoredPipeline, dict[str, Run]]:
    """Submit all operations; return the pipeline with their runs. All were planned before.

    Raises:
        SchedulerError: if the batch system refused one; the earlier ones are cancelled, with notes.
        SubmissionUnknown: if there was no answer; the next submission of the same file resumes it.
        ConfigError: if the run of one cannot be written; the others are cancelled, too.
    """
    runs_dir, digest = request.runs_dir, request.digest
    ownership.make(runs_dir)
    with locks.exclusive(runs_dir, digest, services.sleep, lambda: output.note(_BUSY), name="pipeline"):
        old = None if again else interrupted_submission(runs_dir, digest, site)
        stored = old and _resumed(old, services, output)
        stored = stored or _created(request, site, services)
        submission = _Submission(request, stored, services, submit_run, output)
        try:
            found = submission.all()
        except (SubmissionUnknown, OutputError):
            output.note(
                f"{stored.name} is not submitted as a whole; submit the same file again to complete it"
            )
            raise
        except (SchedulerError, ConfigError, PlanError):
            for text in submission.take_back():
                output.note(text)
            raise
        return stored._replace(phase=PipelinePhase.SUBMITTED).save(), found


def _created(request: PipelineRequest, site: str, services: Services) -> StoredPipeline:
    pipeline = request.pipeline
    directory: RunDirectory = services.create(request.runs_dir, pipeline.name)
    needs = {
        one.name: [(need.operation, need.condition) for need in one.needs] for one in pipeline.operations
    }
    stored = StoredPipeline(directory, request.digest, site, rundir.timestamp(services.now()), needs)
    return stored.save(pipeline.document.text, request.options.changes)


def _resumed(old: StoredPipeline, services: Services, output: SubmitOutput) -> StoredPipeline | None:
    """Return a pipeline whose submission was interrupted, if none of its runs was cancelled since."""
    runs = old.runs()
    reports = job_states.status([*runs.values()], services)
    if any(report.status.state is JobState.CANCELLED for report in reports):
        output.note(f"{old.name} of the same file, whose submission was interrupted, was cancelled")
        old._replace(phase=PipelinePhase.WITHDRAWN).save()
        return None
    done = sum(run.job is not None for run in runs.values())
    output.note(f"{old.name} of the same file has {done} of {len(old.needs)} runs; the others are submitted")
    return old


# --- Running again what did not end well


class Rerun(Protocol):
    """Submits a further job of a run, which resumes or, if it ended well, runs once more."""

    def __call__(
        self, run: Run, services: Services, output: SubmitOutput, awaiting: Awaiting, *, whole: bool
    ) -> Run:
        """Return the run; ``awaiting``: how runs that it waits for are found; ``whole``: see `resume`."""


def resume(stored: StoredPipeline, services: Services, output: SubmitOutput, rerun: Rerun) -> list[Run]:
    """Submit a further job for each operation that did not end well, and for its dependents.

    The runs keep their directories, so that paths of outputs stay valid and programs find their checkpoints.
    Repeated after an interruption, it leaves live jobs alone. All elements of an array run again if their
    inputs are made again; else the failed ones.

    Raises:
        ConfigError: if all ended well or live, or one of them cannot run again.
        SchedulerError: if the state of one is unknown, or as `submission.submit`.
    """
    nodes = operation_states(stored, services)
    again = _again(nodes)
    _check(stored, nodes, again)
    stuck = [node.run for node in again if node.run and node.state is JobState.PENDING]
    if stuck:
        cancelling.cancel(stuck, services)
        waiting.wait(stuck, services)
    names = {node.name for node in again}
    whole = {node.name for node in again if names & {other for other, _ in node.needs}}
    found = []
    for run, name in [(node.run, node.name) for node in again if node.run]:
        find = partial(
            awaited.resolved, runs_dir=run.directory.path.parent, services=services, remote=run.record.remote
        )
        found.append(rerun(run, services, output, with_orphan_directive(find), whole=name in whole))
    return found


Pairs = Sequence[tuple[str, str]]
"""Params or settings, with their texts."""


def with_outputs(run: Run, *changes: Pairs) -> list[tuple[tuple[str, str], ...]]:
    """Return changes of an operation with paths of outputs filled in; changes of other runs as they are.

    Raises:
        ConfigError: if outputs are of no earlier operation, or a reference is malformed.
    """
    name, _, own = run.record.operation.partition("/")
    stored = find_pipeline(run.directory.path.parent, name) if name else None
    if stored is None:
        return [tuple(pairs) for pairs in changes]
    runs, before = stored.runs(), _before(stored, own)

    def outputs(other: str) -> str:
        if other in before and other in runs:
            return str(runs[other].directory.outputs)
        hint = f"it needs {comma_list(before)}" if before else "it needs none"
        message = f"{name}/{own} does not need {other}, and so cannot use its outputs"
        raise ConfigError(Problem(message, hint=hint))

    wrong = (
        one._replace(path=())
        for one in malformed_references([text for pairs in changes for _, text in pairs])
    )
    if problems := dict.fromkeys(wrong):
        raise ConfigError(*problems)
    return [tuple((key, str(fill_references(text, outputs, {}))) for key, text in pairs) for pairs in changes]


def _before(stored: StoredPipeline, name: str) -> list[str]:
    """Return the operations that end before this one begins, in the order of the file."""
    found, left = set[str](), [name]
    while left:
        more = {need for need, _ in stored.needs.get(left.pop(), ())} - found
        found |= more
        left += more
    return [other for other in stored.needs if other in found]


def _again(nodes: Sequence[OperationState]) -> list[OperationState]:
    """Return the operations that run again, in their order."""
    names: set[str] = set()
    for node in nodes:
        bad = node.blocked_by or (node.state.is_final and node.state is not JobState.COMPLETED)
        if (bad and node.is_needed) or any(other in names for other, _ in node.needs):
            names.add(node.name)
    return [node for node in nodes if node.name in names]


def _check(stored: StoredPipeline, nodes: Sequence[OperationState], again: Sequence[OperationState]) -> None:
    missing = [node.name for node in nodes if node.run is None or node.state is JobState.UNSUBMITTED]
    if missing:
        message = f"{stored.name} was not submitted as a whole: {', '.join(missing)} has no job"
        raise ConfigError(Problem(message, hint="submit its file again, which submits the others"))
    if unknown := [node for node in nodes if node.state is JobState.UNKNOWN]:
        message = f"the state of {stored.name}/{unknown[0].name} is unknown: {unknown[0].reason}"
        raise SchedulerError(Problem(message, hint="resume it when the batch system answers"))
    if live := [node for node in again if not node.state.is_final and node.state is not JobState.PENDING]:
        message = f"{stored.name}/{live[0].name} is {live[0].state.value}, and would have to run again"
        raise ConfigError(Problem(message, hint=f"wait for it, or `hpcdist cancel {stored.name}`"))
    if not again:
        raise ConfigError(Problem(f"every operation of {stored.name} has completed, or is still to run"))
