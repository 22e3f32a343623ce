"""``hpcdist metrics``: what the program of a run recorded with `hpcdist_tracking`."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, did_you_mean, warning
from hpcdist.cli import show
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.jobs.logs import follow
from hpcdist.cli.messages import note, one_line, print_problems, printable
from hpcdist.cli.options import job_options
from hpcdist.runs import logs
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.schedulers.job import split_id
from hpcdist.tracking import files, series
from hpcdist.tracking.files import EntryReader, Losses, TrackedEntry
from hpcdist.tracking.series import Points, SeriesKey

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 24
_NO_RECORD: Final = "its program records them with `from hpcdist_tracking import log_metrics`"


@click.command("metrics")
@job_options(several=False)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--csv", "as_csv", is_flag=True, help="Print every value as a line of CSV.")
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Print values as they come until the job ends."
)
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: str, runs_dir: Path, json: bool, names: tuple[str, ...], as_csv: bool,
    following: bool,
) -> None:  # fmt: skip
    """Show the metrics of a run.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. A pipeline shows the metrics of all its operations.
    NAME is the name of a metric or a pattern such as 'val/*'; without NAME, all are shown.
    """
    if json + as_csv + following > 1:
        raise click.UsageError("use one of --json, --csv and --follow.")
    if runs.each_operation(ctx, command, runs_dir, jobs, "following", "json", "as_csv"):
        return
    run, element = runs.find_pulled(runs_dir, jobs)
    if element and following:
        raise click.UsageError("--follow shows all elements of an array; name the run alone.")
    if following:
        report = follow(run, runs.services(), source=partial(_new_lines, names=names), verb="metrics")
        note(runs.sentence(report))
        ctx.exit(exit_codes.of_report(report))
    found = _read(run, names, element)
    if json:
        show.as_json([_summary(key, points) for key, points in found.items()])
    elif as_csv:
        _print_csv(found)
    else:
        _print_table(found)


def _read(run: Run, names: Sequence[str], element: str) -> Mapping[SeriesKey, Points]:
    """Return the series of these names, of an element of an array its own."""
    metrics = series.read(run.directory, run.directory.plan())
    print_problems(map(warning, metrics.warnings))
    if not metrics.series:
        note(f"{run.name} has recorded no metrics; {_NO_RECORD}")
        return {}
    there = sorted({key.name for key in metrics.series})
    problems = [
        Problem(f"{run.name} has no metric {name!r}", hint=did_you_mean(name, there, most=10))
        for name in names
        if not _matching([name], there)
    ]
    if problems:
        raise ConfigError(*problems)
    wanted = {*_matching(names, there)}
    return {
        key: points
        for key, points in sorted(metrics.series.items())
        if key.name in wanted and element in {"", split_id(key.job)[1]}
    }


def _matching(names: Sequence[str], there: Iterable[str]) -> list[str]:
    """Return the metrics of these names or patterns; all without any."""
    return [
        metric
        for metric in there
        if not names or any(metric == name or fnmatchcase(metric, name) for name in names)
    ]


def _print_table(found: Mapping[SeriesKey, Points]) -> None:
    """Print a line a series; jobs and ranks are named where there are several."""
    named = [len({key[column] for key in found}) > 1 for column in (0, 1, 2)]
    named[1] = True
    heads = [head for head, shown in zip(("job", "metric", "rank"), named, strict=True) if shown]
    rows = [
        [*(str(part) for part, shown in zip(key, named, strict=True) if shown), *_cells(points)]
        for key, points in found.items()
    ]
    if rows:
        show.table((*heads, "last", "step", "min", "max", "values", "trend"), rows)


def _cells(points: Points) -> tuple[str, ...]:
    count, last, step, low, high = series.summary(points)
    ends = ("-" if value is None else f"{value:.6g}" for value in (low, high))
    return (f"{last:.6g}", f"{step:.10g}", *ends, str(count), _trend(points))


def _trend(points: Points) -> str:
    """Return a curve of the values; empty where the terminal cannot show it."""
    values = series.means(points.values, _WIDTH)
    finite = [value for value in values if math.isfinite(value)]
    if not finite or not _can_show(_BARS):
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if math.isfinite(high - low) and high > low else 0.0
    return "".join(
        _BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in values
    ).rstrip()


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _summary(key: SeriesKey, points: Points) -> dict[str, Any]:
    """Return a series for JSON, which has no NaN and no infinity: these are text."""
    count, last, step, low, high = series.summary(points)
    return {
        **key._asdict(), "values": count, "last": show.number(last), "step": step, "min": low, "max": high
    }  # fmt: skip


def _print_csv(found: Mapping[SeriesKey, Points]) -> None:
    from hpcdist.tracking.export import moment

    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(("job", "metric", "rank", "step", "value", "time"))
    for key, points in found.items():
        names = (key.job, printable(key.name), key.rank)
        for step, value, time in zip(*points, strict=True):
            lines.writerow((*names, f"{step:.15g}", repr(value), moment(time)))


def _new_lines(
    directory: RunDirectory,
    is_over: Callable[[], bool],
    sleep: Callable[[float], None],
    *,
    names: Sequence[str],
) -> Iterator[str]:
    """Yield a line for each entry, and for new ones as they are recorded, until the job ends."""
    readers: dict[Path, EntryReader] = {}
    with ExitStack() as streams:

        def lines(over: bool) -> Iterator[str]:
            del over
            for file in (file for file in files.recorded(directory, Losses()) if not file.is_polyaxon):
                if file.path not in readers:
                    readers[file.path] = EntryReader(streams.enter_context(ownership.open_regular(file.path)))
                yield from filter(
                    None, (_line(entry, file.rank, names) for entry in readers[file.path].new())
                )

        yield from logs.poll(lines, is_over, sleep)


def _line(entry: TrackedEntry, rank: int, names: Sequence[str]) -> str:
    shown = [f"{one_line(name)} {entry.metrics[name]}" for name in _matching(names, entry.metrics)]
    heads = [f"rank {rank}"] if rank else []
    heads += [f"step {entry.step:.10g}"] if isinstance(entry.step, float) else []
    return "  ".join([*heads, *shown]) if shown else ""
