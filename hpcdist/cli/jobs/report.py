"""``hpcdist report``: one HTML file about runs, which opens without a network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from hpcdist.cli import completion
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.comparing import runs_named
from hpcdist.cli.messages import note
from hpcdist.cli.options import runs_dir_option
from hpcdist.errors import ConfigError, Problem, bytes_text
from hpcdist.host import untrusted
from hpcdist.report import page
from hpcdist.runs import accounting, states
from hpcdist.studies import scaling_report


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
    library = page.library()
    found = [*runs_named(runs_dir, jobs)]
    if not found:
        raise ConfigError(Problem(f"there are no runs in {runs_dir}"))
    services = runs.services()
    reports = states.status(found, services)
    accounting.keep((report.run for report in reports), services)
    studies = [page.StudyView(*section) for section in scaling_report.sections(reports)]
    shown = page.content(reports, time.time(), studies)
    text = page.html(shown, library).encode()
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
