"""``hpcdist scale``: one experiment on several numbers of nodes, and what that brings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from hpcdist.cli import balances, show
from hpcdist.cli.jobs import runs, scale_plot, scale_result, scale_study
from hpcdist.cli.jobs.scale_study import Asked
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import experiment_options, given, json_option, runs_dir_option
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import states
from hpcdist.runs.rundir import Run
from hpcdist.scaling import results, size_costs, study
from hpcdist.scaling.study import MOST, Found, Ranks

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


def _hours(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
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
@click.option("--max-gpu-hours", "most", type=float, callback=_hours, metavar="HOURS",
              help="Submit nothing if all runs together may take more.")  # fmt: skip
@click.option("--chain", is_flag=True, help="Each run begins when the one before has ended.")
@click.option("--dry-run", is_flag=True, help="Show the sizes and their cost; submit nothing.")
@click.option("--again", is_flag=True, help="Begin anew, even if an earlier study was interrupted.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the runs to end, and report.")
@click.option("--report", "reporting", is_flag=True,
              help="Report on a study; EXP is the name of one of its runs.")  # fmt: skip
@click.option("--plot", "plot_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              callback=scale_plot.option,
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
        scale_plot.check(plot_file, is_shown=waiting or reporting)
    shown = Shown(metric, ranks or "", plot_file, json)
    if reporting:
        _check_report(ctx)
        _report(runs_dir, options.file, shown)
        return
    asked = Asked(nodes, is_weak, repeat, metric, ranks or "", chain, again)
    scale_study.check_kind(options)
    planned = scale_study.planned(options, nodes, param, runs_dir, saves=not dry_run)
    _print_problems([made for _, made in planned])
    found = size_costs.of_plans([made for _, made in planned], repeat)
    if not json:
        scale_result.print_plan(found)
    size_costs.check(found, most)
    if dry_run:
        show.as_json({"plan": scale_result.plan_data(found)}) if json else None
        return
    members = scale_study.submit_all(planned, asked, runs_dir, _quiet if json else _print_line)
    first = members[0].run
    if not json:
        for text in balances.ask(planned[0][1], runs.services().runner).texts_of_all(
            size_costs.charged(found), "the study"
        ):
            note(f"balance: {text}")
    if not waiting:
        _print_next(first, members, scale_result.plan_data(found), json=json)
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
        ConfigError: if the run is of no study, or the throughput is not known; as `scale_plot.write`.
    """
    of, found = study.find(runs_dir, job)
    reports = states.status([one.run for one in found], runs.services())
    pairs = zip(reports, (one.member for one in found), strict=True)
    result = results.result(of, pairs, shown.metric, shown.ranks)
    if shown.json:
        show.as_json(scale_result.as_data(result))
    else:
        scale_result.print_result(result)
    if shown.plot_file:
        scale_plot.write(shown.plot_file, result)
