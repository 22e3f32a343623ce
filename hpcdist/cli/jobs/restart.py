"""``hpcdist restart``: a new run of the experiment of a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs.anew import anew_options, submit_anew
from hpcdist.sweeps.anew import Changes


@click.command("restart")
@anew_options
def command(jobs: str, runs_dir: Path, json: bool, changes: Changes) -> None:
    """Submit the experiment of a run once more, as a new run.

    Its outputs are its own; the experiment is the one that the run recorded, with other params where given.
    JOB is the name of a run, its directory or its job id.
    """
    submit_anew(jobs, runs_dir, changes, copies=False, json=json)
