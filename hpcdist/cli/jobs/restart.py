"""``hpcdist restart``: a new run of the experiment of a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs.resubmit import resubmit, resubmit_options
from hpcdist.searches.replan import NewRun


@click.command("restart")
@resubmit_options
def command(jobs: str, runs_dir: Path, json: bool, new: NewRun) -> None:
    """Submit the experiment of a run once more, as a new run.

    Its outputs are its own; the experiment is the one that the run recorded, with other params where given.
    JOB is the name of a run, its directory or its job id.
    """
    resubmit(jobs, runs_dir, new, json=json)
