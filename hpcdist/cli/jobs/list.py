"""``hpcdist list``: list all runs from their records."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import json_option, runs_dir_option
from hpcdist.runs import rundir


@click.command("list")
@runs_dir_option
@json_option
def command(runs_dir: Path, json: bool) -> None:
    """List runs without querying the batch system."""
    found, errors = rundir.list_runs(runs_dir)
    runs.warn_unreadable(errors)
    if json:
        show.as_json([runs.record_of(run) for run in found])
    elif found:
        show.table(
            ("run", "job", "site", "submission", "created"),
            [
                (
                    run.name,
                    run.record.job_id or "-",
                    run.record.site,
                    run.record.phase.value,
                    run.record.created_at,
                )
                for run in found
            ],
        )
    else:
        note(f"no runs in {runs_dir}")
