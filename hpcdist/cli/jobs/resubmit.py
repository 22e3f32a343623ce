"""A new run of the experiment that a run recorded: the options of `restart` and `copy`, and their work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli.jobs import runs, submit
from hpcdist.cli.options import Verb, job_options, override_options, site_option
from hpcdist.cli.session import planned
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.searches import replan
from hpcdist.searches.replan import NewRun, Pairs

_OPTIONS: Final = (
    site_option,
    *override_options,
    click.option(
        "-u", "--update-code", "update", is_flag=True,
        help="Copy the code again from the folder where the run was submitted.",
    ),
)  # fmt: skip


def resubmit_options(verb: Callable[..., None]) -> Verb:
    """Add JOB and the options that change its experiment to a verb, as ``new``."""

    def with_options(
        *, site: str | None, params: Pairs, settings: Pairs, update: bool, **others: Any
    ) -> None:
        verb(new=NewRun(site, params, settings, update), **others)

    decorated: Verb = job_options(several=False)(with_options)
    decorated.__doc__ = verb.__doc__
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def resubmit(job: str, runs_dir: Path, new: NewRun, *, json: bool) -> None:
    """Submit a new run of the experiment of this run.

    Raises:
        ConfigError: if there is no such run, its experiment cannot be read, or its code is gone.
        PlanError: if the site does not take it any more.
        SchedulerError: as `control.submit`.
    """
    run, services = finding.find(runs_dir, job), runs.services()
    plan = partial(planned, runs_dir=runs_dir, saves=True)
    request, made, services = replan.resubmission(run, runs_dir, new, services, plan)
    result: Callable[[Run], object] = partial(submit.print_result, made=made, runs_dir=runs_dir)
    if json:
        result = partial(submit.print_as_json, made=made)
    submit.submit_run(request, runs_dir, services, result, again=False)
