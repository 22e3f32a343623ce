"""``hpcdist wait``: return when jobs are over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from hpcdist.cli.jobs import runs
from hpcdist.cli.options import job_options
from hpcdist.cli.tell import note
from hpcdist.errors import ExitCode
from hpcdist.runs import control, logs
from hpcdist.runs.deadline import Deadline
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState

ANSWER = 10.0
"""How long the batch system has for its first answer, however short the user's patience is."""


@click.command("wait")
@job_options(several=True)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help=f"Wait no longer; exit with {ExitCode.TIMEOUT:d}.",
)
@click.pass_context
def command(
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, timeout: float | None
) -> None:
    """Wait until jobs are over; exit with their exit code.

    Of several jobs, it is that of the first one that failed.
    """
    (found, code), services = runs.find(runs_dir, jobs), runs.services()
    try:
        reports = wait(found, services if timeout is None else patient(services, timeout))
    except TimeIsUp:
        note(f"not over after {timeout:g} s")
        ctx.exit(ExitCode.TIMEOUT)
    runs.show_reports(reports, runs_dir, json=json)
    ctx.exit(next(filter(None, (runs.exit_code(report.status) for report in reports)), code))


def wait(found: Sequence[Run], services: Services) -> list[Report]:
    """Wait until these jobs are over; say on a break that they go on."""
    try:
        return control.wait(found, services, on_change=_explain)
    except KeyboardInterrupt:
        note(f"{', '.join(run.name for run in found)} goes on")
        raise


def _explain(report: Report) -> None:
    """Print why a job does not run, or failed, by its log, which is not shown."""
    runs.explain(report)
    if report.status.state is JobState.FAILED and (why := logs.last_sentence(report.run.directory)):
        note(f"{report.run.name}: {why}")


class TimeIsUp(Exception):  # noqa: N818 - it is no error
    """The user does not want to wait any longer."""


def patient(services: Services, seconds: float) -> Services:
    """Return a services in which one can sleep, and run commands, for so many seconds in all.

    Sleeping on raises ``TimeIsUp``. Commands have ``ANSWER`` seconds at least, so that there is one answer.
    """
    end = services.now() + seconds
    runner = Deadline(services.runner, services.now, max(end, services.now() + ANSWER))
    return services._replace(runner=runner, sleep=_sleep_until(end, services))


def _sleep_until(end: float, services: Services) -> Callable[[float], None]:
    def sleep(pause: float) -> None:
        left = end - services.now()
        if left <= 0:
            raise TimeIsUp
        services.sleep(min(pause, left))

    return sleep
