"""``hpcdist sweep``: the trials of a search."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from hpcdist.base.command import python
from hpcdist.base.errors import ConfigError, HpcdistError, Problem, comma_list
from hpcdist.base.words import quote
from hpcdist.checks.usage import hours, hours_text
from hpcdist.cli import show
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.messages import note, one_line, printable
from hpcdist.cli.options import job_options
from hpcdist.runs import cancelling, elements, finding, job_states, search_progress
from hpcdist.runs.finding import elements_of
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers
from hpcdist.searches import progress, trials
from hpcdist.searches.progress import Look
from hpcdist.searches.trials import Params, TrialState
from hpcdist.tracking import trial_params

if TYPE_CHECKING:
    from rich.progress import Progress

    from hpcdist.loading.planning import ExperimentOptions


# --- The progress of a search, as text and as a bar


def summary(shown: Look) -> str:
    """Return how far a search is, as one line."""
    reached, jobs = shown.progress, len(shown.report.jobs)
    counts = comma_list([f"{count} {state}" for state, count in reached.counts.items()])
    parts = [f"{_number(shown)} trials{f' in {jobs} jobs' if jobs > 1 else ''}: {counts}"]
    if shown.generation:
        parts.append(f"generation {shown.generation.number} of at most {shown.generation.generations}")
    if reached.gpu_hours:
        parts.append(f"{reached.gpu_hours:.2f} GPU-hours so far")
    if reached.left is not None:
        parts.append(f"about {show.clock(reached.left)} left")
    if shown.waits_for:
        parts.append(f"waits for {one_line(comma_list([*shown.waits_for]))}")
    if search_progress.awaiting_next(shown.report):
        parts.append(search_progress.next_step_hint(shown.report.run))
    return "; ".join([*parts, *map(one_line, shown.remarks)])


def _number(shown: Look) -> str:
    count = str(shown.progress.trials)
    return f"{count} of at most {shown.generation.trials}" if shown.generation else count


def as_data(shown: Look) -> dict[str, Any]:
    """Return how far a search is for JSON, without its trials."""
    reached = shown.progress
    return {
        "run": shown.report.run.name,
        "number": reached.trials,
        "most_trials": shown.generation.trials if shown.generation else reached.trials,
        "generation": shown.generation and shown.generation.number,
        "generations": shown.generation and shown.generation.generations,
        "states": dict(reached.counts),
        "gpu_hours": reached.gpu_hours,
        "seconds_left": reached.left,
        "waits_for": [*shown.waits_for],
        "remarks": [*shown.remarks],
        "jobs": [
            {
                "job_id": job.run.record.job_id,
                "trials": elements.text_of(elements_of(job.run).outside(())),
                "state": job.status.state.value,
                "reason": job.status.reason,
            }
            for job in shown.report.jobs
        ],
    }


def follow(run: Run, services: Services, file: TextIO | None = None) -> Look:
    """Show a search until its end: with a bar on a terminal, elsewhere by a line a change of its trials."""
    out = file or sys.stdout
    return _with_bar(run, services, out) if out.isatty() else _by_lines(run, services, out)


def _by_lines(run: Run, services: Services, out: TextIO) -> Look:
    last: list[object] = [None]

    def show(shown: Look) -> None:
        state = (shown.progress.counts, shown.waits_for)
        if state != last[0]:
            click.echo(f"{run.name}: {summary(shown)}", file=out)
            out.flush()
        last[0] = state

    return progress.follow(run, services, show)


def _with_bar(run: Run, services: Services, out: TextIO) -> Look:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    rest = Column(ratio=1, overflow="fold")  # of the line, so that the others keep their width
    text = TextColumn("{task.fields[text]}", markup=False, table_column=rest)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), text)
    with Progress(*columns, console=Console(file=out), expand=True) as bar:
        task = bar.add_task(printable(run.name), total=None, text="")
        return progress.follow(run, services, lambda shown: _update(bar, task, shown))


def _update(bar: Progress, task: Any, shown: Look) -> None:
    bar.update(task, total=shown.progress.trials, completed=shown.ended, text=summary(shown))
    bar.refresh()


# --- ``hpcdist sweep``

_HEADS: Final = ("trial", "state", "exit", "elapsed", "GPU-hours")


@click.group("sweep")
def command() -> None:
    """Show a search and its best trials; stop it, or add trials."""


@command.command("status")
@job_options(several=False)
@click.option(
    "-f", "--follow", "following", is_flag=True,
    help="Show it until its end, with a bar on a terminal; exit with its exit code.",
)  # fmt: skip
@click.pass_context
def show_status(ctx: click.Context, jobs: str, runs_dir: Path, json: bool, following: bool) -> None:
    """Show how far the trials of a search are.

    JOB is the name of a run, its directory or its job id.
    """
    if json and following:
        raise click.UsageError("use one of --json and --follow.")
    run = finding.find(runs_dir, jobs)
    if following:
        ctx.exit(exit_codes.of_report(_follow(run).report))
    shown = progress.look(run, runs.services(), _trials_of(run))
    if json:
        show.as_json(as_data(shown) | {"trials": [_record(trial) for trial in shown.trials]})
        return
    click.echo(f"{run.name}: {summary(shown)}")
    names = trial_params.names(trial.params for trial in shown.trials)
    show.table((*_HEADS, *names), (_row(trial, names) for trial in shown.trials))


def _follow(run: Run) -> Look:
    _trials_of(run)
    try:
        return follow(run, runs.services())
    except KeyboardInterrupt:
        note(f"the search continues; `hpcdist sweep status {run.name} -f` follows it again")
        raise


@command.command("best")
@job_options(several=False)
@click.option(
    "--sort",
    "by",
    metavar="NAME",
    help="The metric; -NAME: highest first, +NAME: lowest. Default: the search's.",
)
@click.option("--top", "most", metavar="N", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many trials.")  # fmt: skip
def show_best(jobs: str, runs_dir: Path, json: bool, by: str | None, most: int) -> None:
    """Show the best trials of a search, by the last value of a metric, with their states.

    JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.cli.jobs.compare import as_data, print_table  # they read files of many forms
    from hpcdist.tracking import comparison

    run = finding.find(runs_dir, jobs)
    known = _trials_of(run)
    plan = run.directory.plan()
    if by is None and plan.order is None:
        raise click.UsageError("The search has no metric. Give one: --sort accuracy, or --sort loss.")
    order = trials.order_of(by, plan.order) if by else str(plan.order)
    found = trials.best(comparison.tracked(run, plan), order, most)
    params = trial_params.names(item.params for item in found)
    looked = progress.look(run, runs.services(), known)
    states = {f"{run.name}/{trial.number}": trial.state for trial in looked.trials}
    if json:
        show.as_json([as_data(item, params) | {"state": states.get(item.name)} for item in found])
    else:
        note(f"{order.removeprefix('-')}: {'highest' if order.startswith('-') else 'lowest'} first")
        heads = ("trial", "state")
        print_table(
            found, params, heads, lambda item: (item.name, states.get(item.name, "unknown")), runs_dir
        )


