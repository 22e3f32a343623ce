"""``hpcdist shell``: an allocation with a shell on its first node."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from hpcdist.base.shell import Shell
from hpcdist.base.words import quote
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import note
from hpcdist.cli.options import experiment_and_command, runs_dir_option
from hpcdist.cli.session import planned
from hpcdist.loading import planning as plans
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs import requests, shells
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
    prepared = shells.prepare(request, runs_dir, services, wanted)
    note(f"{prepared.run.name} waits for {made.plan.summary} on site {request.site}; Ctrl-C gives up")
    if prepared.by_user:
        script = f"exec bash {quote(prepared.run.directory.script)}"
        note(f"{request.scheduler} starts your login shell alone; type there: {script}")
    ctx.exit(shells.attached(prepared, services, Shell().attach))
