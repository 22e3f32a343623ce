"""Dependencies that name runs: they become the ids of jobs when a plan is made.

A plan is made on any machine, but only the runs directory knows which jobs a run has. Conditions that an
ended run fulfils are left out, since batch systems forget jobs; impossible conditions are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, Problem, comma_list
from hpcdist.experiment.batch import AwaitedJob, Dependency, WaitCondition
from hpcdist.experiment.model import Experiment
from hpcdist.runs import elements, endings, finding
from hpcdist.runs.job_states import Report, of_jobs, status
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.search_progress import expecting_next
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, Status
from hpcdist.site.model import Site

_PATH: Final = ("batch", "dependency")
_NEEDS_GOOD: Final = ("afterok", "aftercorr", "afterburstbuffer")

Alternatives = Sequence[Sequence[WaitCondition]]
"""Fulfilled if all conditions of any one are; no alternatives: never; an empty one: always."""


class _Awaited(NamedTuple):
    """A run, or an element of it, that an experiment waits for, and its state."""

    name: str
    run: Run
    element: str
    report: Report

    @property
    def end(self) -> Status | None:
        """How it ended; None while it lives."""
        found = self.report.status
        if self.element and found.state.is_final and found.state is not JobState.COMPLETED:
            last = self._job
            ends, others = endings.read(last.job, finding.elements_of(last)) if last.job else ({}, None)
            found = ends.get(int(self.element), others or found)
        return found if found.state.is_final else None

    @property
    def bad_end(self) -> Status | None:
        """The bad end of a job that no later job continues, so that the run cannot complete."""
        counted = self.report.jobs[self.run.continued :] if not self.run.is_followed else ()
        ends = (job.status for job in counted if job.status.state.is_final)
        return next((end for end in ends if end.state is not JobState.COMPLETED), None)

    @property
    def _job(self) -> Run:
        """The last job that has the element."""
        submitted = (job for job in reversed(self.run.jobs) if job.job)
        having = (job for job in submitted if int(self.element) in finding.elements_of(job))
        return next(having, self.run)

    def ids(self) -> list[AwaitedJob]:
        """Return the jobs that have not ended; for an element, its job alone."""
        if self.element:
            index = elements.numbers(self._job.record.trials).place(int(self.element)) or int(self.element)
            return [AwaitedJob(self._job.event_id, str(index))]
        alive = [job.run for job in self.report.jobs if not job.status.state.is_final]
        return [AwaitedJob(job.event_id) for job in alive if job.event_id]


def resolved(
    experiment: Experiment, site: Site, runs_dir: Path, services: Services | None, remote: str = ""
) -> Experiment:
    """Return the experiment with the ids of jobs where its dependency names runs.

    ``services`` query the states of those runs at once; without services, the records are used. ``remote``:
    where the experiment is to be submitted; empty for this machine.

    Raises:
        ConfigError: if there is no such run, it is on another machine, or it never fulfils the condition.
    """
    texts = experiment.batch.dependency
    waits = [Dependency.parse(text) for text in ([texts] if isinstance(texts, str) else texts)]
    names = {job.id for one in waits for wait in one.conditions for job in wait.jobs if job.is_run}
    if not names:
        return experiment
    found = _found(names, site, runs_dir, services, remote)
    _check_last(waits, found)
    kept = [text for one in waits if (text := _text(one, found))]
    return replace(experiment, batch=replace(experiment.batch, dependency=tuple(kept)))


def _check_last(waits: Sequence[Dependency], found: Mapping[str, _Awaited]) -> None:
    """Check that each search whose end is awaited has its last job."""
    conditions = (wait for one in waits for wait in one.conditions if wait.awaited != "after")
    names = {job.id for wait in conditions for job in wait.jobs if job.is_run}
    whole = {name: one.report for name, one in found.items() if name in names and not one.element}
    problems = [_not_last(name, there.text) for name, one in whole.items() if (there := expecting_next(one))]
    if problems:
        raise ConfigError(*problems)


def _not_last(name: str, trials: str) -> Problem:
    message = f"{name} goes on in generations, and the last one is not submitted yet ({trials})"
    hint = f"submit this after `hpcdist wait {name}`, which submits all of them and waits for the last"
    return Problem(message, _PATH, hint, word=name)


def _found(
    names: set[str], site: Site, runs_dir: Path, services: Services | None, remote: str
) -> Mapping[str, _Awaited]:
    """Return the runs of these names with their states."""
    runs: dict[str, tuple[Run, str]] = {}
    problems: list[Problem] = []
    for name in sorted(names):
        try:
            runs[name] = finding.find_element(runs_dir, name)
        except ConfigError as error:
            problems += (problem._replace(path=_PATH, word=name) for problem in error.problems)
    problems += (problem for name, one in runs.items() for problem in _unfit(name, *one, site, remote))
    if problems:
        raise ConfigError(*problems)
    reports = _reports({run.directory: run for run, _ in runs.values()}, services)
    return {
        name: _Awaited(name, run, element, reports[run.directory]) for name, (run, element) in runs.items()
    }


def _unfit(name: str, run: Run, element: str, site: Site, remote: str) -> Iterator[Problem]:
    """Yield why no job of this site can wait for this run."""
    if run.record.remote != remote:
        where = [each or "this machine" for each in (run.record.remote, remote)]
        hint = f"submit it with --on {run.record.remote}" if run.record.remote else "submit it without --on"
        yield Problem(f"{name} is on {where[0]}, and this job on {where[1]}", _PATH, hint, word=name)
    elif (run.record.site, run.record.scheduler) != (site.name, site.scheduler):
        message = f"{name} is on site {run.record.site} ({run.record.scheduler}), and this job on {site.name}"
        yield Problem(message, _PATH, "a batch system waits for its own jobs alone", word=name)
    elif all(job.job is None for job in run.jobs):
        yield Problem(f"{name} has no job", _PATH, f"see `hpcdist status {run.name}`", word=name)
    elif element and run.directory.plan().workers:
        message = f"{name} shares its job with other trials, so that no batch system can wait for it alone"
        yield Problem(message, _PATH, f"wait for all of {run.name}", word=name)


def _reports(runs: Mapping[RunDirectory, Run], services: Services | None) -> Mapping[RunDirectory, Report]:
    if services is not None:
        return dict(zip(runs, status([*runs.values()], services), strict=True))
    unknown = Status(JobState.UNKNOWN)
    recorded = {
        where: [Report(job._replace(later=()), job.record.ended or unknown) for job in run.jobs]
        for where, run in runs.items()
    }
    return {where: of_jobs(jobs) for where, jobs in recorded.items()}


def _text(one: Dependency, found: Mapping[str, _Awaited]) -> str:
    """Return a dependency without names of runs; empty if it is fulfilled."""
    left: list[Sequence[WaitCondition]] = []
    never: list[Problem] = []
    for conditions in one.alternatives:
        all_of: Alternatives = [()]
        for wait in conditions:
            each, problems = _condition(wait, found)
            never += problems
            all_of = [(*before, *after) for before in all_of for after in each]
        left += all_of
    if not left:
        raise ConfigError(*never)
    if any(not conditions for conditions in left):
        return ""
    return str(Dependency(tuple(tuple(conditions) for conditions in left)))


def _condition(wait: WaitCondition, found: Mapping[str, _Awaited]) -> tuple[Alternatives, list[Problem]]:
    """Resolve a condition; also return why it is never fulfilled."""
    own = tuple(job for job in wait.jobs if not job.is_run)
    alternatives: Alternatives = [(WaitCondition(wait.kind, own),)] if own or not wait.jobs else [()]
    for job in (job for job in wait.jobs if job.is_run):
        each, problem = _of_run(wait, job, found[job.id])
        if problem:
            return (), [problem]
        alternatives = [_joined(before, after) for before in alternatives for after in each]
    return alternatives, []


def _joined(before: Sequence[WaitCondition], after: Sequence[WaitCondition]) -> Sequence[WaitCondition]:
    """Join both; two conditions of one kind become one: ``afterok:12:13``."""
    if before and after and before[-1].kind == after[0].kind:
        last = WaitCondition(before[-1].kind, (*before[-1].jobs, *after[0].jobs))
        return (*before[:-1], last, *after[1:])
    return (*before, *after)


def _of_run(wait: WaitCondition, job: AwaitedJob, one: _Awaited) -> tuple[Alternatives, Problem | None]:
    """Resolve a condition on one run, or return why it never holds."""
    kind, end = wait.awaited, one.end
    if end is None and kind in _NEEDS_GOOD and not one.element:
        end = one.bad_end
    if end is not None:
        is_good = end.state is JobState.COMPLETED
        never = (kind in _NEEDS_GOOD and not is_good) or (kind == "afternotok" and is_good)
        return ((), _never(wait, one, end)) if never else ([()], None)
    ids = [replace(each, delay=job.delay) for each in one.ids()]
    if kind == "afternotok" and one.bad_end and not one.element:
        return [(WaitCondition("afterany", tuple(ids)),)], None
    if (kind != "afternotok" and not one.run.is_followed) or len(ids) == 1 or kind == "afterany":
        return [(WaitCondition(wait.kind, tuple(ids)),)], None
    if kind not in _NEEDS_GOOD:
        names = comma_list([each.id for each in ids])
        several = "attempts as jobs" if one.run.is_followed else "jobs"
        message = f"{one.name} has several {several} ({names}): {kind} of them is no one condition"
        return (), Problem(message, _PATH, f"write `afterany:{one.name}`, or the id of one", word=job.id)
    # The attempt that completes the training cancels the later ones: any one is enough.
    return [(WaitCondition(wait.kind, (each,)),) for each in ids], None


def _never(wait: WaitCondition, one: _Awaited, end: Status) -> Problem:
    code = f" with exit code {end.exit_code}" if end.exit_code else ""
    message = f"the job would never start: {one.name} is {end.state.value}{code}, and this waits for"
    message += " its failure" if wait.awaited == "afternotok" else " its success"
    hint = f"wait for a later run of it, or write `afterany:{one.name}`"
    return Problem(message, _PATH, hint, word=one.name)
