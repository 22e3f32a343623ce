"""The progress of a search, once and until its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hpcdist.base.errors import ConfigError, HpcdistError, PlanError, SchedulerError, comma_list
from hpcdist.runs import accounting, logs, search_progress, this_machine, waiting
from hpcdist.runs.event_states import PRUNED
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services, renewed
from hpcdist.runs.waiting import PollTimer, SilenceTimeout, is_local
from hpcdist.schedulers.job import JobState
from hpcdist.searches import budget, trials
from hpcdist.searches.trials import LIVE, STOPPED, Params, Progress, TrialState

if TYPE_CHECKING:
    from hpcdist.runs.submission import SubmitOutput

# --- Remarks for the user of a search: while it runs, and after it

_COMPLETED: Final[str] = JobState.COMPLETED.value
_ENDED: Final = frozenset({_COMPLETED, JobState.FAILED.value, JobState.CANCELLED.value, PRUNED})
"""States of trials that ended by themselves or by their user."""

_NO_START: Final = re.compile(r"hpcdist: (?:trial \d+ does not start|this job runs no trials): (.+)")
_LINES: Final = 10

_MOST_BYTES: Final = 1 << 20
"""Bytes of a trial's file within which it has recorded each metric."""


def remarks(report: Report, found: Sequence[TrialState]) -> Iterator[str]:
    """Yield sentences for a metric that no trial records, and for trials that did not start, or end."""
    run = report.run
    metric = (run.directory.plan().order or "").removeprefix("-")
    completed = [trial for trial in found if trial.state == _COMPLETED] if metric else ()
    if completed and not _has_recorded(report, completed[0], metric):
        yield (
            f"no trial has recorded the metric {metric!r}, by which they are compared, and "
            f"{len(completed)} {'have' if len(completed) > 1 else 'has'} completed"
        )
    if report.is_over:
        yield from _of_those_left(run, [trial for trial in found if trial.state not in _ENDED])


def _of_those_left(run: Run, left: Sequence[TrialState]) -> Iterator[str]:
    stopped = [trial.number for trial in left if trial.state == STOPPED]
    why, others = _why_stopped(run, stopped[0]) if stopped else "", [trial.number for trial in left]
    if why:
        yield f"{_named(stopped)} did not start: {why}"
        others = [number for number in others if number not in {*stopped}]
    if left:
        names = f"{_named(others)} did not end: " if others else ""
        yield f"{names}{budget.budget_hint(run)}"


def _named(numbers: Sequence[int]) -> str:
    return f"{'trials' if len(numbers) > 1 else 'trial'} {comma_list([*map(str, numbers)])}"


def _why_stopped(run: Run, trial: int) -> str:
    """Return why no further trial was to start: from the run's record, else from the script's output."""
    if why := search_progress.stop_reason(run):
        return why
    of_jobs = sorted(run.directory.logs.glob("*node-*.out"), reverse=True)
    for file in (*logs.files(run.directory, str(trial)), *of_jobs):
        with suppress(OSError):
            said = [match[1] for line in logs.tail(file, _LINES) if (match := _NO_START.fullmatch(line))]
            if said:
                return said[-1]
    return ""


def _has_recorded(report: Report, trial: TrialState, metric: str) -> bool:
    """Whether this trial, or any, has recorded the metric; its own file is read first, and usually has it."""
    name = json.dumps(metric).encode() + b":"
    if trial.attempt is not None:
        folder = report.run.directory.path / "tracking" / trial.attempt.job / trial.attempt.name
        if any(name in _head(file) for file in folder.glob("rank-0.*.jsonl")):
            return True
    from hpcdist.tracking import comparison  # it reads files of many forms

    tracked = comparison.tracked(report.run, report.run.directory.plan())
    return any(metric in item.metrics for item in tracked)


def _head(file: Path) -> bytes:
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(_MOST_BYTES)
    return b""


# --- The progress of a search, once and until its end


class Generation(NamedTuple):
    """The number of a generation, and how many generations and trials the search has at most."""

    number: int
    generations: int
    trials: int


