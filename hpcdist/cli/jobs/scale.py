"""``hpcdist scale``: one experiment on several numbers of nodes, and what that brings."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.units import Walltime
from hpcdist.checks.nodes import all_without_suspects
from hpcdist.cli import costs, show
from hpcdist.cli.jobs import exit_codes, runs, submit
from hpcdist.cli.jobs.report import write as write_file
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.messages import note, one_line, print_problems
from hpcdist.cli.options import file_options, given, json_option, runs_dir_option
from hpcdist.cli.session import awaiting_in, pipeline_of
from hpcdist.importers import polyaxon
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.runs import job_states
from hpcdist.runs.rundir import Run
from hpcdist.runs.submission import SubmitOutput
from hpcdist.studies import scaling_plan, scaling_report, scaling_runs
from hpcdist.studies.scaling_plan import SizeCost
from hpcdist.studies.scaling_results import StudyResult, study_result
from hpcdist.studies.scaling_runs import MOST, Ranks, Sizes, StudyRequest, StudyRun

# --- The options, and what can be known before anything is submitted

_WORD: Final = re.compile(r"0{0,9}[1-9][0-9]{0,5}")
"""A number of nodes that a study can have."""

_OF_REPORT: Final = frozenset({"metric", "plot_file", "runs_dir", "json"})
"""The options that go with a report on a study."""


class NodesOption(NamedTuple):
    """The numbers of nodes, and the param that is the number of nodes, if it is named."""

    numbers: tuple[int, ...] = ()
    param: str = ""


class MetricOption(NamedTuple):
    """The throughput; empty if it is to be found by its name. ``ranks``: what several ranks come to."""

    name: str = ""
    ranks: Ranks = ""


class Shown(NamedTuple):
    """What a report is of, and where it goes."""

    metric: MetricOption
    plot_file: Path | None
    json: bool


def _nodes(value: str) -> NodesOption:
    """Read ``1,2,4`` or ``workers=1,2,4``; each number counts once, in ascending order."""
    name, equals, listed = value.rpartition("=")
    words = [word.strip() for word in listed.split(",")] if value else []
    if not all(map(_WORD.fullmatch, words)) or (equals and not name.strip()):
        form = "is not a list of numbers of nodes from 1 to 999999, such as 1,2,4 or PARAM=1,2,4."
        raise click.BadParameter(f"{value!r} {form}")
    found = tuple(sorted({*map(int, words)}))
    if len(found) > MOST:
        raise click.BadParameter(f"these are {len(found)} sizes, and a study has at most {MOST}.")
    return NodesOption(found, name.strip())


def _metric(value: str) -> MetricOption:
    """Read ``images_per_second``, ``images_per_second:sum`` or ``:first``."""
    name, colon, ranks = value.rpartition(":")
    if colon and ranks == "sum":
        return MetricOption(name, "sum")
    return MetricOption(name, "first") if colon and ranks == "first" else MetricOption(value)


def _gpu_hours(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Check a number of hours; NaN would be above no limit."""
    del ctx, param
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"{value:g} is not a number of hours, such as 40.")
    return value


