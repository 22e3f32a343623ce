"""``hpcdist scale``: one experiment on several numbers of nodes, and what that brings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from hpcdist.cli import costs, show
from hpcdist.cli.jobs import runs, scale_study
from hpcdist.cli.jobs.report import write as write_file
from hpcdist.cli.jobs.scale_study import Asked
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, one_line, print_problems
from hpcdist.cli.options import experiment_options, given, json_option, runs_dir_option
from hpcdist.errors import ConfigError, Problem
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import states
from hpcdist.runs.rundir import Run
from hpcdist.scaling import plot, results, sizes, study
from hpcdist.scaling.fits import Fit
from hpcdist.scaling.measured import Measured
from hpcdist.scaling.results import Result, Size
from hpcdist.scaling.sizes import SizeCost
from hpcdist.scaling.study import MOST, Found, Ranks
from hpcdist.units import Walltime

# --- Shared output of scaling studies: their plan with its cost, and their result as tables and for JSON

_MOST: Final = 20
"""How many runs that have measured nothing are named."""


def print_plan(found: Sequence[SizeCost]) -> None:
    """Print what each size is, and what all may cost."""
    show.table(
        ("nodes", "tasks", "GPUs", "walltime", "runs", "GPU-hours", "node-hours"),
        [
            (
                *map(str, (size.nodes, size.tasks, size.gpus)),
                str(Walltime(size.each.seconds)) if size.each else "-",
                str(size.runs),
                _hours(size.gpu_hours),
                _hours(size.node_hours),
            )
            for size in found
        ],
    )
    gpu_hours, node_hours = (_hours(sizes.total(hours)) for hours in _columns(found))
    runs = sum(size.runs for size in found)
    attempts = max((size.each.attempts for size in found if size.each), default=1)
    each = f" of up to {attempts} attempts each" if attempts > 1 else ""
    click.echo(
        f"{runs} run{'s' * (runs > 1)}{each}, at most {gpu_hours} GPU-hours and {node_hours} node-hours"
    )
    if charge := sizes.charged(found).lines.get("charge"):
        click.echo(f"charge: {charge}")


def _columns(found: Sequence[SizeCost]) -> tuple[list[float | None], list[float | None]]:
    return [size.gpu_hours for size in found], [size.node_hours for size in found]


def _hours(hours: float | None) -> str:
    return "no limit" if hours is None else f"{hours:.4g}"


def plan_data(found: Sequence[SizeCost]) -> list[dict[str, Any]]:
    """Return the plan for JSON; null has no limit."""
    return [
        {
            "nodes": size.nodes,
            "tasks": size.tasks,
            "gpus": size.gpus,
            "walltime_seconds": size.each and size.each.seconds,
            "runs": size.runs,
            "gpu_hours": size.gpu_hours,
            "node_hours": size.node_hours,
            "charge": size.each and sizes.charged([size]).charge,
            "unit": size.each.rate.unit if size.each and size.each.rate else None,
        }
        for size in found
    ]


def print_result(result: Result) -> None:
    """Print a study: a row for each size, the laws, and what is missing."""
    click.echo(one_line(results.title(result)))
    if result.sizes:
        show.table(results.heads(result), map(results.row, result.sizes))
        for line in results.lines(result):
            click.echo(line)
    for text in islice(result.lost, _MOST):
        note(text)
    for text in islice(result.left_out, _MOST):
        note(f"not measured: {text}")
    if len(result.left_out) > _MOST:
        note(f"not measured: {len(result.left_out) - _MOST} more")


def as_data(result: Result) -> dict[str, Any]:
    """Return a study for JSON."""
    study = result.study
    return {
        "experiment": study.experiment,
        "mode": study.mode,
        "metric": result.metric,
        "cost_unit": result.unit,
        "sizes": [*map(_size_data, result.sizes)],
        "fits": [*map(_fit_data, result.fits)],
        "largest_efficient": result.largest_efficient,
        "runs": [*map(_run_data, result.runs)],
        "not_measured": [*result.left_out],
        "lost": [*result.lost],
    }


def _size_data(size: Size) -> dict[str, Any]:
    spreads = {name: getattr(size, name)._asdict() for name in ("throughput", "speedup", "efficiency")}
    return {
        "nodes": size.nodes,
        "tasks": size.tasks,
        "gpus": size.gpus,
        "runs": size.runs,
        **spreads,
        "communication_share": size.communication,
        "cost_per_1000_steps": size.thousand_steps,
        "cost_per_million": size.million,
    }


def _run_data(run: Measured) -> dict[str, Any]:
    return {
        "run": run.run,
        "nodes": run.member.nodes,
        "repetition": run.member.repetition,
        "state": run.state,
        "throughput": run.throughput,
        "seconds_per_step": run.step,
        "communication_share": run.communication,
        "ranks": run.ranks,
        "ranks_summed": run.summed,
        "ranks_without": [*run.without],
    }


def _fit_data(fit: Fit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "one_node": fit.one_node,
        "parameters": fit.parameters,
        "peak_nodes": fit.peak,
        "residuals": [*_pairs(fit)],
    }


def _pairs(fit: Fit) -> Iterator[dict[str, float]]:
    yield from ({"nodes": nodes, "residual": residual} for nodes, residual in fit.residuals)


# --- The plot of ``hpcdist scale``: what can be known before anything is submitted, and its file


def option(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Check what kind of file the plot is to be."""
    del ctx, param
    if value is not None and value.suffix.lower() not in {".svg", ".png"}:
        raise click.BadParameter(f"'{value}' is neither SVG nor PNG; name it *.svg or *.png.")
    return value


