"""``hpcdist resume``: resume a run."""

from __future__ import annotations

from pathlib import Path

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options, override_options
from hpcdist.runs import finding


@click.command("resume")
@job_options(several=False)
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N",
    help="Resume on so many nodes, each with as many replicas as before.",
)  # fmt: skip
@override_options[0]
@override_options[1]
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    jobs: str, runs_dir: Path, json: bool, nodes: int | None, params: tuple[tuple[str, str], ...],
    settings: tuple[tuple[str, str], ...],
) -> None:  # fmt: skip
    """Resume a run that ended before its training was finished.

    A further job of the same run finds its checkpoints and outputs; of a search or an array, the trials
    or elements that did not complete run once more; of a pipeline, the operations that did not, and those
    that depend on them. JOB is the name of a run or a pipeline, its directory or its job id.
    """
    from hpcdist.searches import resume  # it plans
    from hpcdist.searches.replan import Changes

    if finding.of_pipeline(runs_dir, jobs):
        from hpcdist.cli.jobs import pipeline

        if nodes or params or settings:
            raise click.UsageError("A pipeline is resumed as it was; `resume PIPELINE/NAME` changes one run.")
        pipeline.resume(runs_dir, jobs, json=json)
        return
    run = finding.find(runs_dir, jobs)
    if run.record.operation and (params or settings):
        from hpcdist.studies.pipeline_submit import with_outputs  # it reads pipelines

        params, settings = with_outputs(run, params, settings)
    changes = Changes(params, settings, nodes)
    resume.resume(run, runs.services(voids=True), runs.added(run, json=json), changes)
