"""What the user of a search should know before it is over, or do after it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.errors import comma_list
from hpcdist.runs import logs, standing
from hpcdist.runs.rundir import Run
from hpcdist.runs.state import PRUNED
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState
from hpcdist.sweeps import spending
from hpcdist.sweeps.trials import STOPPED, Trial

_COMPLETED: Final[str] = JobState.COMPLETED.value
_ENDED: Final = frozenset({_COMPLETED, JobState.FAILED.value, JobState.CANCELLED.value, PRUNED})
"""States of trials that came to an end, their own or their user's."""

_NO_START: Final = re.compile(r"hpcdist: (?:trial \d+ does not start|this job runs no trials): (.+)")
_LINES: Final = 10

_MOST_BYTES: Final = 1 << 20
"""In so much of its file a trial has recorded each of its metrics."""


def remarks(report: Report, found: Sequence[Trial]) -> Iterator[str]:
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


def _of_those_left(run: Run, left: Sequence[Trial]) -> Iterator[str]:
    stopped = [trial.number for trial in left if trial.state == STOPPED]
    why, others = _why_stopped(run, stopped[0]) if stopped else "", [trial.number for trial in left]
    if why:
        yield f"{_named(stopped)} did not start: {why}"
        others = [number for number in others if number not in {*stopped}]
    if left:
        names = f"{_named(others)} did not end: " if others else ""
        yield f"{names}{spending.way_on(run)}"


def _named(numbers: Sequence[int]) -> str:
    return f"{'trials' if len(numbers) > 1 else 'trial'} {comma_list([*map(str, numbers)])}"


def _why_stopped(run: Run, trial: int) -> str:
    """Return why no further trial was to start: as the run has it, else as the script has printed it."""
    if why := standing.reason(run):
        return why
    of_jobs = sorted(run.directory.logs.glob("*node-*.out"), reverse=True)
    for file in (*logs.files(run.directory, str(trial)), *of_jobs):
        with suppress(OSError):
            said = [match[1] for line in logs.tail(file, _LINES) if (match := _NO_START.fullmatch(line))]
            if said:
                return said[-1]
    return ""


def _has_recorded(report: Report, trial: Trial, metric: str) -> bool:
    """Whether this trial, or any, has recorded the metric; its own file is read first, and mostly has it."""
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