def check(file: Path, *, is_shown: bool) -> None:
    """Check that the plot can be written, before anything is submitted.

    Raises:
        UsageError: if there will be no report.
        ConfigError: as `plot.font`, or if there is no such folder, or it is not writable.
    """
    if not is_shown:
        raise click.UsageError("--plot is of a report; give --wait or --report as well.")
    if _is_png(file):
        plot.font()
    folder = file.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "is not writable" if folder.is_dir() else "does not exist"
        raise ConfigError(Problem(f"{file} cannot be written: the folder {folder} {why}"))


def write(file: Path, result: Result) -> None:
    """Write the plot, if anything was measured.

    Raises:
        ConfigError: if it cannot be written, or as `plot.font`.
    """
    drawing = plot.drawing(result)
    if drawing:
        write_file(file, plot.write(drawing) if _is_png(file) else plot.write_svg(drawing).encode())
        note(f"{file} shows it{'' if _is_png(file) else '; open it in a browser'}")
    else:
        note(f"{file} is not written: nothing was measured yet")


def _is_png(file: Path) -> bool:
    return file.suffix.lower() == ".png"


# --- ``hpcdist scale``

_WORD: Final = re.compile(r"0{0,9}[1-9][0-9]{0,5}")
"""A number of nodes that a study can have."""

_OF_REPORT: Final = frozenset({"reporting", "metric", "ranks", "plot_file", "runs_dir", "json"})
"""The options that go with --report."""


def _nodes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Read ``1,2,4``; each number counts once, in ascending order."""
    del ctx, param
    words = [word.strip() for word in value.split(",")] if value else []
    if not all(_WORD.fullmatch(word) for word in words):
        raise click.BadParameter(f"{value!r} is no list of numbers of nodes from 1 to 999999, such as 1,2,4.")
    found = tuple(sorted({int(word) for word in words}))
    if len(found) > MOST:
        raise click.BadParameter(f"these are {len(found)} sizes, and a study has at most {MOST}.")
    return found


class Shown(NamedTuple):
    """What a report is of, and where it goes."""

    metric: str
    ranks: Ranks
    plot_file: Path | None
    json: bool


def _scale_hours(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Check a number of hours; NaN would be above no limit."""
    del ctx, param
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"{value:g} is no number of hours, such as 40.")
    return value


@click.command("scale")
@experiment_options
@click.option("--nodes", metavar="LIST", callback=_nodes, help="Numbers of nodes, such as 1,2,4,8.")
@click.option("--nodes-param", "param", default="", metavar="NAME",
              help="The param that is the number of nodes; default: the one that can be it.")  # fmt: skip
@click.option("--weak/--strong", "is_weak", default=True, show_default=True,
              help="Whether the problem grows with the nodes or stays the same.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1, MOST), default=1, show_default=True,
              metavar="N", help="Runs of each size.")  # fmt: skip
@click.option("--metric", default="", metavar="NAME",
              help="The throughput of the whole job; default: the metric whose name is one.")  # fmt: skip
@click.option("--ranks", type=click.Choice(("sum", "first")), default=None,
              help="What a metric of several ranks comes to: their sum, or the lowest rank's.")  # fmt: skip
@click.option("--max-gpu-hours", "most", type=float, callback=_scale_hours, metavar="HOURS",
              help="Submit nothing if all runs together may take more.")  # fmt: skip