@command.command("stop")
@job_options(several=False)
def stop(jobs: str, runs_dir: Path, json: bool) -> None:
    """Start no further trial of a search; running ones end by themselves.

    `hpcdist cancel` ends them, too; `hpcdist resume` continues. JOB is the name of a run, its directory or
    its job id.
    """
    run = _search(runs_dir, jobs, "stop")
    [report] = job_states.status([run], runs.services())
    continues = not report.status.state.is_final or search_progress.progress_of(report.run) is not None
    if continues:
        cancelling.request(run.directory, "by `hpcdist sweep stop`")
    else:
        note(f"{run.name} has already ended")
    if json:
        show.as_json(runs.record_of(run))
    elif continues:
        click.echo(f"{run.name}: no further trial starts")


@command.command("advance")
@job_options(several=False)
@click.option("--trials", "more", metavar="N", type=click.IntRange(min=1),
              help="Add so many trials to a random or grid search.")  # fmt: skip
@click.option("--wait", "waiting", is_flag=True, help="Wait for each generation, up to the last one.")
@click.option("--by-job", is_flag=True, help="Let a small job do so whenever a generation has ended.")
def advance(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    jobs: str, runs_dir: Path, json: bool, more: int | None, waiting: bool, by_job: bool
) -> None:
    """Submit further trials of a search: the next generation of hyperband or bo, or N of another one.

    A generation is submitted when the one before has ended; this may be repeated at any time. JOB is the name
    of a run, its directory or its job id.
    """
    run, services = _search(runs_dir, jobs, "advance"), runs.services()
    if more is None:
        _advance(run, services, json=json, waiting=waiting, by_job=by_job)
        return
    if waiting or by_job:
        raise click.UsageError("--trials cannot be combined with --wait or --by-job.")
    from hpcdist.searches import resume  # it plans

    resume.extend(run, more, services, runs.added(run, json=json))


