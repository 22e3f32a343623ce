"""``hpcdist restart``: a new run of the experiment of a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from hpcdist.cli.jobs import runs, submit
from hpcdist.cli.options import job_options, override_options, site_option
from hpcdist.cli.session import planned
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.searches import replan
from hpcdist.searches.replan import NewRun, Pairs


@click.command("restart")
@site_option
@override_options[0]
@override_options[1]
@click.option(
    "-u", "--update-code", "update", is_flag=True,
    help="Copy the code again from the folder where the run was submitted.",
)  # fmt: skip
@click.option(
    "--copy", "copies", is_flag=True, help="Begin with copies of the run's outputs and checkpoints."
)
@job_options(several=False)
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    jobs: str, runs_dir: Path, json: bool, site: str | None, params: Pairs, settings: Pairs, update: bool,
    copies: bool,
) -> None:  # fmt: skip
    """Submit the experiment of a run again, as a new run.

    The run itself stays as it is. The experiment is the one that the run recorded, with other params where
    given. JOB is the name of a run, its directory or its job id.
    """
    run, services = finding.find(runs_dir, jobs), runs.services()
    new, plan = (
        NewRun(site, params, settings, update, copies),
        partial(planned, runs_dir=runs_dir, saves=True),
    )
    request, made, services = replan.resubmission(run, runs_dir, new, services, plan)
    result: Callable[[Run], object] = partial(submit.print_result, made=made, runs_dir=runs_dir)
    if json:
        result = partial(submit.print_as_json, made=made)
    submit.submit_run(request, runs_dir, services, result, again=False)