@click.option("--chain", is_flag=True, help="Each run begins when the one before has ended.")
@click.option("--dry-run", is_flag=True, help="Show the sizes and their cost; submit nothing.")
@click.option("--again", is_flag=True, help="Begin anew, even if an earlier study was interrupted.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the runs to end, and report.")
@click.option("--report", "reporting", is_flag=True,
              help="Report on a study; EXP is the name of one of its runs.")  # fmt: skip
@click.option("--plot", "plot_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              callback=option,
              help="With --wait or --report: write the plot, as *.svg or *.png.")  # fmt: skip
@runs_dir_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    options: ExperimentOptions,
    nodes: tuple[int, ...],
    param: str,
    is_weak: bool,
    repeat: int,
    metric: str,
    ranks: Ranks | None,
    most: float | None,
    chain: bool,
    dry_run: bool,
    again: bool,
    waiting: bool,
    reporting: bool,
    plot_file: Path | None,
    runs_dir: Path,
    json: bool,
) -> None:
    """Run an experiment on several numbers of nodes, and report on it.

    The sizes and their cost are shown first. Each size is a run of its own.
    """
    if reporting == bool(nodes):
        raise click.UsageError("Give numbers of nodes, such as --nodes 1,2,4, or --report and a run.")
    if plot_file:
        check(plot_file, is_shown=waiting or reporting)
    shown = Shown(metric, ranks or "", plot_file, json)
    if reporting:
        _check_report(ctx)
        _report(runs_dir, options.file, shown)
        return
    asked = Asked(nodes, is_weak, repeat, metric, ranks or "", chain, again)
    scale_study.check_kind(options)
    planned = scale_study.planned(options, nodes, param, runs_dir, saves=not dry_run)
    _print_problems([made for _, made in planned])
    found = sizes.of_plans([made for _, made in planned], repeat)
    if not json:
        print_plan(found)
    sizes.check(found, most)
    if dry_run:
        show.as_json({"plan": plan_data(found)}) if json else None
        return
    members = scale_study.submit_all(planned, asked, runs_dir, _quiet if json else _print_line)
    first = members[0].run
    if not json:
        for text in costs.ask(planned[0][1], runs.services().runner).texts_of_all(
            sizes.charged(found), "the study"
        ):
            note(f"balance: {text}")
    if not waiting:
        _print_next(first, members, plan_data(found), json=json)
        return
    reports = wait([one.run for one in members], runs.services())
    _report(runs_dir, str(first.directory.path), shown)
    ctx.exit(next(filter(None, (runs.exit_code(report.status) for report in reports)), 0))


def _check_report(ctx: click.Context) -> None:
    """Refuse what a report would ignore.

    Raises:
        UsageError: if there is any.
    """
    ignored = given(ctx, lambda name: name not in _OF_REPORT)
    if ignored:
        wait = "; `hpcdist wait` waits for its runs" if "--wait" in ignored else ""
        message = f"--report shows a study as it was submitted, without {', '.join(ignored)}{wait}."
        raise click.UsageError(message)


def _print_problems(plans: Sequence[Planned]) -> None:
    """Print the warnings of all sizes, equal ones once."""
    found = {(problem.message, problem.hint): problem for made in plans for problem in made.problems}
    print_problems(found.values())


def _print_line(run: Run) -> None:
    click.echo(f"{run.name}: job{'s' * bool(run.later)} {runs.ids_of(run)} on site {run.record.site}")
    show.flush()


def _quiet(run: Run) -> None:
    del run


def _print_next(first: Run, members: Sequence[Found], plan: object, *, json: bool) -> None:
    if json:
        show.as_json({"plan": plan, "runs": [runs.record_of(one.run) for one in members]})
    else:
        show.table((), [("next", f"hpcdist scale --report {first.name}")])


def _report(runs_dir: Path, job: str, shown: Shown) -> None:
    """Print what the runs of a study have measured so far, and write its plot.

    Raises:
        ConfigError: if the run is of no study, or the throughput is not known; as `write`.
    """
    of, found = study.find(runs_dir, job)
    reports = states.status([one.run for one in found], runs.services())
    pairs = zip(reports, (one.member for one in found), strict=True)
    result = results.result(of, pairs, shown.metric, shown.ranks)
    if shown.json:
        show.as_json(as_data(result))
    else:
        print_result(result)
    if shown.plot_file:
        write(shown.plot_file, result)
