"""The plot of ``hpcdist scale``: what can be known before anything is submitted, and its file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hpcdist.cli.jobs.report import write as write_file
from hpcdist.cli.messages import note
from hpcdist.errors import ConfigError, Problem
from hpcdist.scaling import plot, png, svg
from hpcdist.scaling.results import Result


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
        ConfigError: as `png.font`, or if there is no such folder, or it is not writable.
    """
    if not is_shown:
        raise click.UsageError("--plot is of a report; give --wait or --report as well.")
    if _is_png(file):
        png.font()
    folder = file.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = "is not writable" if folder.is_dir() else "does not exist"
        raise ConfigError(Problem(f"{file} cannot be written: the folder {folder} {why}"))


def write(file: Path, result: Result) -> None:
    """Write the plot, if anything was measured.

    Raises:
        ConfigError: if it cannot be written, or as `png.font`.
    """
    drawing = plot.drawing(result)
    if drawing:
        write_file(file, png.write(drawing) if _is_png(file) else svg.write(drawing).encode())
        note(f"{file} shows it{'' if _is_png(file) else '; open it in a browser'}")
    else:
        note(f"{file} is not written: nothing was measured yet")


def _is_png(file: Path) -> bool:
    return file.suffix.lower() == ".png"
