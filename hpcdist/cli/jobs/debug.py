"""``hpcdist debug``: the stacks of all ranks of a running job."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from hpcdist.base.errors import ConfigError, Problem, comma_list, warning
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.messages import print_problems, printable
from hpcdist.cli.options import job_options
from hpcdist.runs import elements, finding, inside, job_states
from hpcdist.runs.inside import RankedJob, StackAnswers
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers

MISSING: Final = "install it beside hpcdist or in the job's environment: `pip install py-spy`"
FORBIDDEN: Final = (
    "the site may forbid it (`sysctl kernel.yama.ptrace_scope`); a program that calls "
    "`faulthandler.register(signal.SIGUSR1)` writes its stack into the log when `hpcdist exec` sends it USR1"
)


@click.command("debug")
@click.option("--threads", is_flag=True, help="Show the other threads as well.")
@click.option("--native", is_flag=True, help="Show the frames of C and C++, as of NCCL and MPI.")
@click.option(
    "--timeout", type=click.IntRange(min=1), default=90, show_default=True, help="Seconds to wait for nodes."
)
@job_options(several=False)
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: str, runs_dir: Path, threads: bool, native: bool, timeout: int, json: bool
) -> None:
    """Show where the ranks of a running job are.

    The stack of each rank is printed, equal ones once. JOB is the name of a run, its directory or its job id;
    RUN/3 is element 3 of an array. The exit code is 1 if a node or a rank did not answer, or a stack cannot
    be read.
    """
    run, element = finding.find_element(runs_dir, jobs)
    services = runs.services()
    [report] = job_states.status([run], services)
    job = inside.running(report, element)
    if run.directory.plan().workers and not element:
        hint = f"name one that runs: {run.name}/1; `hpcdist sweep status {run.name}` shows them"
        raise ConfigError(Problem(f"the trials of {run.name} are programs of their own", hint=hint))
    answers = _asked(job, services, timeout, ("--native",) if native else ())
    found = inside.groups(answers, threads=threads or json)
    unknown = [*problems(job, answers)]
    if json:
        _print_as_json(job, answers, found, unknown)
    else:
        _print(job, found)
        print_problems(unknown)
    ctx.exit(1 if unknown else 0)


def _asked(job: RankedJob, services: Services, timeout: int, options: tuple[str, ...]) -> StackAnswers:
    """Ask the nodes, as many at once as the batch system can; return what came within ``timeout`` seconds."""
    runner = services.at([job.run]).runner
    here = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    own = "" if job.run.record.remote else here
    words = ("bash", "-c", inside.text("stacks.sh"), "hpcdist", job.folder, own, *options)
    start = schedulers.get(job.run.record.scheduler).inside
    commands = [command._replace(timeout=timeout) for part in job.parts for command in start(part, words)]
    return inside.read("".join(runner.run(command).stdout for command in commands))


def problems(job: RankedJob, answers: StackAnswers) -> Iterator[Problem]:
    """Yield what is not known: nodes and ranks without an answer, and stacks that could not be read."""
    silent = inside.silent(answers, job.nodes.names)
    if silent:
        hint = f"`hpcdist exec {job.run.name} --node {silent[0]} -- true` shows why"
        yield warning(
            f"no answer from {len(silent)} of {len(job.nodes.names)} nodes: {comma_list(silent)}", hint=hint
        )
    elif missing := inside.missing(answers, job.tasks):
        ranks = elements.text_of(missing)
        yield warning(f"no process of rank{'s' * (len(missing) > 1)} {ranks}: not begun yet, or ended")
    if answers.without:
        yield warning(f"there is no py-spy on {comma_list(sorted(answers.without))}", hint=MISSING)
    failed = [process for process in answers.processes if process.error and not process.main]
    if failed:
        first = failed[0]
        hint = FORBIDDEN if "ermission" in first.error else ""
        count = f"{len(failed)} process{'es' * (len(failed) > 1)}"
        text = f"py-spy cannot read {count}, the first on {first.node}: {first.error.strip()}"
        yield warning(text, hint=hint)


def _print(job: RankedJob, found: list[inside.StackGroup]) -> None:
    count = sum(group.kind == "main" for group in found)
    tasks = "" if job.tasks is None else f"{job.tasks} rank{'s' * (job.tasks != 1)} on "
    nodes = len(job.nodes.names)
    click.echo(f"{job.run.name}: {tasks}{nodes} node{'s' * (nodes != 1)}, {count} stack{'s' * (count != 1)}")
    for group in found:
        click.echo(f"\n{group.title}")
        if group.cut:
            click.echo("  ... (these differ)")
        for frame in group.frames:
            click.echo(f"  {printable(frame)}")


def _print_as_json(
    job: RankedJob, answers: StackAnswers, found: list[inside.StackGroup], unknown: list[Problem]
) -> None:
    show.as_json(
        {
            "name": job.run.name,
            "nodes": job.nodes.names,
            "silent_nodes": inside.silent(answers, job.nodes.names),
            "missing_ranks": inside.missing(answers, job.tasks),
            "stacks": [
                {
                    "kind": group.kind,
                    "ranks": group.ranks,
                    "processes": group.processes,
                    "frames": group.frames,
                    "cut": group.cut,
                }
                for group in found
            ],
            "problems": [str(problem) for problem in unknown],
        }
    )
