"""``hpcdist models``: the models that runs recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpcdist.cli import show
from hpcdist.cli.jobs.comparing import as_data, options, print_table, tracked
from hpcdist.tracking import comparison
from hpcdist.tracking.comparison import Tracked


@click.command("models")
@options
def command(jobs: tuple[str, ...], by: str | None, runs_dir: Path, json: bool) -> None:
    """List the models that runs recorded, with their metrics.

    JOB is the name of a run or a pattern such as 'train-*', its directory or its job id; without JOB, those
    of all runs are listed.
    """
    found = [*comparison.models(tracked(runs_dir, jobs))]
    found = comparison.in_order(found, by) if by else found
    if json:
        show.as_json([_model(item) for item in found])
    else:
        print_table(found, [], ("run", "model", "bytes", "sha256"), _kept, runs_dir)


def _kept(item: Tracked) -> tuple[str, ...]:
    [artifact] = item.artifacts
    return item.name, artifact.path, str(artifact.bytes), artifact.sha256[:12] or "-"


def _model(item: Tracked) -> dict[str, Any]:
    [artifact] = item.artifacts
    kept = {"path": artifact.path, "bytes": artifact.bytes, "sha256": artifact.sha256}
    return {**as_data(item, [*item.params]), **kept}
