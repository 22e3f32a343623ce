"""The attempts of a run as `describe` shows them: a line each, and for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from hpcdist.cli import show
from hpcdist.cli.jobs import spans
from hpcdist.runs import rundir
from hpcdist.runs.state import Attempt
from hpcdist.schedulers import hostlist
from hpcdist.tracking.reached import Reached
from hpcdist.usage.cost import hours, hours_text

Line = tuple[Attempt, Reached]
_Cell = Callable[[Attempt, Reached], object]

_COLUMNS: Final[dict[str, _Cell]] = {
    "attempt": lambda attempt, reached: attempt.name if reached.number is None else reached.number,
    "job": lambda attempt, _: attempt.job,
    "state": lambda attempt, _: attempt.state,
    "exit": lambda attempt, _: attempt.exit_code,
    "why": lambda attempt, _: attempt.why or None,
    "started": lambda attempt, _: _known(attempt.started, rundir.timestamp),
    "ended": lambda attempt, _: _known(attempt.ended, rundir.timestamp),
    "queued": lambda attempt, _: _known(attempt.waited, spans.clock),
    "elapsed": lambda attempt, _: _known(attempt.elapsed, spans.clock),
    "GPU-hours": lambda attempt, _: hours_text(attempt.gpu_seconds),
    "memory": lambda attempt, _: _known(attempt.max_memory, spans.size),
    "step": lambda _, reached: _known(reached.step, _count),
    "lost": lambda _, reached: _lost(reached),
    "hosts": lambda attempt, _: hostlist.compress(attempt.hosts or ()) or None,
}
_SOMETIMES: Final = frozenset({"why", "step", "lost"})
"""Columns that are left out where no attempt has a value."""


def print_lines(lines: Sequence[Line]) -> None:
    """Print the attempts as a table; what is not known is ``-``."""
    rows = [[cell(*line) for cell in _COLUMNS.values()] for line in lines]
    used = [
        place
        for place, head in enumerate(_COLUMNS)
        if head not in _SOMETIMES or any(row[place] is not None for row in rows)
    ]
    heads = [*_COLUMNS]
    show.table([heads[place] for place in used], ([_text(row[place]) for place in used] for row in rows))


def as_data(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Return the attempts for JSON; null is unknown."""
    return [_data(*line) for line in lines]


def _data(attempt: Attempt, reached: Reached) -> dict[str, Any]:
    times = {"queued_at": attempt.queued, "started_at": attempt.started, "ended_at": attempt.ended}
    return {
        "job_id": attempt.job,
        "attempt": attempt.name,
        "state": attempt.state,
        **{name: _known(at, rundir.timestamp) for name, at in times.items()},
        "queue_seconds": attempt.waited,
        "elapsed_seconds": attempt.elapsed,
        "hosts": attempt.hosts,
        "exit_code": attempt.exit_code,
        "why": attempt.why or None,
        "gpu_hours": hours(attempt.gpu_seconds),
        "max_memory": attempt.max_memory,
        **reached._asdict(),
    }


def _known(value: Any, form: Callable[[Any], str]) -> str | None:
    return None if value is None else form(value)


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _count(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _lost(reached: Reached) -> str | None:
    """Return the work that was lost: in steps, or else the time since the last checkpoint."""
    if reached.lost_steps is not None:
        return f"{_count(reached.lost_steps)} step{'s' * (reached.lost_steps != 1)}"
    return _known(reached.lost_seconds, spans.clock)
