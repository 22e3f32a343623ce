"""A verb of one run for each operation of a pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.runs import finding


def each(ctx: click.Context, verb: click.Command, runs_dir: Path, job: str, *single: str) -> bool:
    """Run a verb for each run of a pipeline, below the name of its operation; return whether it is one.

    ``single``: the parameters of the verb that are for one run alone.

    Raises:
        UsageError: if one of those is given.
    """
    if not finding.pipeline_directory(runs_dir, job):
        return False
    from hpcdist.studies.pipeline_runs import find_pipeline  # with what only pipelines need

    stored = find_pipeline(runs_dir, job)
    whole = [*stored.runs().values()] if stored else []
    for name in (name for name in single if whole and ctx.params[name]):
        option = next(max(one.opts, key=len) for one in verb.params if one.name == name)
        raise click.UsageError(f"{option} is for one run: name an operation, {whole[0].record.operation}.")
    for run in whole:
        click.echo(f"==> {run.record.operation} <==")
        path = str(run.directory.path)
        ctx.invoke(
            verb, **(ctx.params | {"jobs": (path,) if isinstance(ctx.params["jobs"], tuple) else path})
        )
    return bool(whole)
