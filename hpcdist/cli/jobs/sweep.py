"""``hpcdist sweep``: the trials of a search."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from hpcdist.checks.usage import hours, hours_text
from hpcdist.cli import show
from hpcdist.cli.jobs import runs, spans
from hpcdist.cli.messages import note, one_line, printable
from hpcdist.cli.options import job_options
from hpcdist.errors import ConfigError, HpcdistError, Problem, comma_list
from hpcdist.runs import cancelling, elements, finding, standing, states, stopping
from hpcdist.runs.finding import elements_of
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers
from hpcdist.sweeps import looking, trials
from hpcdist.sweeps.looking import Look
from hpcdist.sweeps.trials import Params, Trial
from hpcdist.tracking import trial_params

if TYPE_CHECKING:
    from rich.progress import Progress


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
        parts.append(f"about {spans.clock(reached.left)} left")
    if shown.waits_for:
        parts.append(f"waits for {one_line(comma_list([*shown.waits_for]))}")
    if standing.awaited(shown.report):
        parts.append(standing.go_on(shown.report.run))
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

    return looking.follow(run, services, show)


def _with_bar(run: Run, services: Services, out: TextIO) -> Look:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    rest = Column(ratio=1, overflow="fold")  # of the line, so that the others keep their width
    text = TextColumn("{task.fields[text]}", markup=False, table_column=rest)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), text)
    with Progress(*columns, console=Console(file=out), expand=True) as bar:
        task = bar.add_task(printable(run.name), total=None, text="")
        return looking.follow(run, services, lambda shown: _update(bar, task, shown))


def _update(bar: Progress, task: Any, shown: Look) -> None:
    bar.update(task, total=shown.progress.trials, completed=shown.ended, text=summary(shown))
    bar.refresh()


# --- ``hpcdist sweep``

_HEADS: Final = ("trial", "state", "exit", "elapsed", "GPU-hours")


@click.group("sweep")
def command() -> None:
    """Show a search and its best trials; stop, resume or extend it."""


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
        ctx.exit(runs.exit_code_of(_follow(run).report))
    shown = looking.look(run, runs.services(), _trials_of(run))
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
        note(f"the search goes on; `hpcdist sweep status {run.name} -f` follows it again")
        raise


@command.command("best")
@job_options(several=False)
@click.option("--sort", "by", metavar="NAME", help="The metric; -NAME: highest first. Default: the search's.")
@click.option("--top", "most", metavar="N", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many trials.")  # fmt: skip
def show_best(jobs: str, runs_dir: Path, json: bool, by: str | None, most: int) -> None:
    """Show the best trials of a search, by the last value of a metric, with their states.

    JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.cli.jobs.comparing import as_data, print_table  # they read files of many forms
    from hpcdist.tracking import comparison

    run = finding.find(runs_dir, jobs)
    known = _trials_of(run)
    plan = run.directory.plan()
    order = by or plan.order
    if order is None:
        raise click.UsageError("The search has no metric. Give one: --sort -accuracy, or --sort loss.")
    found = trials.best(comparison.tracked(run, plan), order, most)
    params = trial_params.names(item.params for item in found)
    looked = looking.look(run, runs.services(), known)
    states = {f"{run.name}/{trial.number}": trial.state for trial in looked.trials}
    if json:
        show.as_json([as_data(item, params) | {"state": states.get(item.name)} for item in found])
    else:
        heads = ("trial", "state")
        print_table(
            found, params, heads, lambda item: (item.name, states.get(item.name, "unknown")), runs_dir
        )


