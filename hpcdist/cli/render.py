"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.new_file import whole
from hpcdist.cli.options import experiment_options, json_option
from hpcdist.cli.session import Asked, session
from hpcdist.renderer import render


@click.command("render")
@experiment_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the script to this file, over what it holds, for you alone to read.",
)
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
@json_option
def command(asked: Asked, output: str | None, annotate: bool, json: bool) -> None:
    """Print the job script.

    It runs without hpcdist, by `sbatch FILE`, and makes its run directory where it is submitted.
    """
    if output and json:
        raise click.UsageError("--output goes with no --json.")
    made = session(asked)
    script = render(made.plan, annotate=annotate)
    if output:
        _write(Path(output), script.job.encode())
    elif json:
        show.as_json({"script": script.job, "task": script.task, "warnings": [*map(str, made.warnings)]})
    else:
        click.echo(script.job.encode(), nl=False)


def _write(file: Path, script: bytes) -> None:
    """Write a script that may hold the values of secret variables."""
    opener = functools.partial(os.open, mode=0o700)
    with whole(file), open(file, "wb", opener=opener) as stream:
        if file.is_file():
            file.chmod(0o700)
        stream.write(script)
