"""``hpcdist status``: show the state of jobs, with one query to the batch system or, offline, with none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import given, job_options
from hpcdist.runs import event_states, finding
from hpcdist.runs.rundir import Run, timestamp
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState

if TYPE_CHECKING:
    from hpcdist.runs.job_states import Report
    from hpcdist.runs.services import Services


_RUNNING: Final = "running"
_COLUMNS: Final = {"long", "is_costed", "metrics"}


@click.command("status")
@job_options(several=True, required=False)
@click.option("--when", is_flag=True, help="Also ask when jobs that wait are expected to start.")
@click.option("--offline", is_flag=True, help="Do not query the batch system: show what the files record.")
@click.option("-l", "--long", is_flag=True, help="Offline: show GPU-hours, tags and params, too.")
@click.option(
    "--cost", "is_costed", is_flag=True,
    help="Offline: show queue time, elapsed time, GPU-hours, CPU-hours and memory, by the accounting that is "
    "kept.",
)  # fmt: skip
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True,
    help="Offline: show a metric's last value; repeatable.",
)  # fmt: skip
@click.option("--name", metavar="PATTERN", help="Only runs of this name or pattern, such as 'train-*'.")
@click.option(
    "--state", "states", type=click.Choice(event_states.STATES), metavar="STATE", multiple=True,
    help="Only runs in this state, such as running, completed or unknown; repeatable.",
)  # fmt: skip
@click.option(
    "--since", metavar="TIME",
    help="Only runs made since: a span such as 2d, or a day such as 2026-11-01.",
)  # fmt: skip
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only runs with this tag; repeatable.")
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, when: bool, offline: bool, long: bool,
    is_costed: bool, metrics: tuple[str, ...], name: str | None, states: tuple[str, ...], since: str | None,
    tags: tuple[str, ...], json: bool,
) -> None:  # fmt: skip
    """Show the state of jobs.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. The name of a pipeline shows the graph of its operations, of which PIPELINE/NAME is one.
    Without JOB, all runs are shown.

    With --offline the state is the final one that an earlier `status` has found, else what the event log
    shows.
    """
    if offline:
        if when:
            raise click.UsageError("--when asks the batch system: it cannot be combined with --offline.")
        from hpcdist.cli.jobs import index  # with what reads plans and metrics

        every = runs.find(runs_dir, jobs)[0] if jobs else [run for run, _ in _every(runs_dir)]
        chosen = index.selected(every, name, since)
        shown = index.rows(chosen, states, tags, is_whole=bool(long or json or metrics), is_costed=is_costed)
        index.show_rows(shown, metrics, long=long, is_costed=is_costed, json=json)
        _note_none(len(shown), len(every), runs_dir, json=json)
        return
    if columns := given(ctx, _COLUMNS.__contains__):
        raise click.UsageError(f"{columns[0]} shows what the files record: use it with --offline.")
    if len(jobs) == 1 and finding.pipeline_directory(runs_dir, jobs[0]):
        from hpcdist.cli.jobs import pipeline  # it draws the graph

        if stored := pipeline.stored_of(runs_dir, jobs):
            pipeline.show_graph(stored, json=json)
            return
    there, code = runs.find_elements(runs_dir, jobs) if jobs else (_every(runs_dir), 0)
    found = _selected(there, name, since, tags) if name or since or tags else there
    read = zip(found, _states(found, when=when) if found else (), strict=True)
    pairs = [(run, each) for (run, _), each in read if not states or each["state"] in states]
    runs.show_states([each for _, each in pairs], json=json)
    _note_none(len(pairs), len(there), runs_dir, json=json)
    if jobs:
        _note_servers([run for run, each in pairs if each["state"] == _RUNNING])
    ctx.exit(code)


def _every(runs_dir: Path) -> list[tuple[Run, str]]:
    every, errors = finding.list_runs(runs_dir)
    runs.warn_unreadable(errors)
    return [(run, "") for run in every]


def _selected(
    found: Sequence[tuple[Run, str]], name: str | None, since: str | None, tags: Sequence[str]
) -> list[tuple[Run, str]]:
    from hpcdist.cli.jobs import index  # as above

    chosen = index.selected([run for run, _ in found], name, since)
    chosen = [row.run for row in index.rows(chosen, (), tags)] if tags else chosen
    directories = {run.directory for run in chosen}
    return [(run, element) for run, element in found if run.directory in directories]


def _note_none(shown: int, there: int, runs_dir: Path, *, json: bool) -> None:
    if not shown and not json:
        note(f"none of the {there} runs in {runs_dir} matches" if there else f"no runs in {runs_dir}")


def _note_servers(running: Sequence[Run]) -> None:
    """Print how a browser reaches the notebooks and TensorBoards among these runs."""
    from hpcdist.runs.remotes import here

    for run in running:
        if serves := here.address_of(run):
            note(f"{run.name} serves {serves.url} by `{serves.tunnel}`")


def _states(found: Sequence[tuple[Run, str]], *, when: bool) -> Iterator[dict[str, Any]]:
    """Yield the states of these runs and elements, by one query for all; ``when``: and of those that wait."""
    from hpcdist.runs import job_states  # with what asks batch systems, only where there is a job

    services = runs.services()
    named = {run.directory: run for run, _ in found}
    reports = dict(zip(named, job_states.status([*named.values()], services), strict=True))
    expected = _expected_starts(reports.values(), services) if when else {}
    for run, element in found:
        report = reports[run.directory]
        state = _of_element(report, element) if element else runs.report_of(report)
        at = expected.get(report.run.record.job_id or "")
        yield state | ({"start": None if at is None else timestamp(at)} if when else {})


def _expected_starts(reports: Iterable[Report], services: Services) -> Mapping[str, float]:
    """Return times in seconds since 1970 by job id, of the jobs that wait and have an estimate.

    One query to each batch system; one that does not answer has no estimates.
    """
    waiting: dict[tuple[str, str], list[Run]] = {}
    for report in reports:
        if report.status.state is JobState.PENDING and report.run.job:
            where = report.run.record.remote, report.run.record.scheduler
            waiting.setdefault(where, []).append(report.run)
    found: dict[str, float] = {}
    for (_, name), group in waiting.items():
        if starts := schedulers.get(name).starts:
            jobs, runner = [run.job for run in group if run.job], services.at(group).runner
            for command in starts.commands(jobs):
                found.update(starts.read(runner.run(command), jobs))
    return found


def _of_element(report: Report, element: str) -> dict[str, Any]:
    from hpcdist.cli.jobs import element as one  # with what reads trials

    return one.state_of(one.find(report, element, runs.services()))