def _advance(run: Run, services: Services, *, json: bool, waiting: bool, by_job: bool) -> None:
    from hpcdist.cli.jobs.wait import wait
    from hpcdist.searches import adaptive, replan  # they plan

    if by_job and not schedulers.get(run.record.scheduler).is_batch_system:
        message = f"{run.name} has no batch system, which would start the small job later"
        raise ConfigError(Problem(message, hint="use --wait"))
    why = ""
    if not by_job or job_states.status([run], services)[0].is_over:
        added = runs.added(run, json=json)
        if waiting:
            run = wait([run], services, added, _raise)[0].run
        run, why = adaptive.advance(run, services, added, only_if_over=waiting)
    if why:
        note(f"the search of {run.name} is over: {why}")
    elif by_job:
        _submit_advancing_job(run, *replan.batch_of(run), services)


def _raise(error: HpcdistError) -> None:
    raise error


# --- The small job that submits the next generation when the one before has ended

_WALLTIME: Final = "00:15:00"
_KEPT: Final = ("account", "qos", "partition", "modules", "spack_env", "exclude_nodes", "exclude_bad_nodes")


def _submit_advancing_job(
    run: Run, options: ExperimentOptions, batch: Mapping[str, object], services: Services
) -> None:
    """Submit the job that starts when all jobs of the run have ended, and that submits itself again.

    ``options`` and ``batch``: of the search, whose site and settings it keeps.
    """
    from hpcdist.base import source
    from hpcdist.cli.jobs.submit import submit_run
    from hpcdist.cli.session import planned
    from hpcdist.loading.planning import ExperimentOptions
    from hpcdist.runs import requests

    live = [job for job in run.jobs if job.record.ended is None]
    ids = ":".join(job.event_id for job in live or run.jobs[-1:])
    start = python(sys.executable, "from hpcdist.cli import program; program()")
    words = [*start, "sweep", "advance", str(run.directory.path), "--by-job"]
    experiment = {
        "name": f"{run.name}-advance",
        "run": {"cmd": " ".join(str(quote(word)) for word in words)},
        "batch": {
            **{name: batch[name] for name in _KEPT if batch.get(name)},
            "walltime": _WALLTIME,
            "dependency": f"afterany:{ids}",
        },
    }
    document = source.parse(json.dumps(experiment), "the job that continues the search")
    own = ExperimentOptions(document.file, site=options.site, site_path=options.site_path)
    runs_dir = run.directory.path.parent
    made = planned(own, document, runs_dir=runs_dir)
    submit_run(requests.of(made, own, services.runner), runs_dir, services, _note_job, again=True)


def _note_job(run: Run) -> None:
    note(f"{run.name} is submitted as job {run.record.job_id}: it continues when the trials have ended")


# --- Shared by these verbs


def _search(runs_dir: Path, name: str, verb: str) -> Run:
    """Return a search whose trials a verb may change here."""
    run = finding.find(runs_dir, name)
    _trials_of(run)
    runs.check_here(run, f"sweep {verb}")
    return run


def _trials_of(run: Run) -> Params:
    """Return the params of the trials of a search."""
    if known := trial_params.whole(run):
        return known
    raise ConfigError(trials.no_trials(run))


def _record(trial: TrialState) -> dict[str, Any]:
    """Return a trial for JSON; null is unknown."""
    attempt = trial.attempt
    return {
        "trial": trial.number,
        "params": dict(trial.params),
        "state": trial.state,
        "exit_code": attempt and attempt.exit_code,
        "elapsed_seconds": attempt and attempt.elapsed,
        "gpu_hours": hours(trial.gpu_seconds),
    }


def _row(trial: TrialState, names: list[str]) -> tuple[str, ...]:
    attempt = trial.attempt
    elapsed = attempt.elapsed if attempt else None
    return (
        str(trial.number),
        trial.state,
        "-" if attempt is None or attempt.exit_code is None else str(attempt.exit_code),
        "-" if elapsed is None else show.clock(elapsed),
        hours_text(trial.gpu_seconds or None) or "-",
        *(show.value(trial.params, name) for name in names),
    )
