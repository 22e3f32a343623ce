"""``hpcdist submit``: an experiment becomes a job."""

from __future__ import annotations

import functools
import json as json_texts
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.follow import follow
from hpcdist.cli.jobs.wait import wait
from hpcdist.cli.options import experiment_options, json_option, runs_dir_option
from hpcdist.cli.session import planned
from hpcdist.cli.tell import note
from hpcdist.errors import ConfigError, Problem
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import control, rundir
from hpcdist.runs.control import Request, Screen
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers import Submission, schedulers
from hpcdist.script.renderer import render, summary
from hpcdist.words import quote


@click.command("submit")
@experiment_options
@runs_dir_option
@click.option("--follow", "following", is_flag=True, help="Print the job's output; exit with its exit code.")
@click.option("--wait", "waiting", is_flag=True, help="Return when the job is over; exit with its exit code.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be written and said to the batch system; do nothing."
)
@click.option("--again", is_flag=True, help="Submit though the same experiment may be on its way already.")
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context,
    options: ExperimentOptions,
    runs_dir: Path,
    following: bool,
    waiting: bool,
    dry_run: bool,
    again: bool,
    json: bool,
) -> None:
    """Submit an experiment as a batch job."""
    if following and json:
        raise click.UsageError("--follow goes with no --json; use --wait.")
    made = planned(options)
    request = request_of(made, options)
    if dry_run:
        _rehearse(request, runs_dir, json=json)
        return
    result: Callable[[Run], object] = functools.partial(_say, made=made, runs_dir=runs_dir)
    if json:
        result = _id_as_note if following or waiting else _as_json
    run = submitted(request, runs_dir, runs.services(), result, again=again)
    if following or waiting:
        _see_it_through(ctx, run, following=following, json=json)


def submitted(
    request: Request, runs_dir: Path, services: Services, result: Callable[[Run], object], *, again: bool
) -> Run:
    """Submit the job, and print its id by ``result``; on a break say that it may exist.

    Raises:
        ConfigError: when the run cannot be written, or others could exchange what is.
        SchedulerError: as `control.submit` does.
    """
    runs.check(runs_dir)
    try:
        return control.submit(request, runs_dir, services, Screen(result, note), again=again)
    except control.Interrupted as error:
        run = error.run
        there = (
            f"{run.name} is submitted as job {run.job.id}" if run.job else f"the job of {run.name} may exist"
        )
        note(f"{there}; do not submit it again: `hpcdist status {run.name}` will tell")
        raise
    except OSError as error:
        said = f"the run cannot be written: {error.filename or runs_dir}: {error.strerror}"
        raise ConfigError(Problem(said, hint="choose another folder with --runs-dir")) from error


def request_of(made: Planned, options: ExperimentOptions) -> Request:
    """Return what is to be submitted of this plan."""
    return Request(
        name=made.plan.identity.name,
        site=made.plan.identity.site,
        scheduler=made.plan.identity.scheduler,
        experiment=_with_changes(made.document.text, options.changes),
        files=lambda directory: _files(made, directory),
    )


def _with_changes(text: str, changes: Sequence[str]) -> str:
    """Return the experiment's text; what the command line changed stands at its end, as a comment of JSON."""
    if not changes:
        return text
    return f"{text.rstrip(chr(10))}\n# submitted with {json_texts.dumps(changes)}\n"


def _files(made: Planned, directory: RunDirectory) -> dict[str, str]:
    """Return the files of a run beside the experiment, by name."""
    plan = msgspec.json.format(msgspec.json.encode(made.plan), indent=2).decode()
    return {"plan.json": f"{plan}\n", "job.sh": render(made.plan, run_dir=str(directory.path))}


def _say(run: Run, made: Planned, runs_dir: Path) -> None:
    is_found = runs_dir == rundir.choose(None, os.environ)
    name = run.name if is_found else quote(run.directory.path)
    click.echo(f"{run.name}: job {run.record.job_id} on site {run.record.site}, {summary(made.plan)}")
    show.table((), [("directory", str(run.directory.path)), ("next", f"hpcdist logs {name} -f")])
    show.flush()


def _as_json(run: Run) -> None:
    show.as_json({**runs.record_of(run), "phase": "submitted"})
    show.flush()


def _id_as_note(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}")


def _see_it_through(ctx: click.Context, run: Run, *, following: bool, json: bool) -> None:
    services = runs.services()
    report: Report = follow(run, services) if following else wait([run], services)[0]
    if json:
        show.as_json(runs.report_of(report))
    else:
        note(runs.sentence(report))
    ctx.exit(runs.exit_code(report.status))


def _rehearse(request: Request, runs_dir: Path, *, json: bool) -> None:
    """Print what submitting would write and run."""
    runs.check(runs_dir)
    directory = RunDirectory(runs_dir / rundir.next_name(runs_dir, request.name))
    files = {"experiment.yml": request.experiment, **request.files(directory)}
    submission = Submission(str(directory.script), str(directory.path), "TOKEN")
    said = schedulers.get(request.scheduler).submit(submission)
    if json:
        show.as_json({"directory": str(directory.path), "files": files, "command": said.argv})
        return
    sizes = [
        (f"write {directory.path / name}", f"{len(text.encode())} bytes") for name, text in files.items()
    ]
    show.table((), sizes)
    click.echo(f"run {said}\n\n==> {directory.script} <==")
    click.echo(files["job.sh"], nl=False)
