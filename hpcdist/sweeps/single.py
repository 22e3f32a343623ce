"""One trial of a search, or element of an array, as ``RUN/3`` names it: its state, and its end alone."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs import cancelling, elements
from hpcdist.runs.attempts import REQUEUED, Attempt, UsageOf
from hpcdist.runs.elements import Elements
from hpcdist.runs.finding import elements_of
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState, element_id, split_id
from hpcdist.sweeps import claims, trials
from hpcdist.sweeps.trials import Trial
from hpcdist.tracking import trial_params

LIVE: Final = frozenset((*(state.value for state in JobState if not state.is_final), REQUEUED))
"""States of trials that have not ended."""


class Single(NamedTuple):
    """A trial or element with the job that runs it, the last one of its run that has it."""

    report: Report
    job: Report
    trial: Trial
    attempts: tuple[Attempt, ...] = ()

    @property
    def name(self) -> str:
        """Its name as people write it: ``tune-1/3``."""
        return f"{self.report.run.name}/{self.trial.number}"

    @property
    def event_id(self) -> str:
        """Its id in the event log and in the names of its files."""
        job = self.job.run.event_id
        return job and element_id(job, self.trial.number)


def find(report: Report, number: int, usage: UsageOf, now: float) -> Single:
    """Return a trial with its state; ``usage`` as in `attempts.read`.

    Raises:
        ConfigError: if the run has no such trial or element.
    """
    run = report.run
    plan, params = run.directory.plan(), trial_params.of(run)
    there = Elements() if params else plan.elements("")
    if str(number) not in params and number not in there:
        raise ConfigError(_unknown(run, number, [*map(int, params)] or there))
    having = (job for job in reversed(report.jobs) if number in elements_of(job.run))
    job = next(having, report.jobs[0])
    job = job._replace(run=job.run._replace(later=()))
    [trial] = trials.trials(job, usage, now, {str(number): params.get(str(number), plan.params)})
    own = [
        one
        for one in trials.all_attempts(report, usage, now, hosts=True)
        if split_id(one.job)[1] == str(number)
    ]
    return Single(report, job, trial, tuple(own))


def _unknown(run: Run, number: int, there: list[int] | Elements) -> Problem:
    if not there:
        hint = "only searches and arrays have any: leave the number out"
        return Problem(f"{run.name} has no trials or elements", hint=hint)
    known = elements.text_of(there) if isinstance(there, list) else there.text
    kind = "trial" if isinstance(there, list) else "element"
    return Problem(f"{run.name} has no {kind} {number}", hint=f"it has {known}")


def cancel(found: Single, services: Services) -> bool:
    """Cancel a trial alone; return whether there was something to cancel.

    By the batch system's own command; a packed one, which shares its job, by a file for its worker.

    Raises:
        SchedulerError: if it cannot be cancelled alone, or as `cancelling.cancel`.
    """
    run, number = found.job.run, found.trial.number
    if found.trial.state not in LIVE:
        return False
    if run.directory.plan().workers:
        return _cancel_packed(found, services)
    index = elements.numbers(run.record.trials).place(number) or number
    return cancelling.cancel_element(found.job, number, index, services)


def _cancel_packed(found: Single, services: Services) -> bool:
    run, number = found.report.run, found.trial.number
    try:
        if run.record.remote and run.job:
            completed = services.at([run]).runner.run(claims.command_to_cancel(run.job.directory, number))
            why = "" if completed.ok else completed.stderr.strip() or f"exit code {completed.returncode}"
        else:
            claims.cancel(run.directory, number)
            why = ""
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SchedulerError(Problem(f"{found.name} could not be cancelled: {why}"))
    return True
