"""``hpcdist restart``: a new run of the experiment of a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs.anew import anew_options, submit_anew
from hpcdist.sweeps.anew import Changes


@click.command("restart")
@click.option(
    "--copy", "copies", is_flag=True, help="Begin with copies of the run's outputs and checkpoints."
)
@anew_options
def command(jobs: str, runs_dir: Path, json: bool, changes: Changes, copies: bool) -> None:
    """Submit the experiment of a run again, as a new run.

    The run itself stays as it is. The experiment is the one that the run recorded, with other params where
    given. JOB is the name of a run, its directory or its job id.
    """
    submit_anew(jobs, runs_dir, changes, copies=copies, json=json)
