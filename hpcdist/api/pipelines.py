"""Pipelines: several experiments that the batch system starts one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from hpcdist.api import remote_runs
from hpcdist.api.experiments import options_of
from hpcdist.api.finding import runs_directory
from hpcdist.api.plans import Plan
from hpcdist.api.runs import Run, wait
from hpcdist.api.values import text_of
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.tree import Document
from hpcdist.checks.nodes import without_suspects
from hpcdist.loading import machine, recognition
from hpcdist.loading import planning as loading
from hpcdist.loading.machine import Here
from hpcdist.loading.planning import Awaiting, ExperimentOptions, Planned
from hpcdist.runs import cancelling
from hpcdist.runs.remotes import machines as remotes
from hpcdist.runs.submission import SubmitOutput
from hpcdist.schedulers.job import Status
from hpcdist.studies import pipeline_file, pipeline_runs, pipeline_submit
from hpcdist.studies.pipeline_submit import PipelineRequest


@dataclass(frozen=True)
class PipelineRun:
    """A pipeline that was submitted; ``notes``: what a verb would have printed then."""

    _stored: pipeline_runs.StoredPipeline = field(repr=False)
    name: str
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> Mapping[str, Run]:
        """The run of each operation that has one, in their order."""
        return MappingProxyType({name: Run(run) for name, run in self._stored.runs().items()})

    def status(self) -> Mapping[str, Status]:
        """Return the state of each operation, as `hpcdist status`; its reason says why it can never start."""
        nodes = pipeline_runs.operation_states(self._stored, remote_runs.services())
        return {node.name: replace(node.report.status, reason=node.reason) for node in nodes if node.report}

    def wait(self, timeout: float | None = None) -> Mapping[str, Status]:
        """Return how each operation ended, when all have; ``timeout`` in seconds.

        Raises:
            WaitTimeout: if they have not ended by then; they continue.
        """
        wait([*self.runs.values()], timeout)
        return self.status()

    def cancel(self) -> bool:
        """Cancel all operations; return whether the batch system was asked to: not for those that have ended.

        Raises:
            SchedulerError: as `Run.cancel`.
        """
        return bool(cancelling.cancel([*self._stored.runs().values()], remote_runs.services()))

    def resume(self) -> tuple[Run, ...]:
        """Run again what did not end well, and what depends on it, as `hpcdist resume`; return these runs.

        Raises:
            ConfigError: if all ended well or live, or one of them cannot run again.
            SchedulerError: if the state of one is unknown, or as `Plan.submit`.
        """
        from hpcdist.searches.resume import run_again  # it plans

        found = pipeline_submit.resume(self._stored, remote_runs.services(), SubmitOutput(), run_again)
        return tuple(map(Run, found))


@dataclass(frozen=True)
class Pipeline:
    """Several operations, each an experiment, as a file has them; `load_pipeline` makes it."""

    file: str
    _options: ExperimentOptions = field(repr=False)
    _document: Document = field(repr=False)

    def plan(self, *, on: str | None = None) -> Mapping[str, Plan]:
        """Decide what runs where, for each operation, as `hpcdist plan`; ``on`` as of `Experiment.plan`.

        Raises:
            ConfigError: with the problems of all operations.
            PlanError: if one does not fit the site, or its batch system cannot wait in such a way.
        """
        found = pipeline_submit.plan(self._request(runs_directory(None), on))
        return MappingProxyType({one.operation.name: Plan(one.made, one.options) for one in found})

    def _request(self, runs_dir: Path, on: str | None) -> PipelineRequest:
        """Return the pipeline as it is read for a remote, or for here."""
        options = self._options._replace(remote=on)
        remote = None if on is None else remotes.target(options)
        if remote and not options.site:
            options = options._replace(site=remote.site)
        pipeline = pipeline_file.read_pipeline(self._document, options)
        plan = partial(_plan, runs_dir, machine.here())
        return PipelineRequest(pipeline, options, runs_dir, plan, remote)

    def submit(
        self, runs_dir: str | os.PathLike[str] | None = None, *, again: bool = False, on: str | None = None
    ) -> PipelineRun:
        """Plan all operations, then submit each exactly once, as `hpcdist submit`, ``on`` a remote or here.

        If the batch system refuses one, those before it are cancelled. ``runs_dir`` and ``again`` as of
        `Plan.submit`.

        Raises:
            ConfigError: as `plan`, or if a run cannot be written.
            PlanError: as `plan`.
            SchedulerError: as `Plan.submit`.
            SubmissionUnknown: if there was no answer; the next submission of the same file resumes it.
        """
        notes = list[str]()
        request, output = self._request(runs_directory(runs_dir), on), SubmitOutput(note=notes.append)
        planned = pipeline_submit.plan(request)
        stored, _ = pipeline_submit.submit_planned(
            request, planned, remote_runs.services(), output, again=again
        )
        return PipelineRun(stored, stored.name, tuple(notes))


def _plan(
    runs_dir: Path, find: Here, options: ExperimentOptions, document: Document, awaiting: Awaiting
) -> Planned:
    made = loading.plan_experiment(options, document=document, awaiting=awaiting, find=find)
    return without_suspects(made, runs_dir)


def load_pipeline(
    path: str | os.PathLike[str],
    *,
    params: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    site: str | None = None,
) -> Pipeline:
    """Read a file with several operations; arguments as of `load`, keys of settings as ``OPERATION.KEY``.

    Raises:
        ConfigError: if the file cannot be read or is no pipeline, with all its problems and their places.
    """
    options = options_of(path, site, params, settings)
    file, document = options.file, recognition.read(options.file)
    if not pipeline_file.is_pipeline(document):
        raise ConfigError(Problem(f"{file} is no pipeline, but one experiment", hint="use `hpcdist.load`"))
    pipeline_file.read_pipeline(document, options)
    return Pipeline(file, options, document)


def find_pipeline(
    name: str | os.PathLike[str], runs_dir: str | os.PathLike[str] | None = None
) -> PipelineRun:
    """Return a pipeline that was submitted, by its name or its directory.

    Raises:
        ConfigError: if there is none, or it cannot be read.
    """
    where, wanted = runs_directory(runs_dir), text_of(name, "name")
    stored = pipeline_runs.find_pipeline(where, wanted)
    if stored is None:
        raise ConfigError(Problem(f"there is no pipeline {wanted!r} in {where}"))
    return PipelineRun(stored, stored.name)
