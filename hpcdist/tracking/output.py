"""Metrics that the experiment's ``tracking`` finds in the output of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hpcdist.errors import ConfigError, Problem
from hpcdist.host import alarm
from hpcdist.runs import events, logs, packed
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking.points import Points, add

_LONGEST: Final = 4096
"""Characters of a line that are searched; a progress bar may be one line of megabytes."""

_LINES: Final = 1000
SECONDS: Final = 20.0
"""What so many lines may take; an expression can take for ever on a single one."""

_ELEMENT: Final = re.compile(r"job-([0-9]+)\.(?:(?:output|error)\.)?out")


Otherwise = TypeVar("Otherwise", float, None)


class Found(NamedTuple):
    """What one rank printed in the output of a job or of an element of an array, over all its attempts."""

    job: str
    rank: int
    series: dict[str, Points]


def found(directory: RunDirectory, plan: StoredPlan, seconds: float = SECONDS) -> Iterator[Found]:
    """Yield the metrics in the output; none if the experiment has no ``tracking``.

    ``seconds``: what a thousand lines may take.

    Raises:
        OSError: if the output cannot be read.
        ConfigError: if an expression takes too long.
    """
    search = _Search(plan)
    if search.metrics:
        started = packed.of_programs(directory)
        for file in logs.files(directory):
            element = _ELEMENT.fullmatch(file.name)
            job = events.last_started(started, element[1] if element else "")
            lines = logs.with_ranks(logs.lines(file), labelled=plan.labelled)
            yield from search.found(job, _in_time(lines, file, seconds))


class _Search:
    """The expressions, of which those that are none (of a plan that was edited) are left out."""

    def __init__(self, plan: StoredPlan) -> None:
        compiled = {name: _compiled(text) for name, text in plan.metric_patterns.items()}
        self.metrics = {name: pattern for name, pattern in compiled.items() if pattern}
        self._step = _compiled(plan.step_pattern or "")

    def found(self, job: str, lines: Iterable[tuple[int, str]]) -> Iterator[Found]:
        """Yield what each rank printed."""
        found: dict[int, dict[str, Points]] = {}
        steps: dict[int, float] = {}
        for rank, line in lines:
            before = steps.get(rank, math.nan)
            step = steps[rank] = _number(self._step, line, before) if self._step else math.nan
            for name, pattern in self.metrics.items():
                value = _number(pattern, line, None)
                if value is not None:
                    add(found.setdefault(rank, {}), name, (step, value, 0.0))
        for rank, series in found.items():
            yield Found(job, rank, series)


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None
    return pattern if pattern.groups == 1 else None


def _number(pattern: re.Pattern[str], line: str, otherwise: Otherwise) -> float | Otherwise:
    match = pattern.search(line)
    try:
        return float(match[1]) if match else otherwise
    except (ValueError, TypeError):  # the group may be no number, or be left out
        return otherwise


def _in_time(items: Iterable[tuple[int, str]], file: Path, seconds: float) -> Iterator[tuple[int, str]]:
    left = iter(items)
    while block := [*islice(left, _LINES)]:
        with alarm.within(seconds, lambda: _late(file)):
            yield from ((rank, line[:_LONGEST]) for rank, line in block)


def _late(file: Path) -> ConfigError:
    hint = "make them simpler: a repetition inside a repetition can take for ever"
    return ConfigError(Problem(f"the expressions of `tracking` take too long on {file}", hint=hint))
