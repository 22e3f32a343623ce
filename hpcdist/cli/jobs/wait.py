"""``hpcdist wait``: wait for jobs to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from hpcdist.base.errors import ExitCode, HpcdistError, WaitTimeout
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.runs import failures, search_progress
from hpcdist.runs.job_states import Report
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitOutput
from hpcdist.runs.waiting import with_time_limit
from hpcdist.schedulers.job import JobState
from hpcdist.searches import progress
from hpcdist.searches.progress import OnStuck


@click.command("wait")
@job_options(several=True)
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS",
    help=f"Stop waiting after this time; exit with {ExitCode.TIMEOUT:d}.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, timeout: float | None
) -> None:
    """Wait for jobs to end, and exit with their exit code.

    Of a search by hyperband or bo, the next generation is submitted when one has ended, up to the last one.
    Of several jobs, it is that of the first one that failed; an operation of a pipeline that was not needed,
    as it waited for a failure that did not come, counts as none.
    """
    (found, code), services = runs.find(runs_dir, jobs), runs.services()
    try:
        reports = wait(found, services if timeout is None else with_time_limit(services, timeout))
    except WaitTimeout:
        note(f"still running after {timeout:g} s")
        ctx.exit(ExitCode.TIMEOUT)
    print_reasons(reports)
    runs.show_states([*map(runs.report_of, reports)], json=json)
    ctx.exit(exit_codes.of_reports(reports) or code)


def wait(
    found: Sequence[Run],
    services: Services,
    output: SubmitOutput | None = None,
    on_stuck: OnStuck | None = None,
) -> list[Report]:
    """Wait for these jobs to end, of searches for their last generations; on Ctrl-C, print that they go on.

    ``output``, ``on_stuck``: as `progress.wait`; by default they print notes and errors.
    """
    output = output or SubmitOutput(_print_generation, note)
    try:
        with here.with_tunnels(found, services, note) as pausing:
            return progress.wait(found, pausing, output, on_stuck or _print_why, _explain)
    except KeyboardInterrupt:
        note(f"not cancelled: {', '.join(run.name for run in found)}")
        raise


def print_reasons(reports: Sequence[Report]) -> None:
    """Print why searches ended before the last of their generations."""
    for report in reports:
        if (found := search_progress.progress_of(report.run)) and found.why:
            note(f"the search of {report.run.name} is over: {found.why}")


def _print_generation(run: Run) -> None:
    last = run.jobs[-1].record
    note(f"{run.name}: a generation has ended; job {last.job_id} runs trials {last.trials}")


def _print_why(error: HpcdistError) -> None:
    print_problems(error.problems)


def _explain(report: Report) -> None:
    """Print why a job does not run, or, from its log, why it failed; how one goes on after its time limit."""
    runs.explain(report)
    run, state = report.run, report.status.state
    if state is JobState.FAILED and (why := failures.failure_reason(run.directory)):
        note(f"{run.name}: {why}")
    elif state is JobState.TIMEOUT and not run.record.operation:
        note(f"{run.name} met its time limit; `hpcdist resume {run.name}` goes on with it")