class Look(NamedTuple):
    """The trials of a search at one time, and their summary."""

    report: Report
    trials: Sequence[TrialState]
    progress: Progress
    waits_for: tuple[str, ...] = ()
    """Why trials have not started, as far as it is known."""
    generation: Generation | None = None
    """The generation of the last trials, if the search is adaptive and may have further ones."""
    remarks: tuple[str, ...] = ()
    """What its user should know or do."""

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return sum(count for state, count in self.progress.counts.items() if state not in LIVE)


def look(run: Run, services: Services, known: Params | None = None) -> Look:
    """Return the progress of a search, by one query for its jobs and one to the accounting for each.

    ``known``: the params of its trials, if they were read.

    Raises:
        ConfigError: if it is no search.
    """
    [report] = status([run], services)
    found = trials.trials(report, accounting.of_jobs(report.run, services), services.now(), known)
    plan = run.directory.plan()
    at_once = plan.workers or (plan.array.at_once if plan.array else None)
    reached = trials.progress(found, at_once)
    waits_for = tuple(_waits_for(report, reached, at_once))
    noted = tuple(remarks(report, found))
    return Look(report, found, reached, waits_for, _generation(report, found), noted)


def _generation(report: Report, found: Sequence[TrialState]) -> Generation | None:
    there = search_progress.progress_of(report.run)
    if there is None:
        return None
    from hpcdist.experiment.trials import (
        generation_count,
        generation_of,  # loads the plan package, which few searches need
    )
    from hpcdist.searches import replan

    search = replan.search_of(report.run)
    if search is None:
        return None
    number = generation_of(search, [trial.params for trial in found])
    return Generation(number, generation_count(search), there.most)


def follow(run: Run, services: Services, on_look: Callable[[Look], Any]) -> Look:
    """Look at a search until its end, and pass on each look; return the last one.

    It also stops when the state of all jobs has been unknown for long. It pauses as `wait` does.
    """
    pauses, silence = PollTimer(services, local=is_local([run])), SilenceTimeout()
    while True:
        now = look(run, services)
        on_look(now)
        run = renewed(now.report.run)
        is_over = now.report.is_over and len(run.jobs) == len(now.report.run.jobs)
        if is_over or silence.has_expired([now.report], pauses.slept):
            return now
        pauses.pause([run])


def _waits_for(report: Report, reached: Progress, at_once: int | None) -> Iterator[str]:
    if not reached.counts.get(JobState.PENDING.value):
        return
    running = reached.counts.get(JobState.RUNNING.value, 0)
    if at_once and running >= at_once:
        yield f"one of the {at_once} that may run at once" if at_once > 1 else "the one that may run at once"
    for job in report.jobs:
        state, reason = job.status.state, job.status.reason
        if state in (JobState.PENDING, JobState.SUSPENDED) and reason:
            yield f"job {job.run.record.job_id} is {state.value}: {reason}"


# --- Waiting for runs; for an adaptive search, until its last generation has ended

OnStuck = Callable[[HpcdistError], object]
"""Receives why the next generation of a search cannot be submitted."""


def wait(
    runs: Sequence[Run],
    services: Services,
    output: SubmitOutput,
    on_stuck: OnStuck,
    on_change: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Return when all these runs have ended, as `waiting.wait`; whenever a generation has, submit the next.

    ``output`` prints the new jobs. A stuck search is left as it is: its report still awaits a generation
    (`search_progress.awaiting_next`).
    """
    further = partial(_next_generation, services=services, output=output, on_stuck=on_stuck)
    return waiting.wait(runs, services, on_change=on_change, further=further)


def _next_generation(
    report: Report, services: Services, output: SubmitOutput, on_stuck: OnStuck
) -> Run | None:
    """Submit the next generation of a search, if there is one; return the search then."""
    if search_progress.awaiting_next(report) is None:
        return None
    from hpcdist.searches import adaptive  # it loads the plan package, which few runs need

    try:
        this_machine.check_here(report.run, "sweep advance")
        run, why = adaptive.advance(report.run, services, output, only_if_over=True)
    except (ConfigError, PlanError, SchedulerError) as error:
        on_stuck(error)
        return None
    # Another process may have submitted the last generation, and it has ended: so has the search.
    return run if not why or len(run.jobs) > len(report.run.jobs) else None
