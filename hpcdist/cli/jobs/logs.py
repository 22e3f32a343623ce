"""``hpcdist logs``: print the output of a job."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import click

from hpcdist.cli import show
from hpcdist.cli.jobs import exit_codes, runs
from hpcdist.cli.jobs.runs import explain
from hpcdist.cli.messages import note
from hpcdist.cli.options import job_options
from hpcdist.runs import attempt_files, logs
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.logs import Watch
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services


@click.command("logs")
@job_options(several=False)
@click.option(
    "-f", "--follow", "following", is_flag=True,
    help="Follow the output until the job ends; exit with its exit code.",
)  # fmt: skip
@click.option("--rank", type=click.IntRange(min=0), help="Print only the output of this rank.")
@click.option(
    "--attempt", type=click.IntRange(min=0), metavar="N",
    help="Print only the output of this attempt; the first one is 0.",
)  # fmt: skip
@click.option(
    "-n", "--lines", "count", type=click.IntRange(min=0),
    help="Print only the last lines of each log, this many.",
)  # fmt: skip
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: str, runs_dir: Path, json: bool, following: bool, rank: int | None,
    attempt: int | None, count: int | None,
) -> None:  # fmt: skip
    """Print the output of a job.

    JOB is the name of a run, its directory or its job id; RUN/3 is element 3 of an array.
    Of a pipeline, those of all its operations are printed.
    """
    if runs.each_operation(ctx, command, runs_dir, jobs, "following", "json"):
        return
    if following and (json or count is not None):
        raise click.UsageError("-f cannot be combined with --json or -n.")
    run, element = runs.find_pulled(runs_dir, jobs, whole=not following)
    _check_element(element, following=following)
    only: Filter = iter
    if rank is not None:
        logs.check_rank(run.directory, rank)
        labelled = logs.is_labelled(run.directory)
        only = partial(logs.of_rank, rank=rank, labelled=labelled, live=following)
    if attempt is not None:
        attempt_files.check(run.directory, attempt, element)
    if following:
        report = follow(run, runs.services(), only, partial(logs.follow, attempt=attempt))
        note(runs.sentence(report))
        ctx.exit(exit_codes.of_report(report))
    found = logs.files(run.directory, element)
    written = _written(found, attempt, only, count)
    if json:
        show.as_json([{"file": name, "lines": [*lines]} for name, lines in written.items()])
    elif count != 0:
        if not found:
            note(f"no log in {run.directory.logs}: the job has not started, or its logs were removed")
        elif not _print(written):
            note(f"{_title(run.name, rank, attempt)} wrote no output")


def _check_element(element: str, *, following: bool) -> None:
    """Refuse to follow an element of an array."""
    if element and following:
        raise click.UsageError("-f follows all elements of an array; name the run alone.")


def _title(run: str, rank: int | None, attempt: int | None) -> str:
    of = run if attempt is None else f"attempt {attempt} of {run}"
    return of if rank is None else f"rank {rank} of {of}"


def _written(
    found: Sequence[Path], attempt: int | None, only: Filter, count: int | None
) -> Mapping[str, Iterable[str]]:
    """Return the lines of each file; of a certain attempt most files have none, and are left out."""
    written = {file.name: iter(_lines(file, _both(file, attempt, only), count)) for file in found}
    if attempt is None:
        return written
    return {name: chain([first], lines) for name, lines in written.items() for first in islice(lines, 1)}


def _both(file: Path, attempt: int | None, only: Filter) -> Filter:
    """Return what chooses the lines of this attempt, and of those what ``only`` does."""
    if attempt is None:
        return only
    of_attempt = logs.OfAttempt(file, attempt)
    return lambda lines: only(of_attempt(lines))


def _lines(file: Path, only: Filter, count: int | None) -> Iterable[str]:
    """Return all lines of a file, or the last ``count``, filtered by ``only``."""
    if count is None:
        return only(logs.lines(file))
    return logs.tail(file, count) if only is iter else deque(only(logs.lines(file)), maxlen=count)


def _print(written: Mapping[str, Iterable[str]]) -> bool:
    """Print the lines of these files; return whether there are any."""
    has_lines = False
    for name, lines in written.items():
        if len(written) > 1:
            click.echo(f"==> {name} <==")
        for line in lines:
            click.echo(line)
            has_lines = True
    return has_lines


# --- Following a job: print its output as it is written, until the job ends


Filter = Callable[[Iterable[str]], Iterable[str]]


class LogSource(Protocol):
    """What is followed: yields lines as they are written, until the job is over."""

    def __call__(
        self, directory: RunDirectory, is_over: Callable[[], bool], sleep: Callable[[float], None]
    ) -> Iterator[str]:
        """Yield all lines, and new ones as they come."""
        ...


def follow(
    run: Run, services: Services, only: Filter = iter, source: LogSource = logs.follow, verb: str = "logs"
) -> Report:
    """Print the job's output, or another source of lines, until the job ends; return the report of its end.

    Following stops, too, after a long time without output and without an answer of the batch system.
    """
    try:
        with here.with_tunnels([run], services, note) as pausing:
            watch = Watch(run, pausing, explain, note)
            for line in only(watch.observe(source(run.directory, watch.is_over, watch.sleep))):
                click.echo(line)
                sys.stdout.flush()
    except KeyboardInterrupt:
        note(f"the job keeps running; `hpcdist {verb} {run.name} -f` follows it again")
        raise
    return watch.report or status([run], services)[0]
