"""The GPU-hours that a search has spent, by its event log and the batch system's accounting.

A start without an end in the log counts as if it had run to its time limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import accounting, attempts, event_states
from hpcdist.runs.events import Event, by_id, starts
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.stored_plan import StoredPlan

if TYPE_CHECKING:
    from hpcdist.plan.trials import Sweep

ACCOUNTED: Final = "accounted"
"""The event for an end that the log lacks: the job was lost with its node, or killed."""

_NEW_SEARCH: Final = "submit what is left as a new search, with its own `batch.budget`"
_ENDS: Final = frozenset((event_states.ENDED, event_states.REQUEUED, ACCOUNTED))


def record(report: Report, services: Services) -> list[Event]:
    """Add ends of jobs that are only in the accounting to the event log, as far as the disk permits.

    Return the event log with them.
    """
    there = report.run.directory.events()
    missing = [*_unlogged(report, there, services)]
    with suppress(OSError):
        for event in missing:
            report.run.directory.append_event(event)
    return [*there, *missing]


def _unlogged(report: Report, there: Sequence[Event], services: Services) -> Iterator[Event]:
    now, plan = services.now(), report.run.directory.plan()
    logged = attempts.read(report, now, lambda _: (), events=there)
    open_ended = {(one.job, one.number) for one in logged if one.started is not None and one.ended is None}
    known = {(event.job_id, event.at) for event in there if event.what == ACCOUNTED}
    usage = accounting.of_jobs(report.run, services)
    for one in attempts.read(report, now, usage, events=there) if open_ended else ():
        if one.ended is None or (one.job, one.number) not in open_ended:
            continue
        if (one.job, int(one.ended)) not in known:
            yield Event(ACCOUNTED, attempts.folder_of(plan, one.job), int(one.ended), "0")


def check(directory: RunDirectory, events: Iterable[Event], sweep: Sweep, walltime: int) -> None:
    """Check that one more trial, or packed job, fits the budget after what has ended.

    ``events``: the event log. What runs may use more, so the script checks again (`hpcdist_over_limits`).

    Raises:
        ConfigError: if none fits.
    """
    budget, cost = sweep.budget, sweep.cost
    if not budget or not cost:
        return
    seconds = _spent(directory, directory.plan(), events, cost // walltime)
    if seconds + cost > budget:
        spent, most = f"{seconds / 3600:.4g} of {budget / 3600:.4g} GPU-hours are spent", cost / 3600
        what = "job" if sweep.pack else "trial"
        message = f"the budget of {directory.name} is used up: {spent}, and a {what} may take {most:.4g}"
        raise ConfigError(Problem(message, hint=_NEW_SEARCH))


def budget_hint(run: Run) -> str:
    """Return how to run the remaining trials, as a clause."""
    if _is_used_up(run.directory):
        return f"as its budget is used up, {_NEW_SEARCH}"
    return f"`hpcdist resume {run.name}` runs what is left"


def _is_used_up(directory: RunDirectory) -> bool:
    """Whether the budget has no room for one more trial, or packed job, of the plan's size."""
    plan = directory.plan()
    if not plan.budget or not plan.cost or not plan.walltime:
        return False
    spent = _spent(directory, plan, directory.events(), plan.cost // plan.walltime)
    return spent + plan.cost > plan.budget


def _spent(directory: RunDirectory, plan: StoredPlan, events: Iterable[Event], gpus: int) -> float:
    """Return the GPU-seconds of ended elements of an array, or of ended packed jobs."""
    spent = 0.0
    for job, log in by_id(events).items():
        known = [start for start in starts(log) if start.is_known]
        ended = [(one.events[0].at, end.at) for one in known if (end := one.first(*_ENDS))]
        own = (ended and _gpus_of(directory, attempts.folder_of(plan, job))) or gpus
        spent += own * sum(end - began for began, end in ended)
    return spent


def _gpus_of(directory: RunDirectory, folder: str) -> int | None:
    """Return the number of GPUs of a packed job, from its file."""
    with suppress(OSError, ValueError, IndexError):
        return int((directory.path / "jobs" / folder / "cost").read_text().split()[2])
    return None
