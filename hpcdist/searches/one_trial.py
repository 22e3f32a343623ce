"""One trial of a search, or element of an array, as ``RUN/3`` names it: its state, and its cancellation.

Workers of packed trials make links ``claims/TRIAL.START``, and files ``again/TRIAL.START`` of returned trials
(``templates/runtime/supervisor/packed.py``). START is 0 at first; each return adds 1.
``cancelled_trials/TRIAL`` exists for each trial that its user cancelled alone: its worker ends its program
within a second or two, and no worker starts it. (``cancelled`` is the file of a run that was cancelled as a
whole: `hpcdist.runs.cancelling`.)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base.command import Command
from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs import attempts, cancelling, elements
from hpcdist.runs.attempts import REQUEUED, Attempt, UsageOf
from hpcdist.runs.elements import Elements
from hpcdist.runs.finding import elements_of
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, element_id, split_id
from hpcdist.searches import trials
from hpcdist.searches.trials import CANCELLED, TrialState
from hpcdist.tracking import trial_params

LIVE: Final = frozenset((*(state.value for state in JobState if not state.is_final), REQUEUED))
"""States of trials that have not ended."""

_CLAIM: Final = re.compile(r"([1-9][0-9]{0,8})\.([0-9]{1,9})")


class OneTrial(NamedTuple):
    """A trial or element, and the last job of its run that has it."""

    report: Report
    job: Report
    trial: TrialState
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


def find(report: Report, number: int, usage: UsageOf, now: float) -> OneTrial:
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
    whole = attempts.all_attempts(report, now, usage, hosts=True)
    own = (one for one in whole if split_id(one.job)[1] == str(number))
    return OneTrial(report, job, trial, tuple(own))


def _unknown(run: Run, number: int, there: list[int] | Elements) -> Problem:
    if not there:
        hint = "only searches and arrays have any: leave the number out"
        return Problem(f"{run.name} has no trials or elements", hint=hint)
    known = elements.text_of(there) if isinstance(there, list) else there.text
    kind = "trial" if isinstance(there, list) else "element"
    return Problem(f"{run.name} has no {kind} {number}", hint=f"it has {known}")


# --- Cancelling one trial


def cancel(found: OneTrial, services: Services) -> bool:
    """Cancel a trial alone; return whether there was something to cancel.

    The batch system cancels it; for a packed trial, which shares its job, a file tells the worker.

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


def _cancel_packed(found: OneTrial, services: Services) -> bool:
    run, number, why = found.report.run, found.trial.number, ""
    try:
        if run.record.remote and run.job:
            completed = services.at([run]).runner.run(command_to_cancel(run.job.directory, number))
            why = "" if completed.ok else completed.stderr.strip() or f"exit code {completed.returncode}"
        else:
            mark_cancelled(run.directory, number)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise SchedulerError(Problem(f"{found.name} could not be cancelled: {why}"))
    return True


def mark_cancelled(directory: RunDirectory, number: int) -> None:
    """Cancel a packed trial alone, whether or not it has started.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened():
        (directory.path / CANCELLED).mkdir(mode=0o700, exist_ok=True)
        (directory.path / CANCELLED / str(number)).touch(mode=0o600)


def command_to_cancel(folder: str, number: int) -> Command:
    """Return the command that cancels it on another machine, in this run directory."""
    script = 'mkdir -p -m 700 "$1" && : >"$1/$2"'
    return Command(("sh", "-c", script, "hpcdist", f"{folder}/{CANCELLED}", str(number)))


# --- Packed trials that run again


def return_trials(directory: RunDirectory, numbers: Collection[int]) -> None:
    """Return these packed trials, which no worker runs any more, so that a worker takes them again.

    Trials that were never claimed need no return; marks of cancelled trials are removed.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened():
        for number in trials.cancelled_alone(directory) & {*numbers}:
            (directory.path / CANCELLED / str(number)).unlink(missing_ok=True)
        for number, start in _last_starts(directory.path / "claims").items():
            if number in numbers:
                (directory.path / "again").mkdir(mode=0o700, exist_ok=True)
                (directory.path / "again" / f"{number}.{start + 1}").touch(mode=0o600)


def _last_starts(folder: Path) -> dict[int, int]:
    """Return the number of the last start of each trial that was claimed."""
    found: dict[int, int] = {}
    with suppress(FileNotFoundError):
        for match in filter(None, (_CLAIM.fullmatch(path.name) for path in folder.iterdir())):
            number, start = int(match[1]), int(match[2])
            found[number] = max(start, found.get(number, 0))
    return found