def _plot_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Check what kind of file the plot is to be."""
    del ctx, param
    if value is not None and value.suffix.lower() not in {".html", ".htm"}:
        raise click.BadParameter(f"a plot is a page for a browser: name it *.html, not '{value}'.")
    return value


def _check_plot(file: Path, *, is_shown: bool) -> None:
    """Check that the plot can be written, before anything is submitted."""
    if not is_shown:
        raise click.UsageError("--plot needs a report: give --wait as well, or plot the study later.")
    scaling_report.check_plotly()
    folder = file.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "is not writable" if folder.is_dir() else "does not exist"
        raise ConfigError(Problem(f"{file} cannot be written: the folder {folder} {why}"))


def _check_report(ctx: click.Context, file: str) -> None:
    """Refuse a report without a run, and options that a report would ignore."""
    if file == "-" or Path(file).is_file() or Path(file).suffix in {".yml", ".yaml"}:
        raise click.UsageError(f"Give numbers of nodes for {file}, such as --nodes 1,2,4.")
    if ignored := given(ctx, lambda name: name not in _OF_REPORT):
        wait = "; `hpcdist wait` waits for its runs" if "--wait" in ignored else ""
        message = f"a study is shown as it was submitted, without {', '.join(ignored)}{wait}."
        raise click.UsageError(f"Without --nodes, {message}")


def _check_kind(options: ExperimentOptions) -> None:
    """Check that the file is that of a training."""
    document, is_pipeline = pipeline_of(options)
    kind = document.data.get("kind") if document else None
    if document and (is_pipeline or kind in polyaxon.SERVED):
        message = f"a {'pipeline' if is_pipeline else kind} has no throughput that could scale"
        hint = "study an experiment, such as that of one operation" if is_pipeline else "study an experiment"
        raise ConfigError(document.locate(Problem(message, ("kind",), hint)))


# --- ``hpcdist scale``


@click.command("scale")
@file_options
@click.option("--nodes", metavar="[PARAM=]LIST", type=_nodes, default="",
              help="Numbers of nodes, such as 1,2,4,8; PARAM: the param that has this number.")  # fmt: skip
@click.option("--weak/--strong", "is_weak", default=True, show_default=True,
              help="Whether the problem grows with the nodes or stays the same.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(1, MOST), default=1, show_default=True,
              metavar="N", help="Runs of each size.")  # fmt: skip
@click.option("--metric", default="", metavar="NAME[:sum|:first]", type=_metric,
              help="The throughput of the job; of several ranks, their sum or the lowest's.")  # fmt: skip
@click.option("--max-gpu-hours", "most", type=float, callback=_gpu_hours, metavar="HOURS",
              help="Submit nothing if all runs together may take more.")  # fmt: skip
@click.option("--chain", is_flag=True, help="Each run begins when the one before has ended.")
@click.option("--dry-run", is_flag=True, help="Show the sizes and their cost; submit nothing.")
@click.option("--wait", "waiting", is_flag=True, help="Wait for the runs to end, and report.")
@click.option("--plot", "plot_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              callback=_plot_file, help="Write the plot of the report, as a page: *.html.")  # fmt: skip
@runs_dir_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, options: ExperimentOptions, nodes: NodesOption, is_weak: bool, repeat: int,
    metric: MetricOption, most: float | None, chain: bool, dry_run: bool, waiting: bool,
    plot_file: Path | None, runs_dir: Path, json: bool,
) -> None:  # fmt: skip
    """Run an experiment on several numbers of nodes, and report on it.

    The sizes and their cost are shown first. Each size is a run of its own. Without --nodes, EXP is the name
    of one of these runs, and the report on their study is shown.
    """
    if not nodes.numbers:
        _check_report(ctx, options.file)
    if plot_file:
        _check_plot(plot_file, is_shown=waiting or not nodes.numbers)
    shown = Shown(metric, plot_file, json)
    if not nodes.numbers:
        _report(runs_dir, options.file, shown)
        return
    _check_kind(options)
    planned = _planned(options, nodes, runs_dir, saves=not dry_run)
    _print_problems(made for _, made in planned)
    found = scaling_plan.size_costs([made for _, made in planned], repeat)
    if not json:
        _print_plan(found)
    scaling_plan.check_cost(found, most)
    if dry_run:
        show.as_json({"plan": _plan_data(found)}) if json else None
        return
    request = StudyRequest(nodes.numbers, "weak" if is_weak else "strong", repeat, *metric, chain)
    members = _submit(request, planned, runs_dir, json=json)
    if not json:
        _note_balance(planned[0][1], found)
    if not waiting:
        _print_next(members, _plan_data(found), json=json)
        return
    reports = wait([one.run for one in members], runs.services())
    _report(runs_dir, str(members[0].run.directory.path), shown)
    ctx.exit(exit_codes.of_reports(reports))


def _planned(options: ExperimentOptions, nodes: NodesOption, runs_dir: Path, *, saves: bool) -> Sizes:
    """Plan all sizes, without suspect nodes and with the jobs of the runs that they wait for, as `submit`."""
    plan = functools.partial(plan_experiment, awaiting=awaiting_in(runs_dir, saves=saves))
    found = scaling_plan.plan_sizes(options, nodes.numbers, plan, nodes.param)
    plans = all_without_suspects([made for _, made in found], runs_dir)
    return [(own, made) for (own, _), made in zip(found, plans, strict=True)]


def _submit(request: StudyRequest, planned: Sizes, runs_dir: Path, *, json: bool) -> list[StudyRun]:
    result: Callable[[Run], object] = bool if json else _print_run
    with submit.explains_interruption():
        return scaling_runs.submit_study(
            request, planned, runs_dir, runs.services(), SubmitOutput(result, note)
        )


def _report(runs_dir: Path, job: str, shown: Shown) -> None:
    """Print what the runs of a study have measured so far, and write its plot."""
    study, found = scaling_runs.find_study(runs_dir, job)
    reports = job_states.status([one.run for one in found], runs.services())
    pairs = zip(reports, (one.member for one in found), strict=True)
    result = study_result(study, pairs, *shown.metric)
    if shown.json:
        show.as_json(scaling_report.as_data(result))
    else:
        _print_result(result)
    if shown.plot_file:
        file = shown.plot_file
        figure = scaling_report.figure(result)
        if figure:
            write_file(file, scaling_report.plot_page(figure).encode())
            note(f"{file} shows it; open it in a browser")
        else:
            note(f"{file} is not written: nothing was measured yet")


# --- Output

_MOST_LEFT_OUT: Final = 20
"""The most runs without a measurement that are named."""


def _print_problems(plans: Iterable[Planned]) -> None:
    """Print the warnings of all sizes, equal ones once."""
    found = {(problem.message, problem.hint): problem for made in plans for problem in made.problems}
    print_problems(found.values())


def _print_plan(found: Sequence[SizeCost]) -> None:
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
    gpu_hours = _hours(scaling_plan.total(size.gpu_hours for size in found))
    node_hours = _hours(scaling_plan.total(size.node_hours for size in found))
    runs = sum(size.runs for size in found)
    attempts = max((size.each.attempts for size in found if size.each), default=1)
    each = f" of up to {attempts} attempts each" if attempts > 1 else ""
    click.echo(
        f"{runs} run{'s' * (runs > 1)}{each}, at most {gpu_hours} GPU-hours and {node_hours} node-hours"
    )
    if charge := scaling_plan.total_charge(found).lines.get("charge"):
        click.echo(f"charge: {charge}")


def _hours(hours: float | None) -> str:
    return "no limit" if hours is None else f"{hours:.4g}"


def _plan_data(found: Sequence[SizeCost]) -> list[dict[str, Any]]:
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
            "charge": size.each and scaling_plan.total_charge([size]).charge,
            "unit": size.each.rate.unit if size.each and size.each.rate else None,
        }
        for size in found
    ]


def _note_balance(made: Planned, found: Sequence[SizeCost]) -> None:
    balance = costs.ask(made, runs.services().runner)
    for text in balance.texts_of_all(scaling_plan.total_charge(found), "the study"):
        note(f"balance: {text}")


def _print_run(run: Run) -> None:
    click.echo(f"{run.name}: job{'s' * bool(run.later)} {runs.ids_of(run)} on site {run.record.site}")
    show.flush()


def _print_next(members: Sequence[StudyRun], plan: object, *, json: bool) -> None:
    if json:
        show.as_json({"plan": plan, "runs": [runs.record_of(one.run) for one in members]})
    else:
        show.table((), [("next", f"hpcdist scale {members[0].run.name}")])


def _print_result(result: StudyResult) -> None:
    """Print a study: a row for each size, the laws, and what is missing."""
    click.echo(one_line(scaling_report.title(result)))
    if result.sizes:
        show.table(scaling_report.heads(result), map(scaling_report.row, result.sizes))
        for line in scaling_report.lines(result):
            click.echo(line)
    for text in islice(result.lost, _MOST_LEFT_OUT):
        note(text)
    for text in islice(result.left_out, _MOST_LEFT_OUT):
        note(f"not measured: {text}")
    if len(result.left_out) > _MOST_LEFT_OUT:
        note(f"not measured: {len(result.left_out) - _MOST_LEFT_OUT} more")
