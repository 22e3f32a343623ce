"""``hpcdist shell``: an allocation with a shell on its first node."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from hpcdist.base.command import Command
from hpcdist.base.errors import Problem, SchedulerError
from hpcdist.base.shell import Shell
from hpcdist.base.words import quote
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import experiment_and_command, runs_dir_option
from hpcdist.cli.session import planned
from hpcdist.loading import planning as plans
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs import job_states, requests, rundir
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services
from hpcdist.runs.submission import create_run
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import ShellRequest, Submission


@click.command("shell")
@experiment_and_command
@runs_dir_option
@click.pass_context
def command(ctx: click.Context, options: ExperimentOptions, runs_dir: Path, command: tuple[str, ...]) -> None:
    """Open a shell on the first node of an allocation.

    The allocation, modules, container and variables are those of the experiment. COMMAND runs in place of a
    shell, and its exit code is that of this verb. In the shell `launch` starts the experiment's own command
    on all nodes, and `launch COMMAND...` another one. The allocation ends with the shell.
    """
    made = plans.with_shell(planned(options, runs_dir=runs_dir), command)
    services = runs.services()
    runs.check(runs_dir)
    request = requests.of(made, options, services.runner)
    request = request._replace(mark=f"shell {json.dumps(command)}")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    wanted = ShellRequest(Submission("", "", ""), made.plan.directives, terminal)
    scheduler = schedulers.get(request.scheduler)
    has_program = scheduler.shell(wanted) is not None
    if not has_program:
        scheduler.login_shell(wanted)  # raises before a run is made
    run, code = create_run(request, runs_dir, services)
    submission = Submission(str(run.directory.script), str(run.directory.path), run.record.token)
    at = rundir.timestamp(services.now())
    run = services.update(run, phase=Phase.SUBMITTING, submitted_at=at, clock=services.host)
    note(f"{run.name} waits for {made.plan.summary} on site {request.site}; Ctrl-C gives up")
    if not has_program:
        script = f"exec bash {quote(run.directory.script)}"
        note(f"{request.scheduler} starts your login shell alone; type there: {script}")
    wanted = wanted._replace(submission=submission)
    start = scheduler.shell(wanted) or scheduler.login_shell(wanted)
    ctx.exit(_attached(run, start.in_folder(code.folder), services))


def _attached(run: Run, command: Command, services: Services) -> int:
    """Run the command to its end; record the job that it made, and return its exit code."""
    code = Shell().attach(command)
    [run], answered = job_states.find_lost_jobs([run], services)
    if run.job:
        services.try_update(run, phase=Phase.SUBMITTED)
        return code
    message = f"{command.argv[0]} ended with exit code {code}, and there was no allocation"
    if answered:
        services.try_update(run, phase=Phase.REFUSED, message=message)
    raise SchedulerError(Problem(message, hint="its own messages are above"))
