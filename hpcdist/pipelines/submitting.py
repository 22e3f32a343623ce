"""Submits the operations of a pipeline in their order, each exactly once.

A submission that is interrupted between two of them is gone on with by the next one of the same file: each
operation whose run has a job keeps it, the others are submitted. One that the batch system refuses takes
back the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, OutputError, PlanError, SchedulerError, SubmissionUnknown
from hpcdist.host import locks, ownership
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.pipelines import planning, store
from hpcdist.pipelines.model import Pipeline
from hpcdist.pipelines.planning import PlanOne, Step
from hpcdist.pipelines.store import Phase, Stored
from hpcdist.runs import awaited, control, requests, rundir, states
from hpcdist.runs.control import Output, SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState

_BUSY: Final = "another `hpcdist submit` of the same pipeline is running; waiting for it to finish"

Submit = Callable[[SubmitRequest, Planned, Output], Run]
"""Submits the run of a plan as `control.submit`."""


class PipelineRequest(NamedTuple):
    """What to submit: the pipeline, its site, and the options with which its file was read."""

    pipeline: Pipeline
    site: str
    options: ExperimentOptions

    @property
    def digest(self) -> str:
        """What identifies the pipeline on its machine."""
        own = self.pipeline.document.text, self.options.changes, self.options.remote or ""
        return rundir.digest(json.dumps(own))


class _Submission(NamedTuple):
    request: PipelineRequest
    stored: Stored
    runs_dir: Path
    services: Services
    plan: PlanOne
    submit: Submit
    output: Output

    def all(self) -> dict[str, Run]:
        """Submit the operations that have no job yet; return the runs of all."""
        found = {name: run for name, run in self.stored.runs().items() if run.job}
        for operation in self.request.pipeline.operations:
            run = found.get(operation.name)
            if not run or any(job.record.phase is not rundir.Phase.SUBMITTED for job in run.jobs):
                paths = {name: Path(run.record.there or run.directory.path) for name, run in found.items()}
                found[operation.name] = self._one(operation.name, paths)
        return found

    def _one(self, name: str, runs: Mapping[str, Path]) -> Run:
        pipeline = self.request.pipeline
        operation = next(one for one in pipeline.operations if one.name == name)
        remote = self.request.options.remote or ""
        awaiting = partial(awaited.resolved, runs_dir=self.runs_dir, services=self.services, remote=remote)
        step = planning.plan_one(pipeline, operation, self.stored.name, runs, self.plan, awaiting)
        return self.submit(request_of(step, self.stored.name, self.services), step.made, self.output)

    def take_back(self) -> list[str]:
        """Cancel what was submitted; return what became of it, in sentences."""
        found = [run for run in self.stored.runs().values() if run.job]
        self.stored._replace(phase=Phase.WITHDRAWN).save()
        if not found:
            return []
        names = ", ".join(run.name for run in found)
        try:
            control.cancel(found, self.services)
        except SchedulerError as error:
            return [f"{names} may go on: {problem}" for problem in error.problems]
        return [f"{names}: taken back, requested to cancel what was submitted of {self.stored.name}"]


def request_of(step: Step, pipeline: str, services: Services) -> SubmitRequest:
    """Return the request for the run of an operation; its mark names the operation, which identifies it.

    Raises:
        PlanError: as `requests.of`.
    """
    name, mark = step.operation.name, f"operation {step.operation.name} of {pipeline}"
    request = requests.of(step.made, step.options, services.runner, text=step.text, mark=mark)
    return request._replace(operation=f"{pipeline}/{name}")


def submit(  # noqa: PLR0913, PLR0917 - as `control.submit`, and what submits a run
    request: PipelineRequest,
    runs_dir: Path,
    services: Services,
    plan: PlanOne,
    submit_run: Submit,
    output: Output,
    *,
    again: bool = False,
) -> tuple[Stored, dict[str, Run]]:
    """Submit all operations; return the pipeline with their runs. All were planned before.

    Raises:
        SchedulerError: if the batch system refused one; those before it are cancelled, as notes print.
        SubmissionUnknown: if there was no answer; the next submission of the same file goes on.
        ConfigError: if the run of one cannot be written; the others are cancelled, too.
    """
    ownership.make(runs_dir)
    digest = request.digest
    with locks.exclusive(runs_dir, digest, services.sleep, lambda: output.note(_BUSY), name="pipeline"):
        old = None if again else store.interrupted(runs_dir, digest, request.site)
        stored = old and _gone_on_with(old, services, output)
        stored = stored or _created(request, digest, runs_dir, services)
        submission = _Submission(request, stored, runs_dir, services, plan, submit_run, output)
        try:
            found = submission.all()
        except (SubmissionUnknown, OutputError):
            output.note(f"{stored.name} is not submitted as a whole; submit the same file again to go on")
            raise
        except (SchedulerError, ConfigError, PlanError):
            for text in submission.take_back():
                output.note(text)
            raise
        return stored._replace(phase=Phase.SUBMITTED).save(), found


def _created(request: PipelineRequest, digest: str, runs_dir: Path, services: Services) -> Stored:
    directory: RunDirectory = services.create(runs_dir, request.pipeline.name)
    needs = {
        one.name: [(need.operation, need.condition) for need in one.needs]
        for one in request.pipeline.operations
    }
    created = rundir.timestamp(services.now())
    return Stored(directory, digest, request.site, created, needs).save(
        request.pipeline.document.text, request.options.changes
    )


def _gone_on_with(old: Stored, services: Services, output: Output) -> Stored | None:
    """Return a pipeline whose submission was interrupted, if none of its runs was cancelled since."""
    runs = old.runs()
    reports = states.status([*runs.values()], services)
    if any(report.status.state is JobState.CANCELLED for report in reports):
        output.note(f"{old.name} of the same file, whose submission was interrupted, was cancelled")
        old._replace(phase=Phase.WITHDRAWN).save()
        return None
    done = sum(run.job is not None for run in runs.values())
    output.note(
        f"{old.name} of the same file has {done} of {len(old.needs)} runs; its submission goes on now"
    )
    return old