@command.command("stop")
@job_options(several=False)
@click.option("--drain", is_flag=True, help="Let running trials end; no further one starts.")
def stop(jobs: str, runs_dir: Path, json: bool, drain: bool) -> None:
    """End a search before its last trial.

    Running trials are cancelled, unless they are to end by themselves. `hpcdist sweep resume` goes on.
    JOB is the name of a run, its directory or its job id.
    """
    run = finding.find(runs_dir, jobs)
    _trials_of(run)
    runs.check_here(run, "sweep stop")
    services = runs.services()
    [report] = states.status([run], services)
    lives = not report.status.state.is_final
    if goes_on := lives or standing.of(report.run) is not None:
        stopping.request(run.directory, "by `hpcdist sweep stop`")
    if lives and not drain:
        cancelling.cancel([run], services)
    if not goes_on:
        note(f"{run.name} has already ended")
    if json:
        show.as_json(runs.record_of(run))
    elif goes_on:
        cancelled = ", and its jobs are cancelled" if lives and not drain else ""
        click.echo(f"{run.name}: no further trial starts{cancelled}")


@command.command("resume")
@job_options(several=False)
def resume(jobs: str, runs_dir: Path, json: bool) -> None:
    """Run the trials that failed, were lost or did not finish once more.

    They keep their outputs. JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.sweeps import continuing  # it plans

    run = finding.find(runs_dir, jobs)
    _trials_of(run)
    runs.check_here(run, "sweep resume")
    continuing.resume(run, runs.services(), runs.added(run, json=json))


@command.command("extend")
@job_options(several=False)
@click.option("--trials", "more", metavar="N", type=click.IntRange(min=1), required=True, help="How many.")
def extend(jobs: str, runs_dir: Path, json: bool, more: int) -> None:
    """Add further trials to a search.

    JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.sweeps import continuing  # it plans

    run = finding.find(runs_dir, jobs)
    _trials_of(run)
    runs.check_here(run, "sweep extend")
    continuing.extend(run, more, runs.services(), runs.added(run, json=json))


@command.command("advance")
@job_options(several=False)
@click.option("--wait", "waiting", is_flag=True, help="Wait for each generation, up to the last one.")
@click.option("--by-job", is_flag=True, help="Let a small job do so whenever a generation has ended.")
def advance(jobs: str, runs_dir: Path, json: bool, waiting: bool, by_job: bool) -> None:
    """Submit the next generation of a search by hyperband or bo, when the one before has ended.

    It may be repeated at any time. JOB is the name of a run, its directory or its job id.
    """
    from hpcdist.cli.jobs.wait import wait
    from hpcdist.sweeps import generations  # it plans

    run, services, why = finding.find(runs_dir, jobs), runs.services(), ""
    _trials_of(run)
    runs.check_here(run, "sweep advance")
    if by_job and not schedulers.get(run.record.scheduler).is_batch_system:
        message = f"{run.name} has no batch system, which would start the small job later"
        raise ConfigError(Problem(message, hint="use --wait"))
    if not by_job or states.status([run], services)[0].is_over:
        added = runs.added(run, json=json)
        if waiting:
            run = wait([run], services, added, _stop)[0].run
        run, why = generations.advance(run, services, added, only_if_over=waiting)
    if why:
        note(f"the search of {run.name} is over: {why}")
    elif by_job:
        from hpcdist.cli.jobs import sweep_job
        from hpcdist.sweeps import replanning

        sweep_job.follow(run, *replanning.batch_of(run), services)


def _stop(error: HpcdistError) -> None:
    raise error


def _trials_of(run: Run) -> Params:
    """Return the params of the trials of a search.

    Raises:
        ConfigError: if the run has none, or a table of them is damaged.
    """
    if known := trial_params.whole(run):
        return known
    raise ConfigError(trials.no_trials(run))


def _record(trial: Trial) -> dict[str, Any]:
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


def _row(trial: Trial, names: list[str]) -> tuple[str, ...]:
    attempt = trial.attempt
    elapsed = attempt.elapsed if attempt else None
    return (
        str(trial.number),
        trial.state,
        "-" if attempt is None or attempt.exit_code is None else str(attempt.exit_code),
        "-" if elapsed is None else spans.clock(elapsed),
        hours_text(trial.gpu_seconds or None) or "-",
        *(show.value(trial.params, name) for name in names),
    )
