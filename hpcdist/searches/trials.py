"""The trials of a run, by the batch system, its accounting and the event log."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpcdist.base.errors import ConfigError, ExitCode, Problem
from hpcdist.runs import accounting, attempts, cancelling, elements
from hpcdist.runs.attempts import Attempt, UsageOf
from hpcdist.runs.event_states import PRUNED
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Event, Run, RunDirectory
from hpcdist.schedulers.job import JobState, split_id
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

_LIVE: Final = frozenset((_WAITING, JobState.RUNNING.value, attempts.REQUEUED))


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
    if last == attempts.REQUEUED and (whole.is_final or cancelled):
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


_HIGHEST: Final = frozenset(
    """accuracy acc top1 top5 f1 auc auroc bleu rouge map precision recall score reward return iou dice psnr ssim
    r2 throughput speed efficiency""".split()
)
_LOWEST: Final = frozenset(
    "loss error err perplexity ppl bpb mse rmse mae wer cer fid seconds time latency duration memory".split()
)


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
