"""Runs whose job is a shell in this terminal: recorded like others, and found by token while they wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hpcdist.base.command import Command
from hpcdist.base.errors import Problem, SchedulerError
from hpcdist.runs import job_states, rundir
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitRequest, create_run
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import ShellRequest, Submission


class Prepared(NamedTuple):
    """A run that is about to get its allocation, by this command.

    ``by_user``: whether the user starts the script, as the batch system only starts a shell.
    """

    run: Run
    command: Command
    by_user: bool


def prepare(request: SubmitRequest, runs_dir: Path, services: Services, shell: ShellRequest) -> Prepared:
    """Make the run directory; return the command that waits for the allocation.

    Raises:
        SchedulerError: if the batch system has no shells.
    """
    scheduler = schedulers.get(request.scheduler)

    def wait(shell: ShellRequest) -> Command:
        return scheduler.shell(shell) or scheduler.login_shell(shell)

    wait(shell)  # which raises before a run is made
    run, code = create_run(request, runs_dir, services)
    submission = Submission(str(run.directory.script), str(run.directory.path), run.record.token)
    shell = shell._replace(submission=submission)
    run = services.update(
        run, phase=Phase.SUBMITTING, submitted_at=rundir.timestamp(services.now()), clock=services.host
    )
    return Prepared(run, wait(shell).in_folder(code.folder), by_user=scheduler.shell(shell) is None)


def attached(prepared: Prepared, services: Services, attach: Callable[[Command], int]) -> int:
    """Run the command to its end; record the job that it made, and return its exit code.

    Raises:
        SchedulerError: if there was no allocation.
    """
    code = attach(prepared.command)
    [run], answered = job_states.find_lost_jobs([prepared.run], services)
    if run.job:
        services.try_update(run, phase=Phase.SUBMITTED)
        return code
    message = f"{prepared.command.argv[0]} ended with exit code {code}, and there was no allocation"
    if answered:
        services.try_update(run, phase=Phase.REFUSED, message=message)
    raise SchedulerError(Problem(message, hint="its own messages are above"))
