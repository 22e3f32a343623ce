"""``hpcdist exec``: run a command on a node of a running job."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hpcdist.cli import completion
from hpcdist.cli.jobs import runs
from hpcdist.cli.options import runs_dir_option
from hpcdist.runs import finding, inside, job_states
from hpcdist.runs.remotes import here
from hpcdist.schedulers import schedulers


@click.command("exec")
@click.option(
    "--rank", type=click.IntRange(min=0), help="Run it on the node of this rank, with its variables."
)
@click.option(
    "--node", metavar="NODE", help="Run it on this node: its name, or its number from 0 (default: 0)."
)
@runs_dir_option
@click.argument("job", metavar="JOB", shell_complete=completion.runs)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, rank: int | None, node: str | None, runs_dir: Path, job: str, words: tuple[str, ...]
) -> None:
    """Run a command on a node of a running job.

    JOB is the name of a run, its directory or its job id; RUN/3 is element 3 of an array. COMMAND gets the
    variables of the rank, its folder, and in HPCDIST_PIDS its processes. Its exit code is that of this verb.
    """
    if rank is not None and node is not None:
        raise click.UsageError("--rank and --node exclude each other.")
    run, element = finding.find_element(runs_dir, job)
    [report] = job_states.status([run], runs.services())
    found = inside.running(report, element)
    number = inside.node_of(found, rank, node)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    scheduler = schedulers.get(run.record.scheduler)
    [start] = scheduler.inside(found.on(number), found.words(rank, words), terminal=terminal)
    ctx.exit(here.attach(run, start, terminal=terminal))
