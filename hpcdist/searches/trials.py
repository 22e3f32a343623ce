"""The trials of a run, by the batch system, its accounting and the event log."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpcdist.base.command import Command
from hpcdist.base.errors import ConfigError, ExitCode, Problem, SchedulerError
from hpcdist.runs import accounting, attempts, cancelling, elements
from hpcdist.runs.attempts import UsageOf
from hpcdist.runs.elements import Elements
from hpcdist.runs.event_states import PRUNED, REQUEUED, Attempt
from hpcdist.runs.finding import elements_of
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Event, Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, element_id, split_id
from hpcdist.tracking import trial_params

if TYPE_CHECKING:
    from hpcdist.tracking.comparison import Tracked

_WAITING: Final[str] = JobState.PENDING.value
_COMPLETED: Final[str] = JobState.COMPLETED.value
_GOOD: Final = frozenset((_COMPLETED, PRUNED))
CANCELLED: Final = "cancelled_trials"
"""The folder with a file for each packed trial that its user cancelled alone."""

STOPPED: Final = "stopped"
"""The state of a trial that may not start any more: the search was stopped, or reached a limit."""

_AS_WHOLE: Final = frozenset((JobState.CANCELLED, JobState.UNSUBMITTED, JobState.UNKNOWN))
"""States of an array that apply to its trials without a start in the log."""

_BY_ITSELF: Final = frozenset((JobState.COMPLETED, JobState.FAILED))
"""States of a job whose workers ended by themselves, perhaps without a further trial."""

_LIVE: Final = frozenset((_WAITING, JobState.RUNNING.value, REQUEUED))


Params = Mapping[str, Mapping[str, Any]]
"""The params of trials by their numbers."""


class TrialState(NamedTuple):
    """One trial: its number, its params, and its last attempt, None if it has not started.

    ``state``: as of its last attempt, ``stopped``, else ``pending``, ``unsubmitted``, ``unknown`` where the
    batch system does not answer, or how it ended. ``gpu_seconds``: of all its attempts; None if one is
    unknown.
    """

    number: int
    params: Mapping[str, Any]
    state: str
    attempt: Attempt | None = None
    gpu_seconds: float | None = 0.0

    @property
    def is_good(self) -> bool:
        """Whether its records count: it has completed, or a policy ended it."""
        return self.state in _GOOD


class Progress(NamedTuple):
    """A summary of the trials of a run.

    ``counts``: the number in each state, in the order of first occurrence. ``gpu_hours``: spent
    so far, as far as they are known. ``left``: seconds until the last trial ends, if those left take as long
    as the mean of those that completed; None if none has, or none is left.
    """

    trials: int
    counts: Mapping[str, int]
    gpu_hours: float
    left: float | None


def trials(report: Report, usage: UsageOf, now: float, known: Params | None = None) -> list[TrialState]:
    """Return the trials of a run with their states; ``usage`` as in `attempts.read`.

    ``known``: the params of the wanted trials, by their numbers; None: of all trials.

    Raises:
        ConfigError: if it is no search.
    """
    known = trial_params.of(report.run) if known is None else known
    if not known:
        raise ConfigError(no_trials(report.run))
    events = report.run.directory.events()
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts.all_attempts(report, now, usage, events=events):
        found.setdefault(split_id(attempt.job)[1], []).append(attempt)
    accounted = _accounted(report, usage, events)
    return [
        _trial(int(number), params, found.get(number, ()), accounted.get(number), report)
        for number, params in known.items()
    ]


def _cancelled(run: Run, events: Sequence[Event]) -> dict[str, JobState]:
    """Return the trials that were cancelled alone and are in no later job."""
    found: dict[str, JobState] = {}
    cancelled = [split_id(event.job_id) for event in events if event.what == "cancelled"]
    for job in run.jobs if any(number for _, number in cancelled) else ():
        there = elements.numbers(job.record.trials)
        found = {number: state for number, state in found.items() if int(number) not in there}
        own = (number for job_id, number in cancelled if number and job_id == job.event_id)
        found |= dict.fromkeys(own, JobState.CANCELLED)
    return found


def no_trials(run: Run) -> Problem:
    """Return the problem of a run that is no search."""
    hint = "a search has a section `hptuning`; `hpcdist status` shows the state of other runs"
    return Problem(f"{run.name} has no trials", hint=hint)


def _accounted(report: Report, usage: UsageOf, events: Sequence[Event]) -> dict[str, JobState]:
    """Return the accounting's state of each element of an array, and which trials were cancelled."""
    if report.run.directory.plan().workers:
        return dict.fromkeys(map(str, cancelled_alone(report.run.directory)), JobState.CANCELLED)
    return _cancelled(report.run, events) | {
        split_id(job)[1]: starts[-1].state
        for run in report.run.jobs
        for job, starts in accounting.by_job(run, usage(run)).items()
    }


def cancelled_alone(directory: RunDirectory) -> set[int]:
    """Return the packed trials that were cancelled alone."""
    with suppress(OSError):
        return {int(path.name) for path in (directory.path / CANCELLED).iterdir() if path.name.isdecimal()}
    return set()


def _trial(
    number: int, params: Mapping[str, Any], found: Sequence[Attempt], state: JobState | None, report: Report
) -> TrialState:
    if not found:
        return TrialState(number, params, _not_started(state, report))
    if found[-1].exit_code == ExitCode.NOT_STARTED:
        found, last = [*found[:-1]], found[-1]
        return _trial(number, params, found, state, report)._replace(state=STOPPED, attempt=last)
    return TrialState(number, params, _state(found[-1].state, state, report), found[-1], _gpu_seconds(found))


