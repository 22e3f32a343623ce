"""``hpcdist status``: show the state of jobs, with one query to the batch system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.runs import finding
from hpcdist.runs.rundir import timestamp

if TYPE_CHECKING:
    from hpcdist.runs.rundir import Run
    from hpcdist.runs.states import Report


_RUNNING: Final = "running"


@click.command("status")
@job_options(several=True, required=False)
@click.option("--when", is_flag=True, help="Also ask when jobs that wait are expected to start.")
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, when: bool, json: bool) -> None:
    """Show the state of jobs.

    JOB is the name of a run, its directory or its job id; RUN/3 is trial 3 of a search, or element 3 of an
    array. The name of a pipeline shows the graph of its operations, of which PIPELINE/NAME is one.
    Without JOB, all runs are shown.
    """
    code = 0
    if len(jobs) == 1 and finding.pipeline_directory(runs_dir, jobs[0]):
        from hpcdist.cli.jobs import pipeline  # it draws the graph

        if stored := pipeline.stored_of(runs_dir, jobs):
            pipeline.show_graph(stored, json=json)
            return
    if jobs:
        found, code = runs.find_elements(runs_dir, jobs)
    else:
        every, errors = finding.list_runs(runs_dir)
        found = [(run, "") for run in every]
        runs.warn_unreadable(errors)
    states = [*_states(found, when=when)] if found else []
    runs.show_states(states, runs_dir, json=json)
    if jobs:
        _note_servers(
            [run for (run, _), state in zip(found, states, strict=True) if state["state"] == _RUNNING]
        )
    ctx.exit(code)


def _note_servers(running: Sequence[Run]) -> None:
    """Print how a browser reaches the notebooks and TensorBoards among these runs."""
    from hpcdist.cli.messages import note
    from hpcdist.remotes import here

    for run in running:
        if serves := here.address_of(run):
            note(f"{run.name} serves {serves.url} by `{serves.tunnel}`")


def _states(found: Sequence[tuple[Run, str]], *, when: bool) -> Iterator[dict[str, Any]]:
    """Yield the states of these runs and elements, by one query for all; ``when``: and of those that wait."""
    from hpcdist.runs import starts, states  # with what asks batch systems, only where there is a job

    services = runs.services()
    named = {run.directory: run for run, _ in found}
    reports = dict(zip(named, states.status([*named.values()], services), strict=True))
    expected = starts.expected(reports.values(), services) if when else {}
    for run, element in found:
        report = reports[run.directory]
        state = _of_element(report, element) if element else runs.report_of(report)
        at = expected.get(report.run.record.job_id or "")
        yield state | ({"start": None if at is None else timestamp(at)} if when else {})


def _of_element(report: Report, element: str) -> dict[str, Any]:
    from hpcdist.cli.jobs import element as one  # with what reads trials

    return one.state_of(one.find(report, element, runs.services()))
