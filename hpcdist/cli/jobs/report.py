"""``hpcdist report``: one HTML file about runs, which opens without a network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, bytes_text
from hpcdist.checks import usage
from hpcdist.checks.usage import Used
from hpcdist.cli import completion
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.compare import runs_named
from hpcdist.cli.messages import note
from hpcdist.cli.options import runs_dir_option
from hpcdist.runs import accounting, job_states
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.failures import first_failure
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.studies import scaling_report
from hpcdist.tracking import report
from hpcdist.tracking.report import Content
from hpcdist.tracking.report_data import Supplement


@click.command("report")
@click.argument("jobs", metavar="[JOB...]", nargs=-1, shell_complete=completion.runs)
@click.option(
    "-o", "--output", metavar="FILE", default="report.html", show_default=True,
    type=click.Path(path_type=Path, dir_okay=False), help="File to write; an existing one is replaced.",
)  # fmt: skip
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
    reports = job_states.status(found, services)
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
        with ownership.folder(output.absolute().parent) as folder:
            ownership.write(folder, output.name, text)
    except OSError as error:
        raise ConfigError(Problem(f"{output} cannot be written: {error.strerror}")) from error


def content(reports: Sequence[Report], now: float) -> Content:
    """Return what a page about these runs shows, with their usage, failed nodes and scaling studies.

    Raises:
        ConfigError: if they are too many.
        OSError: if what one recorded cannot be read.
    """
    return report.content(reports, now, _supplement, [*scaling_report.sections(reports)])


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