def _state(last: str, state: JobState | None, report: Report) -> str:
    """Return the state of a trial from its last attempt and from the accounting."""
    whole, cancelled = report.status.state, state if state is JobState.CANCELLED else None
    if last == REQUEUED and (whole.is_final or cancelled):
        return _not_started(cancelled, report)
    if last == JobState.UNKNOWN.value and whole.is_final:
        # It wrote no end, as on a lost node, and no job of the run is alive.
        return JobState.CANCELLED.value if whole is JobState.CANCELLED else JobState.VANISHED.value
    return last


def _gpu_seconds(found: Sequence[Attempt]) -> float | None:
    """Return the GPU-seconds of all these attempts; None where one is unknown."""
    if len(found) == 1:
        return found[0].gpu_seconds
    known = [attempt.gpu_seconds for attempt in found if attempt.gpu_seconds is not None]
    return math.fsum(known) if len(known) == len(found) else None


def _not_started(state: JobState | None, report: Report) -> str:
    """Return the state of a trial that wrote no start: it did not complete, even if its array did."""
    if state is not None and state.is_final and state is not JobState.COMPLETED:
        return str(state.value)
    whole = report.status.state
    is_stopped = report.status.exit_code == ExitCode.NOT_STARTED  # at its budget
    if whole in _BY_ITSELF and (is_stopped or cancelling.is_requested(report.run.directory)):
        return STOPPED
    if whole not in _AS_WHOLE:
        whole = JobState.VANISHED if whole.is_final else JobState.PENDING
    return str(whole.value)


def progress(found: Sequence[TrialState], at_once: int | None) -> Progress:
    """Return the summary of these trials; ``at_once``: how many may run at once, None for all."""
    counts: dict[str, int] = {}
    for trial in found:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    hours = math.fsum(trial.gpu_seconds or 0.0 for trial in found) / 3600
    return Progress(len(found), counts, hours, _left(found, counts, at_once))


def _left(found: Sequence[TrialState], counts: Mapping[str, int], at_once: int | None) -> float | None:
    took = [
        elapsed
        for trial in found
        if trial.state == _COMPLETED and trial.attempt and (elapsed := trial.attempt.elapsed) is not None
    ]
    live = sum(counts.get(state, 0) for state in _LIVE)
    if not took or not live:
        return None
    slots = max(1, min(at_once or live, live), counts.get(JobState.RUNNING.value, 0))
    return math.ceil(live / slots) * math.fsum(took) / len(took)


_HIGHEST: Final = frozenset({
    "accuracy", "acc", "top1", "top5", "f1", "auc", "auroc", "bleu", "rouge", "map", "precision", "recall",
    "score", "reward", "return", "iou", "dice", "psnr", "ssim", "r2", "throughput", "speed", "efficiency",
})  # fmt: skip
_LOWEST: Final = frozenset({
    "loss", "error", "err", "perplexity", "ppl", "bpb", "mse", "rmse", "mae", "wer", "cer", "fid", "seconds",
    "time", "latency", "duration", "memory",
})  # fmt: skip


def order_of(by: str, declared: str | None) -> str:
    """Return the order of a metric, ``-NAME`` for highest first: as given, as declared, or by its name.

    Raises:
        ConfigError: if none of them says which is better.
    """
    if by.startswith(("-", "+")):
        return by.removeprefix("+")
    if declared and declared.removeprefix("-") == by:
        return declared
    words = {*re.split(r"[^a-z0-9]+", by.lower())}
    if words & _LOWEST:
        return by
    if words & _HIGHEST:
        return f"-{by}"
    hint = f"write `--sort=-{by}` for the highest first, `--sort=+{by}` for the lowest"
    raise ConfigError(Problem(f"whether a high or a low {by} is better is not known", hint=hint))


def best(items: Sequence[Tracked], by: str, most: int) -> list[Tracked]:
    """Return the best trials that have this metric, ``-NAME`` for highest first.

    Raises:
        ConfigError: if none has it.
    """
    from hpcdist.tracking import comparison  # it reads files of many forms

    name = by.removeprefix("-")
    there = [item for item in items if not math.isnan(item.metrics.get(name, math.nan))]
    if not there:
        known = trial_params.names(item.metrics for item in items)
        recorded = f"they recorded {', '.join(known)}" if known else "they recorded no metric"
        raise ConfigError(Problem(f"no trial has the metric {name!r}", hint=recorded))
    return comparison.in_order(there, by)[:most]


# --- One trial of a search, or element of an array, as ``RUN/3`` names it: its state, and its cancellation
#
# Workers of packed trials make links ``claims/TRIAL.START``, and files ``again/TRIAL.START`` of returned ones
# (``templates/runtime/supervisor/packed.py``). START is 0 at first; each return adds 1.
# ``cancelled_trials/TRIAL`` exists for each trial that its user cancelled alone: its worker ends its program
# within a second or two, and no worker starts it. (``cancelled`` is the file of a run that was cancelled as a
# whole: `hpcdist.runs.cancelling`.)

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
    [trial] = trials(job, usage, now, {str(number): params.get(str(number), plan.params)})
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
        for number in cancelled_alone(directory) & {*numbers}:
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
