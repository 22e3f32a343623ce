"""A new run of the experiment that an earlier run recorded: what `restart` and `copy` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from hpcdist.cli.jobs import runs, submit
from hpcdist.cli.options import Verb, job_options, override_options, site_option
from hpcdist.cli.session import planned
from hpcdist.code.prepare import Code
from hpcdist.errors import ConfigError, Problem
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs import copying, finding, job_code, requests
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.sweeps import replanning

Pairs = Sequence[tuple[str, str]]

_OPTIONS: Final = (
    site_option,
    *override_options,
    click.option(
        "-u", "--update-code", "update", is_flag=True,
        help="Take the code anew from the folder where the run was submitted.",
    ),
)  # fmt: skip


class Changes(NamedTuple):
    """What a new run is to have in another way than the earlier one."""

    site: str | None = None
    params: Pairs = ()
    settings: Pairs = ()
    update: bool = False


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
    options = _options(run, changes)
    made = planned(options)
    prepare = partial(job_code.recorded, run, made, runner=services.runner, update=changes.update)
    request = requests.of(made, options, services.runner)
    request = _from(run, request, options, runs_dir, copies=copies)._replace(
        code=partial(_prepare, run, prepare, copies=copies)
    )
    result: Callable[[Run], object] = partial(submit.print_result, made=made, runs_dir=runs_dir)
    if json:
        result = partial(submit.print_as_json, made=made)
    submit.submit_run(request, runs_dir, services, result, again=False)


def _options(run: Run, changes: Changes) -> ExperimentOptions:
    """Return the options of its experiment with these changes; of two with one name the later one counts."""
    options = replanning.recorded(run)
    return options._replace(
        site=changes.site or options.site,
        params=(*dict([*options.params, *changes.params]).items(),),
        settings=(*dict([*options.settings, *changes.settings]).items(),),
    )


def _from(
    run: Run, request: SubmitRequest, options: ExperimentOptions, runs_dir: Path, *, copies: bool
) -> SubmitRequest:
    """Return the request with the run that it comes from, also in its text: by that it is known again."""
    name = run.name if run.directory.path.parent == runs_dir else str(run.directory.path)
    text = f"{replanning.text_of(run).rstrip(chr(10))}\n# {'copy' if copies else 'restart'} of {name}\n"
    return request._replace(
        experiment=requests.with_overrides(text, options.changes),
        restart_of="" if copies else name,
        copy_of=name if copies else "",
    )


def _prepare(
    run: Run, prepare: Callable[[RunDirectory], Code], directory: RunDirectory, *, copies: bool
) -> Code:
    """Put the code into the new run, and the copies with which it begins."""
    found = prepare(directory)
    if copies:
        try:
            copying.copy(run.directory, directory)
        except OSError as error:
            message = f"{error.filename or run.directory.path} cannot be copied: {error.strerror}"
            raise ConfigError(Problem(message, hint="is the disk full, or your quota used up?")) from error
    return found
