"""``hpcdist list``: an index of all runs, from their own files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs, spans, used
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import json_option, runs_dir_option
from hpcdist.errors import warning
from hpcdist.runs import finding, state
from hpcdist.runs.rundir import Event, Run

if TYPE_CHECKING:
    from hpcdist.checks.usage import Consumption
    from hpcdist.tracking.comparison import Tracked


class Row(NamedTuple):
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


@click.command("list")
@click.option("-l", "--long", is_flag=True, help="Show GPU-hours, tags and params, too.")
@click.option(
    "--cost",
    "is_costed",
    is_flag=True,
    help="Show queue time, elapsed time, GPU-hours, CPU-hours and memory, by the accounting that is kept.",
)
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Show a metric's last value; repeatable."
)
@click.option("--name", metavar="PATTERN", help="List only runs of this name or pattern, such as 'train-*'.")
@click.option(
    "--state",
    "states",
    type=click.Choice(state.STATES),
    metavar="STATE",
    multiple=True,
    help="List only runs in this state, such as running, completed or unknown; repeatable.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="List only runs made since: a span such as 2d, or a day such as 2026-11-01.",
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="List only runs with this tag; repeatable.")
@runs_dir_option
@json_option
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    long: bool,
    is_costed: bool,
    metrics: tuple[str, ...],
    name: str | None,
    states: tuple[str, ...],
    since: str | None,
    tags: tuple[str, ...],
    runs_dir: Path,
    json: bool,
) -> None:
    """List runs without querying the batch system.

    The state is the final one that `status` has found, else what the event log shows.
    """
    now = time.time()
    after = spans.moment(since, lambda: now) if since else float("-inf")
    found, errors = finding.list_runs(runs_dir)
    runs.warn_unreadable(errors)
    rows = [
        _row(run, now, is_whole=bool(long or json or metrics or tags))
        for run in found
        if _made(run) >= after and (name is None or fnmatchcase(run.name, name))
    ]
    print_problems(map(warning, dict.fromkeys(text for row in rows for text in row.unread)))
    if is_costed:
        rows = [row._replace(cost=_cost(row.run, now)) for row in rows]
    shown = [row for row in rows if (not states or row.state in states) and {*tags} <= {*row.tags}]
    if json:
        show.as_json([_data(row) for row in shown])
    elif shown:
        _print(shown, metrics, long=long, is_costed=is_costed)
    else:
        note(
            f"no runs in {runs_dir}" if not found else f"none of the {len(found)} runs in {runs_dir} matches"
        )


def _made(run: Run) -> float:
    return datetime.fromisoformat(run.record.created_at).timestamp()


def _row(run: Run, now: float, *, is_whole: bool) -> Row:
    """Return a run as it is shown; its plan and records are read only if it is to be ``is_whole``."""
    needed = is_whole or run.record.ended is None or run.is_followed
    events = run.directory.events() if needed else ()
    row = Row(run, state.of_run(run, events), now - _made(run))
    return _whole(row, events, now) if is_whole else row


def _whole(row: Row, events: Sequence[Event], now: float) -> Row:
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


def _print(rows: Sequence[Row], metrics: Sequence[str], *, long: bool, is_costed: bool) -> None:
    heads = (
        "run",
        "job",
        "site",
        "state",
        "age",
        *(("GPU-hours", "tags", "params") if long else ()),
        *(used.HEADS if is_costed else ()),
        *metrics,
    )
    show.table(
        heads,
        [(*_cells(row, long=long), *(_number(row.metrics.get(name)) for name in metrics)) for row in rows],
    )


def _cells(row: Row, *, long: bool) -> tuple[str, ...]:
    record = row.run.record
    cells = (row.run.name, runs.ids_of(row.run), record.site, row.state, spans.span(row.age))
    costs = used.cells(row.cost) if row.cost else ()
    if not long:
        return (*cells, *costs)
    hours = "-" if row.gpu_hours is None else f"{row.gpu_hours:.2f}"
    params = " ".join(f"{name}={value}" for name, value in row.params.items())
    return (*cells, hours, ", ".join(row.tags) or "-", params or "-", *costs)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _data(row: Row) -> dict[str, Any]:
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
