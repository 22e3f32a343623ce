"""``hpcdist report``: one HTML file about runs, which opens without a network."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from hpcdist.checks import usage
from hpcdist.checks.failures import first_failure
from hpcdist.checks.usage import Used
from hpcdist.cli import completion
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.compare import runs_named
from hpcdist.cli.messages import note
from hpcdist.cli.options import runs_dir_option
from hpcdist.errors import ConfigError, Problem, bytes_text
from hpcdist.host import untrusted
from hpcdist.runs import accounting, states
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import Run
from hpcdist.runs.state import Attempt
from hpcdist.runs.states import Report
from hpcdist.scaling import plot, results, study
from hpcdist.scaling.results import Result
from hpcdist.scaling.study import Found, Member, Study
from hpcdist.tracking import report
from hpcdist.tracking.report import Content, Cut, StudyView
from hpcdist.tracking.report_data import Supplement

_MOST_LOST: Final = 20
"""How many sentences about what is missing from a study a page has."""


@click.command("report")
@click.argument("jobs", metavar="[JOB...]", nargs=-1, shell_complete=completion.runs)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; an existing one is replaced.",
)
@runs_dir_option
def command(jobs: Sequence[str], runs_dir: Path, output: Path) -> None:
    """Write a page about runs, for a browser.

    It shows state, placement, metrics, params, models and outputs, and where each value comes from, in one
    file that needs no network. JOB is the name of a run or a pattern such as
    'train-*', its directory or its job id; without JOB, all runs are shown.
    """
    if str(output) == "-":
        raise click.UsageError("a report is a file; name it with -o, such as -o report.html.")
    library = report.library()
    found = [*runs_named(runs_dir, jobs)]
    if not found:
        raise ConfigError(Problem(f"there are no runs in {runs_dir}"))
    services = runs.services()
    reports = states.status(found, services)
    accounting.keep((report.run for report in reports), services)
    shown = content(reports, time.time())
    text = report.html(shown, library).encode()
    write(output, text)
    note(f"{output} shows {shown.title} ({bytes_text(len(text))}); open it in a browser")


def write(output: Path, text: bytes) -> None:
    """Replace the file, readable by its owner only.

    Raises:
        ConfigError: if it cannot be written.
    """
    try:
        with untrusted.folder(output.absolute().parent) as folder:
            untrusted.write(folder, output.name, text)
    except OSError as error:
        raise ConfigError(Problem(f"{output} cannot be written: {error.strerror}")) from error


def content(reports: Sequence[Report], now: float) -> Content:
    """Return what a page about these runs shows, with their usage, failed nodes and scaling studies.

    Raises:
        ConfigError: if they are too many.
        OSError: if what one recorded cannot be read.
    """
    return report.content(reports, now, _supplement, [*_studies(reports)])


def _supplement(run: Run, attempts: Sequence[Attempt], now: float) -> Supplement:
    used = usage.of_run(run.directory, attempts, now)
    begun = [Numbered(0, one.job, one.name) for one in attempts if one.started is not None]
    failure = first_failure(run.directory, begun)
    return Supplement(
        facts=_facts(used),
        advice=[f"{found.text}; write {found.write}" for found in used.advice],
        first_failure=failure.text if failure else "",
    )


def _facts(found: Used) -> dict[str, str | None]:
    """Return what the accounting and the samples have; whole nodes are in the GPU-hours."""
    whole, use = usage.total(found.costs), usage.mean((node.use, node.seconds) for node in found.nodes)
    charged = whole.gpu_seconds if whole.is_measured and any(one.gpus for one in found.costs) else None
    return {
        "GPU-hours charged": usage.hours_text(charged),
        "CPU-hours": usage.hours_text(whole.cpu_seconds),
        "CPUs busy": None if whole.cpu_share is None else f"{whole.cpu_share:.0%}",
        "GPU use": None if use is None else f"{use:.0f}%",
    }


def _studies(reports: Iterable[Report]) -> Iterator[StudyView]:
    """Yield the scaling studies of these runs, in the order of their first runs."""
    by_token: dict[str, list[tuple[Report, Member]]] = {}
    for one in reports:
        if member := study.of(one.run):
            by_token.setdefault(member.study.token, []).append((one, member))
    for pairs in by_token.values():
        of = pairs[0][1].study
        try:
            result = results.result(of, _each_once(pairs, of))
        except ConfigError as error:
            yield StudyView(f"{of.experiment}: {of.mode} scaling", (), (), [str(error)])
            continue
        if result.sizes:
            rows = [*map(results.row, result.sizes)]
            lines = [*results.lines(result), *result.lost[:_MOST_LOST]]
            yield StudyView(results.title(result), results.heads(result), rows, lines, partial(_svg, result))


def _each_once(pairs: Sequence[tuple[Report, Member]], of: Study) -> list[tuple[Report, Member]]:
    """Return one run of each size and repetition, as a study does."""
    reports = {one.run.directory: one for one, _ in pairs}
    chosen = study.of_study([Found(one.run, member) for one, member in pairs], of)
    return [(reports[one.run.directory], one.member) for one in chosen]


def _svg(result: Result, cut: Cut) -> str:
    drawing = plot.drawing(result._replace(metric=cut(result.metric)))
    return plot.write_svg(drawing) if drawing else ""
