"""``hpcdist status --offline``: an index of runs, from their own files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcdist.base.errors import warning
from hpcdist.cli import show
from hpcdist.cli.jobs import runs, used
from hpcdist.cli.messages import print_problems
from hpcdist.runs import event_states
from hpcdist.runs.rundir import Event, Run

if TYPE_CHECKING:
    from hpcdist.checks.usage import Consumption
    from hpcdist.tracking.comparison import Tracked


class IndexRow(NamedTuple):
    """A run, and what is shown of it; what was not read is empty."""

    run: Run
    state: str
    age: float
    gpu_hours: float | None = None
    params: Mapping[str, Any] = {}
    tags: Sequence[str] = ()
    metrics: Mapping[str, float] = {}
    unread: Sequence[str] = ()
    cost: Consumption | None = None


def selected(found: Sequence[Run], name: str | None, since: str | None) -> list[Run]:
    """Return the runs of this name, or pattern of the shell, that were made since, a span or a day.

    Raises:
        BadParameter: if the time is none.
    """
    after = show.moment(since) if since else float("-inf")
    return [run for run in found if _made(run) >= after and (name is None or fnmatchcase(run.name, name))]


def rows(
    found: Sequence[Run], states: Sequence[str], tags: Sequence[str], *,
    is_whole: bool = False, is_costed: bool = False,
) -> list[IndexRow]:  # fmt: skip
    """Return the runs that are in one of these states, if any are given, and have all these tags.

    Their plans and records are read if they are to be ``is_whole``, or have tags.
    """
    now = time.time()
    read = [_row(run, now, is_whole=is_whole or bool(tags)) for run in found]
    print_problems(map(warning, dict.fromkeys(text for row in read for text in row.unread)))
    return [
        row._replace(cost=_cost(row.run, now)) if is_costed else row
        for row in read
        if (not states or row.state in states) and {*tags} <= {*row.tags}
    ]


def _made(run: Run) -> float:
    return datetime.fromisoformat(run.record.created_at).timestamp()


def _row(run: Run, now: float, *, is_whole: bool) -> IndexRow:
    """Return a run as it is shown; its plan and records are read only if it is to be ``is_whole``."""
    needed = is_whole or run.record.ended is None or run.is_followed
    events = run.directory.events() if needed else ()
    row = IndexRow(run, event_states.of_run(run, events), now - _made(run))
    return _whole(row, events, now) if is_whole else row


def _whole(row: IndexRow, events: Sequence[Event], now: float) -> IndexRow:
    """Add what its plan has and its program recorded; of several elements, the params that all have."""
    from hpcdist.runs import attempts
    from hpcdist.tracking import comparison

    plan = row.run.directory.plan()
    row = row._replace(
        gpu_hours=attempts.gpu_hours(row.run, plan, events, now), params=plan.params, tags=plan.tags
    )
    items: list[Tracked] = comparison.tracked(row.run, plan)
    first, differing = items[0], comparison.differing(items)
    return row._replace(
        params={name: value for name, value in first.params.items() if name not in differing},
        tags=[*dict.fromkeys(tag for item in items for tag in item.tags)],
        metrics=first.metrics if len(items) == 1 else {},
        unread=first.unread,
    )


def _cost(run: Run, now: float) -> Consumption:
    """Return what a run cost: by what is kept of its accounting, else by its event log."""
    from hpcdist.checks.usage import starts, total
    from hpcdist.runs import attempts

    plan = run.directory.plan()
    return total(starts(attempts.kept(run, plan, run.directory.events(), now), plan, now))


def show_rows(
    rows: Sequence[IndexRow], metrics: Sequence[str], *, long: bool, is_costed: bool, json: bool
) -> None:
    """Print these runs, with the last values of these metrics."""
    if json:
        show.as_json([*map(_data, rows)])
    elif rows:
        costs = used.HEADS if is_costed else ()
        heads = ("run", "job", "site", "state", "age", *(("GPU-hours", "tags", "params") if long else ()))
        cells = (
            (*_cells(row, long=long), *(_number(row.metrics.get(name)) for name in metrics)) for row in rows
        )
        show.table((*heads, *costs, *metrics), cells)


def _cells(row: IndexRow, *, long: bool) -> tuple[str, ...]:
    record = row.run.record
    cells = (row.run.name, runs.ids_of(row.run), record.site, row.state, show.span(row.age))
    costs = used.cells(row.cost) if row.cost else ()
    if not long:
        return (*cells, *costs)
    hours = "-" if row.gpu_hours is None else f"{row.gpu_hours:.2f}"
    params = " ".join(f"{name}={value}" for name, value in row.params.items())
    return (*cells, hours, ", ".join(row.tags) or "-", params or "-", *costs)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _data(row: IndexRow) -> dict[str, Any]:
    """Return a run for JSON; ``age`` in seconds."""
    return {
        **runs.record_of(row.run),
        "state": row.state,
        "age": round(row.age),
        "gpu_hours": row.gpu_hours,
        **({"cost": used.of_cost(row.cost)} if row.cost else {}),
        "params": row.params,
        "tags": row.tags,
        "metrics": {name: show.number(value) for name, value in row.metrics.items()},
    }
