"""Runs: what was submitted, its state, and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcdist.api import called, follow_up, remote_runs, results, values, waiting
from hpcdist.api.results import Metrics, Trial
from hpcdist.api.values import all_of, count, texts
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import cancelling, finding, job_states, logs, rundir
from hpcdist.runs.logs import Watch
from hpcdist.runs.services import renewed
from hpcdist.schedulers.job import Status
from hpcdist.searches import progress, replan
from hpcdist.searches.trials import best
from hpcdist.tracking import comparison, outputs, series
from hpcdist.tracking.outputs import Output

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, repr=False)
class Run:
    """One submission and all that belongs to it; ``notes``: what a verb would have printed when it was made.

    Its methods read the run directory and ask the batch system anew each time, so that one value may be kept,
    and be used by several threads. What a run of a remote wrote comes here before it is read; if the remote
    does not answer, that is a warning. Any of them raises ``ConfigError`` if the run's files cannot be read.
    """

    _run: rundir.Run
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run: ``train-1``."""
        return self._run.name

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._run.directory.path

    @property
    def site(self) -> str:
        """The machine."""
        return self._run.record.site

    @property
    def job_ids(self) -> tuple[str | None, ...]:
        """The id of each of its jobs, None where it is not known."""
        return tuple(job.record.job_id for job in renewed(self._run).jobs)

    def status(self) -> Status:
        """Return the state of its job, as `hpcdist status`, by one query; unknown is an answer."""
        return job_states.status([renewed(self._run)], remote_runs.services())[0].status

    def wait(self, timeout: float | None = None) -> Status:
        """Return how its job ended, when it has; ``timeout`` in seconds.

        Of a search by hyperband or bo, each generation is submitted when the one before has ended, up to the
        last, whose end it is.

        Raises:
            ConfigError: if the next generation cannot be chosen, as a trial was lost or none has the metric.
            SchedulerError: if it cannot be submitted.
            WaitTimeout: if it has not ended by then; the job goes on.
        """
        return waiting.wait([self._run], timeout)[0]

    async def wait_async(self, timeout: float | None = None) -> Status:
        """As `wait`, while the event loop goes on; a cancelled ``await`` leaves the job alone.

        Raises:
            WaitTimeout: as `wait`.
        """
        return (await waiting.wait_async([self._run], timeout))[0]

    def result(self, timeout: float | None = None, *, trial: int | None = None) -> Any:
        """Wait for a run of `call`, and return what its function returned, or raise what it raised.

        ``trial``: of a run of `call_each`, the number of the arguments, from 1.

        Raises:
            JobFailed: if the job ended without a result.
            WaitTimeout: as `wait`.
            ConfigError: if others could have written the result: unpickling it runs what is in it.
        """
        status = self.wait(timeout)
        if trial is None:
            return called.result(self._run, called.CallEnd(status.state.value, status.reason))
        end = called.ends(self._run).get(trial)
        if end is None:
            raise ConfigError(Problem(f"{self.name} has no trial {trial}", hint="the first one is 1"))
        return called.result(self._run, end)

    def logs(
        self, *, rank: int | None = None, trial: int | None = None, follow: bool = False
    ) -> Iterator[str]:
        """Yield the lines of its output, of one rank or of one trial (or element) alone.

        ``follow``: and new ones as they are written, until the job ends.

        Raises:
            ConfigError: if there is no such rank or trial, or ``trial`` is to be followed.
            OSError: if a file cannot be read.
        """
        directory = self._run.directory
        if rank is not None:
            logs.check_rank(directory, count(rank, "rank"))
        if trial is not None:
            finding.check_element(renewed(self._run), count(trial, "trial"))
        if follow and trial is not None:
            raise ConfigError(Problem("the output of one trial cannot be followed", hint="follow the run"))
        if follow:
            services = remote_runs.services()
            watch = Watch(renewed(self._run), services)
            files = [watch.observe(logs.follow(directory, watch.is_over, watch.sleep))]
        else:
            remote_runs.pull(self._run)
            files = [logs.lines(file) for file in logs.files(directory, "" if trial is None else str(trial))]
        if rank is None:
            return (line for file in files for line in file)
        labelled = logs.is_labelled(directory)
        return (line for file in files for line in logs.of_rank(file, rank, labelled=labelled, live=follow))

    def metrics(self) -> Metrics:
        """Return what its program recorded with `hpcdist_tracking` or otherwise, as `hpcdist metrics`.

        Raises:
            OSError: if the run directory cannot be read.
        """
        remote_runs.pull(self._run)
        return results.metrics_of(series.read(self._run.directory, self._run.directory.plan()))

    def trials(self, by: str | None = None) -> tuple[Trial, ...]:
        """Return the trials of a search with their states, params and last metrics.

        ``by``: the name of a metric, of which only trials that have it are returned, from the lowest on; with
        ``-`` before it from the highest.

        Raises:
            ConfigError: if the run is no search, or no trial has the metric.
        """
        remote_runs.pull(self._run)
        run = renewed(self._run)
        found = progress.look(run, remote_runs.services()).trials
        tracked = {item.name: item for item in comparison.tracked(run, run.directory.plan())}
        named = {f"{run.name}/{one.number}": one for one in found}
        there = [tracked[name] for name in named if name in tracked]
        chosen = best(there, by, len(there)) if by else there
        return tuple(
            Trial(named[item.name].number, item.params, named[item.name].state, item.metrics)
            for item in chosen
        )

    def outputs(self) -> tuple[Output, ...]:
        """Return the files below ``directory / "outputs"``, with recorded hashes, as `hpcdist outputs`.

        Those that are on the run's remote alone are of kind ``there``; `fetch` brings them.

        Raises:
            OSError: if the run's files cannot be read.
        """
        remote_runs.pull(self._run)
        remote = remote_runs.outputs_there(self._run)
        return tuple(outputs.outputs(self._run.directory, remote=remote))

    def fetch(self, *patterns: str) -> None:
        """Bring the outputs of a run of a remote here that match, as `hpcdist outputs --get`.

        ``patterns``: of paths, or of folders; all of a run that is here are here already.

        Raises:
            ConfigError: if a pattern has none.
            SchedulerError: if the remote does not answer, or files there have changed meanwhile.
            OSError: if they cannot be written here.
        """
        remote_runs.fetch(self._run, patterns or ("*",))

    def cancel(self) -> bool:
        """Cancel its jobs; return whether the batch system was asked to: not for those that have ended.

        Raises:
            SchedulerError: if the batch system refused or did not answer, or the job is unknown.
        """
        return bool(cancelling.cancel([renewed(self._run)], remote_runs.services()))

    def restart(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        site: str | None = None,
        update_code: bool = False,
    ) -> Run:
        """Submit its recorded experiment once more, as a new run beside it, as `hpcdist restart`.

        ``params``, ``settings`` and ``site`` as of `load`; ``update_code``: the code is taken anew from the
        folder where the run was submitted.

        Raises:
            ConfigError: if its experiment or its code cannot be read.
            PlanError: if the site does not take it any more.
            SchedulerError: as `Plan.submit`.
        """
        new = replan.NewRun(site, texts(params or {}), texts(settings or {}), update_code)
        return Run(*follow_up.resubmitted(self._run, self.directory.parent, new))

    def copy(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        site: str | None = None,
        update_code: bool = False,
    ) -> Run:
        """Submit it as `restart`; the new run begins with copies of the outputs and checkpoints of this one.

        Raises:
            ConfigError: as `restart`, or if they cannot be copied.
            PlanError: as `restart`.
            SchedulerError: as `Plan.submit`.
        """
        new = replan.NewRun(site, texts(params or {}), texts(settings or {}), update_code)
        return Run(*follow_up.resubmitted(self._run, self.directory.parent, new._replace(copies=True)))

    def resume(
        self,
        *,
        nodes: int | None = None,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Run:
        """Go on with it by a further job, which finds its outputs and checkpoints, as `hpcdist resume`.

        Of a search, the trials that did not complete run once more. ``nodes``: so many from now on, each with
        as many replicas as before. Of several programs that resume it at once, one submits a job.

        Raises:
            ConfigError: if a job of it lives, it has completed, or it is a search and is to be changed.
            PlanError: if the site does not take it any more.
            SchedulerError: as `Plan.submit`.
        """
        changes = replan.Changes(texts(params or {}), texts(settings or {}), nodes)
        return Run(*follow_up.resumed(self._run, changes))

    def __repr__(self) -> str:
        return f"<Run {self.name}: {dict(self._rows())['state']}>"

    def __rich__(self) -> Table:
        return values.table(self._rows())

    def _repr_html_(self) -> str:
        return values.html(self._rows())

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Yield what is recorded of it: a cell of a notebook does not wait for a batch system."""
        run = renewed(self._run)
        ended = run.record.ended
        yield "run", run.name
        yield "site", run.record.site
        yield "jobs", ", ".join(job.record.job_id or "-" for job in run.jobs)
        yield "state", ended.state.value if ended and not run.later else f"{run.record.phase.value}"
        yield "directory", str(run.directory.path)
        yield from (("note", note) for note in self.notes)


def wait(runs: Sequence[Run], timeout: float | None = None) -> list[Status]:
    """Return how these runs ended, when all have; they are queried together. ``timeout`` in seconds.

    Raises:
        WaitTimeout: if they have not ended by then; their jobs go on.
    """
    found = all_of(Run, runs, "runs")
    return waiting.wait([run._run for run in found], timeout)  # noqa: SLF001 - as a method of each


async def wait_async(runs: Sequence[Run], timeout: float | None = None) -> list[Status]:
    """As `wait`, while the event loop goes on; a cancelled ``await`` leaves the jobs alone.

    Raises:
        WaitTimeout: as `wait`.
    """
    found = all_of(Run, runs, "runs")
    return await waiting.wait_async([run._run for run in found], timeout)  # noqa: SLF001 - as `wait`
