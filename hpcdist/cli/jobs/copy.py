"""``hpcdist copy``: a new run that begins with the outputs and checkpoints of a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs.resubmit import resubmit, resubmit_options
from hpcdist.searches.replan import NewRun


@click.command("copy")
@resubmit_options
def command(jobs: str, runs_dir: Path, json: bool, new: NewRun) -> None:
    """Submit a new run that begins with the outputs of a run.

    It gets copies of the outputs and checkpoints; the run itself stays as it is. The experiment is the one
    that the run recorded, with other params where given. JOB is the name of a run, its directory or its job
    id.
    """
    resubmit(jobs, runs_dir, new._replace(copies=True), json=json)
