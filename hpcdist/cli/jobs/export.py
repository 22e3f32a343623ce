"""``hpcdist export``: hand on what runs recorded, to MLflow, to TensorBoard, as CSV or as an archive."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from hpcdist.base.errors import ConfigError, Problem, ServiceError
from hpcdist.cli import show
from hpcdist.cli.jobs import runs
from hpcdist.cli.jobs.compare import runs_named
from hpcdist.cli.messages import note, print_problems
from hpcdist.cli.options import job_options
from hpcdist.runs import accounting
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.waiting import PollTimer, SilenceTimeout, is_local

if TYPE_CHECKING:
    from hpcdist.tracking.export import Item
    from hpcdist.tracking.mlflow import Server

_STDOUT: Final = Path("-")
_file = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command("export")
@job_options(several=True)
@click.option(
    "--mlflow", "uri", metavar="URI",
    help="Send them to this server of MLflow; what it has is not sent again.",
)  # fmt: skip
@click.option(
    "--tensorboard", metavar="DIR", type=click.Path(file_okay=False, path_type=Path),
    help="Write event files of TensorBoard, a folder a run.",
)  # fmt: skip
@click.option(
    "--csv", metavar="FILE", type=_file, help="Write every value as a line of CSV; - is stdout.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", type=_file,
    help="Write a tar archive of models and artifacts, and of what they were made from; - is stdout.",
)  # fmt: skip
@click.option(
    "-f", "--follow", "following", is_flag=True, help="With --mlflow: continue until the jobs have ended."
)
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - click gives one argument an option
    ctx: click.Context, jobs: tuple[str, ...], runs_dir: Path, json: bool, uri: str | None,
    tensorboard: Path | None, csv: Path | None, output: Path | None, following: bool,
) -> None:  # fmt: skip
    """Hand on runs: MLflow, TensorBoard, CSV, or an archive.

    JOB is the name of a run or a pattern such as 'train-*', its directory or its job id. The batch system is
    queried as `status` does.
    """
    if not (uri or tensorboard or csv or output):
        raise click.UsageError("give a destination: --mlflow, --tensorboard, --csv or --output.")
    if following and not uri:
        raise click.UsageError("--follow goes with --mlflow.")
    on_stdout = [csv, output].count(_STDOUT)
    if on_stdout + json > 1:
        raise click.UsageError("use one of --json, --csv - and --output -.")
    if csv and output and os.path.realpath(csv) == os.path.realpath(output):
        raise click.UsageError("--csv and --output are the same file; give each its own.")
    found = [*runs_named(runs_dir, jobs)]
    export = _Export(uri)
    services = runs.services()
    reports = _follow(found, services, export) if following else status(found, services)
    accounting.keep((report.run for report in reports), services)
    results = [*export.to_files(reports, output, csv, tensorboard), *export.to_mlflow(reports)]
    if json:
        show.as_json([result._asdict() for result in results])
    elif not on_stdout:
        for result in results:
            click.echo(result)
    ctx.exit(export.code)


def _follow(found: Sequence[Run], services: Services, export: _Export) -> list[Report]:
    """Send what comes until the jobs have ended; return the last reports, which are not sent yet.

    A server that does not answer meanwhile is tried again.
    """
    pauses, silence = PollTimer(services, local=is_local(found)), SilenceTimeout()
    try:
        while True:
            reports = status(found, services)
            live = [report for report in reports if not report.is_over]
            if not live or silence.has_expired(reports, pauses.slept):
                export.code = 0  # what failed meanwhile is tried again
                return reports
            try:
                for _ in export.to_mlflow(live):
                    pass
            except ServiceError as error:
                export.print(problem._replace(severity="warning") for problem in error.problems)
            pauses.pause([report.run for report in live])
    except KeyboardInterrupt:
        note("the jobs keep running; the same command continues where it was")
        raise


class _Result(NamedTuple):
    """What was written or sent: where, and how much of it was new."""

    run: str
    target: str
    new: dict[str, int]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.new.items() if count)
        return f"{self.run}: {counts or 'nothing new'}, {self.target}"


class _Export:
    """The exit code so far; each problem is printed once."""

    def __init__(self, uri: str | None) -> None:
        self.code = 0
        self._printed: set[Problem] = set()
        self._server: Server | None = None
        if uri:
            from hpcdist.tracking.mlflow import Server

            self._server = Server(uri, os.environ.get("MLFLOW_EXPERIMENT_NAME", ""))

    def print(self, problems: Iterable[Problem]) -> None:
        """Print the problems that were not printed before."""
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._printed]
        self._printed.update(new)
        print_problems(new)

    def to_mlflow(self, reports: Sequence[Report]) -> Iterator[_Result]:
        """Send runs to the server, if there is one; one that it refuses is an error, and the others are sent.

        Raises:
            NoAnswer: if it does not answer.
        """
        from hpcdist.tracking.mlflow_client import NoAnswer

        server = self._server
        if server is None:
            return
        for found in self._read(reports):
            try:
                yield from self._sent(server, found)
            except NoAnswer:
                raise
            except ServiceError as error:
                self.print(error.problems)
                self.code = error.exit_code

    def _sent(self, server: Server, found: Sequence[Item]) -> Iterator[_Result]:
        for item, sent, problems in server.send(found):
            self.print(problems)
            counts = {name: count for name, count in sent._asdict().items() if name != "run_id"}
            yield _Result(item.name, f"run {sent.run_id} of {server.uri}", counts)

    def to_files(
        self, reports: Sequence[Report], archive: Path | None, csv: Path | None, tensorboard: Path | None
    ) -> Iterator[_Result]:
        """Write these files.

        Raises:
            OSError: if one cannot be read or written.
        """
        from hpcdist.tracking import export

        if archive:
            kept = export.save_archive(self._read(reports), archive, self.print)
            yield _Result("archive", str(archive), {"files": kept})
        if csv:
            points = export.save_table(chain.from_iterable(self._read(reports)), csv)
            yield _Result("table", str(csv), {"points": points})
        if tensorboard:
            for found in self._read(reports):
                for item, folder, points in export.write_tensorboard(found, tensorboard):
                    yield _Result(item.name, str(folder), {"points": points})

    def _read(self, reports: Iterable[Report]) -> Iterator[list[Item]]:
        """Yield each run with its elements; one that cannot be read is an error, and the others are read."""
        from hpcdist.tracking import export

        for report in reports:
            try:
                found, problems = export.read(report, time.time())
            except OSError as error:
                self.print([Problem(f"what {report.run.name} recorded cannot be read: {error.strerror}")])
                self.code = ConfigError.exit_code
            else:
                self.print(problems)
                yield found
