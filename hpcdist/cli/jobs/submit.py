"""``hpcdist submit``: submit an experiment as a batch job."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.words import quote
from hpcdist.cli import costs, show
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.jobs.logs import follow
from hpcdist.cli.jobs.wait import print_reasons, wait
from hpcdist.cli.messages import note
from hpcdist.cli.options import experiment_options, json_option, on_option, runs_dir_option
from hpcdist.cli.session import pipeline_of, planned, print_absent, print_unparsed, remote_or_here
from hpcdist.importers import job_scripts, polyaxon
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import requests, rundir, submission, this_machine
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput, SubmitRequest, submit_command
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Submission
from hpcdist.script import runtime


@click.command("submit")
@experiment_options
@on_option
@runs_dir_option
@click.option(
    "--follow", "following", is_flag=True,
    help="Follow the job's output until it ends; exit with its exit code.",
)  # fmt: skip
@click.option("--wait", "waiting", is_flag=True, help="Wait for the job to end; exit with its exit code.")
@click.option(
    "--dry-run", is_flag=True, help="Print the files and the command of the submission; do nothing."
)
@click.option(
    "--again", is_flag=True, help="Submit even if an earlier submission of this experiment was interrupted."
)
@click.option("--as-is", is_flag=True, help="Submit a job script of Slurm unchanged, and keep a run of it.")
@json_option
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, options: ExperimentOptions, runs_dir: Path, following: bool, waiting: bool,
    dry_run: bool, again: bool, as_is: bool, json: bool,
) -> None:  # fmt: skip
    """Submit an experiment as a batch job."""
    if following and json:
        raise click.UsageError("--follow cannot be combined with --json; use --wait.")
    document, is_pipeline = pipeline_of(options)
    if document and is_pipeline:
        from hpcdist.cli.jobs import pipeline  # rarely needed

        pipeline.check_options(following=following, waiting=waiting, json=json)
        found = pipeline.submit(options, document, runs_dir, again=again, dry_run=dry_run, json=json)
        ctx.exit(pipeline.wait_for(found) if waiting else 0)
    remote = remote_or_here(options)
    made = planned(options, document, runs_dir=runs_dir, saves=not dry_run, shown=not as_is)
    print_unparsed(made)
    if not (remote or as_is):
        print_absent(made)
    services = runs.services()
    if as_is:
        _check_script(made)
    make = requests.as_it_is if as_is else requests.of
    request = make(made, options, services.runner)
    if dry_run:
        prepare = functools.partial(requests.prepared_code, made, runner=services.runner, dry=True)
        request = request._replace(code=prepare)
        _dry_run(remote.dry(request) if remote else request, runs_dir, json=json)
        return
    if remote:
        request, services = remote.prepare(request, made, runs_dir, services)
    result: Callable[[Run], object] = functools.partial(print_result, made=made, runs_dir=runs_dir)
    if json:
        result = _print_id_as_note if following or waiting else functools.partial(print_as_json, made=made)
    run = submit_run(request, runs_dir, services, result, again=again)
    if not json:
        _note_balance(made, services)
    has_tunnel = remote and not json and show.on_terminal() and polyaxon.is_served(made.plan.identity.command)
    if following or waiting or has_tunnel:
        _follow_or_wait(ctx, run, following=following, json=json)


def _check_script(made: Planned) -> None:
    """Refuse any other file than a job script of Slurm, on a site with Slurm."""
    script = job_scripts.document_of(made.document.text, made.document.file)
    if not script or {made.plan.identity.scheduler, script.data["job_script"]} != {"slurm"}:
        message = "--as-is submits a job script of Slurm, on a site with Slurm"
        raise ConfigError(Problem(message, hint="`--from job_body` keeps the body of any other script"))


def submit_run(
    request: SubmitRequest,
    runs_dir: Path,
    services: Services,
    result: Callable[[Run], object],
    *,
    again: bool,
) -> Run:
    """Submit the job and print its id with ``result``; on Ctrl-C, print that the job may exist.

    Raises:
        ConfigError: if the run cannot be written, or other users could replace its files.
        SchedulerError: as `submission.submit` does.
    """
    with explains_interruption():
        return this_machine.submit(request, runs_dir, services, SubmitOutput(result, note), again=again)


@contextmanager
def explains_interruption() -> Iterator[None]:
    """On Ctrl-C while a job is submitted, print that it may exist."""
    try:
        yield
    except submission.Interrupted as error:
        run = error.run
        state = (
            f"{run.name} is submitted as job {run.job.id}" if run.job else f"the job of {run.name} may exist"
        )
        note(f"{state}; do not submit it again: check with `hpcdist status {run.name}`")
        raise


def print_result(run: Run, made: Planned, runs_dir: Path) -> None:
    """Print what was submitted, and what to do next."""
    is_found = runs_dir == rundir.choose(None, os.environ)
    name = run.name if is_found else quote(run.directory.path)
    jobs = f"job{'s' * bool(run.later)} {runs.ids_of(run)}"
    click.echo(f"{run.name}: {jobs} on site {run.record.site}, {made.plan.summary}")
    there = [("there", f"{run.record.remote}:{run.record.there}")] if run.record.remote else []
    rows = [
        ("directory", str(run.directory.path)),
        *there,
        *costs.rows(made),
        ("next", f"hpcdist logs {name} -f"),
        *_further(name, made),
    ]
    show.table((), rows)
    show.flush()


def _further(name: str, made: Planned) -> list[tuple[str, str]]:
    """Return how an adaptive search goes on, of which only the first generation was submitted."""
    sweep = made.plan.sweep
    if not sweep or not sweep.generations:
        return []
    return [("then", f"hpcdist sweep advance {name} --wait  # submits the next generations")]


def _note_balance(made: Planned, services: Services) -> None:
    """Print what the account has left, now that the job is submitted: whatever happens here, it stays so."""
    for text in costs.ask(made, services.runner).texts(made):
        note(f"balance: {text}")


def print_as_json(run: Run, made: Planned) -> None:
    """Print the record of what was submitted, and what it may cost."""
    show.as_json({**runs.record_of(run), "phase": "submitted", **costs.as_data(made)})
    show.flush()


def _print_id_as_note(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}")


def _follow_or_wait(ctx: click.Context, run: Run, *, following: bool, json: bool) -> None:
    services = runs.services()
    report = follow(run, services) if following else wait([run], services)[0]
    if following and runs.next_generation(report):
        [report] = wait([report.run], services)
    print_reasons([report])
    if json:
        show.as_json(runs.report_of(report))
    else:
        note(runs.sentence(report))
    ctx.exit(exit_codes.of_report(report))


def _dry_run(request: SubmitRequest, runs_dir: Path, *, json: bool) -> None:
    """Print the files that `submit` would write and the command that it would run."""
    runs.check(runs_dir)
    directory = RunDirectory(runs_dir / rundir.next_name(runs_dir, request.name))
    made = request.code(directory)
    files = {**request.texts, **request.files(directory), **made.files}
    submission = Submission(str(directory.script), str(directory.path), "TOKEN", options=request.options)
    command_line = submit_command(schedulers.get(request.scheduler), submission, made.folder)
    if json:
        copied = {"code": made.action, "folder": made.folder} if made.folder else {}
        where = {"directory": str(directory.path), **copied}
        show.as_json({**where, "files": files, "command": command_line.argv})
        return
    own = f"{runtime.FOLDER}/"  # in it are the same files in every run
    sizes = [
        (f"write {directory.path / name}", f"{len(text.encode())} bytes")
        for name, text in files.items()
        if not name.startswith(own)
    ]
    size = sum(len(text.encode()) for name, text in files.items() if name.startswith(own))
    show.table((), [*sizes, (f"write {directory.path / own}", f"{size} bytes")])
    for text in made.notes:
        note(text)
    if made.folder:
        click.echo(f"{made.action}\ncd {quote(made.folder)}")
    click.echo(f"run {command_line}\n\n==> {directory.script} <==")
    click.echo(files["job.sh"], nl=False)
