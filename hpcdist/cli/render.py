"""``hpcdist render``: the job script, which also runs without hpcdist and without a run directory."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.options import experiment_options
from hpcdist.cli.session import Asked, session
from hpcdist.renderer import render


@click.command("render")
@experiment_options
@click.option("-o", "--output", metavar="FILE", help="Write the script to this file.")
@click.option("--annotate", is_flag=True, help="Write the origin of every line beside it.")
def command(asked: Asked, output: str | None, annotate: bool) -> None:
    """Print the job script.

    It runs without hpcdist, by `sbatch FILE`, and makes its run directory where it is submitted.
    """
    script = render(session(asked).plan, annotate=annotate).job.encode()
    if output:
        Path(output).write_bytes(script)
    else:
        click.echo(script, nl=False)
