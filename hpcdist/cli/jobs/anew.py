"""A new run of the experiment that an earlier run recorded: the options of `restart` and `copy`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hpcdist.cli.jobs import runs, submit
from hpcdist.cli.options import Verb, job_options, override_options, site_option
from hpcdist.cli.session import planned, remote_of
from hpcdist.runs import finding
from hpcdist.runs.rundir import Run
from hpcdist.sweeps import anew
from hpcdist.sweeps.anew import Anew, Changes, Pairs

_OPTIONS: Final = (
    site_option,
    *override_options,
    click.option(
        "-u", "--update-code", "update", is_flag=True,
        help="Take the code anew from the folder where the run was submitted.",
    ),
)  # fmt: skip


def anew_options(verb: Callable[..., None]) -> Verb:
    """Add JOB and the options that change its experiment to a verb, as ``changes``."""

    def with_options(
        *, site: str | None, params: Pairs, settings: Pairs, update: bool, **others: Any
    ) -> None:
        verb(changes=Changes(site, params, settings, update), **others)

    decorated: Verb = job_options(several=False)(with_options)
    decorated.__doc__ = verb.__doc__
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def submit_anew(job: str, runs_dir: Path, changes: Changes, *, copies: bool, json: bool) -> None:
    """Submit a new run of the experiment of this one; with ``copies`` it begins with its outputs.

    Raises:
        ConfigError: if there is no such run, its experiment cannot be read, or its code is gone.
        PlanError: if the site does not take it any more.
        SchedulerError: as `control.submit`.
    """
    run, services = finding.find(runs_dir, job), runs.services()
    options = anew.options(run, changes)._replace(remote=run.record.remote or None)
    made = planned(options, runs_dir=runs_dir, saves=True)
    request = Anew(run, options, made, copies, changes.update).request(runs_dir, services.runner)
    if run.record.remote:
        begins_with = run.record.there if copies else ""
        request, services = remote_of(options).prepare(request, made, runs_dir, services, begins_with)
    result: Callable[[Run], object] = partial(submit.print_result, made=made, runs_dir=runs_dir)
    if json:
        result = partial(submit.print_as_json, made=made)
    submit.submit_run(request, runs_dir, services, result, again=False)
