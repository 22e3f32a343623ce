"""``hpcdist resume``: go on with a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import job_options
from hpcdist.runs import finding
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Run


@click.command("resume")
@job_options(several=False)
def command(jobs: str, runs_dir: Path, json: bool) -> None:
    """Go on with a run that ended before its training was finished.

    A further job of the same run finds its checkpoints and outputs; of a search, the trials that did not
    complete run once more. JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.sweeps import continuing  # it plans

    run = finding.find(runs_dir, jobs)
    there = {job.directory.number for job in run.jobs}

    def result(now: Run) -> None:
        added = [job for job in now.jobs if job.directory.number not in there]
        if json:
            show.as_json([runs.record_of(job) for job in added])
        for job in added if not json else ():
            click.echo(f"{run.name}: job {job.record.job_id} goes on")
        show.flush()

    is_search = run.directory.plan().trials is not None
    (continuing.resume if is_search else continuing.go_on)(run, runs.services(), Output(result, note))
