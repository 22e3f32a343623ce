"""``hpcdist init``: a first experiment, by questions on a terminal or by flags, which passes `check`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import click

from hpcdist.cli import completion
from hpcdist.cli.experiment import new_file, starter
from hpcdist.cli.experiment.check import checked
from hpcdist.cli.experiment.starter import NO_FRAMEWORK, Answers, Size
from hpcdist.cli.options import site_option, site_path_option
from hpcdist.cli.session import machine_of
from hpcdist.documents import source
from hpcdist.errors import ConfigError, Place, Problem, located
from hpcdist.experiment.model import Batch
from hpcdist.loading import load, preferences
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.planner.pools import Pool
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.units import Walltime
from hpcdist.words import RUN_NAME, RUN_NAME_FORM, quote, slug

_FLAGS: Final = {
    ("environment", "replicas"): "--workers",
    ("environment", "resources"): "--gpus",
    ("batch", "account"): "--account",
    ("batch", "partition"): "--partition",
    ("batch", "qos"): "--qos",
    ("batch", "walltime"): "--walltime",
}
"""What says the value of each path."""
_SMALLER: Final = "write --workers, and --gpus for each of them"


def _job_name(said: str) -> str:
    if not RUN_NAME.fullmatch(said):
        hint = f"{RUN_NAME_FORM}, such as {slug(said)!r}"
        raise click.BadParameter(f"{said!r} cannot be the name of a job; {hint}.")
    return said


def _program(said: str) -> str:
    if not said.strip():
        raise click.BadParameter("The command is empty; write the command that starts the program.")
    return said


def _time(said: str) -> str:
    try:
        return str(Walltime.parse(said))
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


_FRAMEWORK: Final = click.Choice(starter.choices())


class _Count(click.IntRange):
    name = "number"  # in sentences, instead of "integer range"


_COUNT: Final = _Count(min=0)


@click.command("init")
@site_option
@site_path_option
@click.option(
    "--name", type=_job_name, metavar="NAME", help="What the job is called; else as FILE, or experiment."
)
@click.option(
    "--framework", type=_FRAMEWORK, metavar="NAME", help=f"{', '.join(starter.choices())}; else horovod."
)
@click.option("--nodes", type=_Count(min=1), metavar="N", help="So many whole nodes, a replica on each.")
@click.option("--workers", type=_COUNT, metavar="N", help="So many replicas beside the master; else 1.")
@click.option("--gpus", type=_COUNT, metavar="N", help="GPUs of each replica; else all that a node has.")
@click.option("--command", type=_program, metavar="CMD", help="What every task runs; else python train.py.")
@click.option("--account", metavar="NAME", help="What the job is charged to.")
@click.option("--partition", metavar="NAME", help="Where it queues; else where it fits.")
@click.option("--qos", metavar="NAME", help="Its quality of service.")
@click.option("--walltime", type=_time, metavar="TIME", help="How long it may run; else an hour.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completion.files,
    help="Write to this new file, - to print; else NAME.yml.",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: take the default of what no option says.")
def command(
    site: str | None, site_path: tuple[str, ...], output: str | None, yes: bool, **given: Any
) -> None:
    """Write a first experiment for this machine.

    On a terminal it asks for what no option says. What it writes has passed `hpcdist check`; a file that is
    there is not written over.
    """
    options = ExperimentOptions("", site, site_path)
    _begin(options, Given(**given), output, asks=sys.stdin.isatty() and not yes)


class Given(NamedTuple):
    """What the options say; None for what they do not."""

    name: str | None
    framework: str | None
    nodes: int | None
    workers: int | None
    gpus: int | None
    command: str | None
    account: str | None
    partition: str | None
    qos: str | None
    walltime: str | None


def _begin(options: ExperimentOptions, given: Given, output: str | None, *, asks: bool) -> None:
    """Choose the site, ask, check, and write.

    Raises:
        HpcdistError: where the file is there already, or what was answered does not pass `hpcdist check`.
    """
    own = preferences.read(os.environ)
    site = machine_of(options.site, options.site_path, own).site
    bare = load.load_experiment(source.parse("run: {cmd: 'true'}", ""))
    interview = _Interview(given, site, preferences.filled(bare, own, site).experiment.batch, asks)
    stem = slug(PurePath(output).stem) if output else "experiment"
    name = interview.answer("name", "Name", stem, _job_name)
    file = new_file.chosen(output or f"{name}.yml")
    text = starter.text(interview.answers(name, options.site or site.name), site)
    where = str(file or "-")
    with located(lambda problem: _by_flag(problem, where)):
        made = checked(options._replace(file=where), source.parse(text, where))
    if made.plan.placement.nodes < (given.nodes or 0):
        message = f"replicas of that size share nodes: there would be {made.summary}"
        raise _refused("--nodes", message, "ask for all GPUs of a node, or name a partition of smaller nodes")
    new_file.write(file, text)
    if file:
        word = quote(file)
        click.echo(f"wrote {file}: {made.summary}\n  hpcdist plan {word}\n  hpcdist submit {word}")


def _by_flag(problem: Problem, file: str) -> Problem:
    """Return a problem of the file that is not yet there by the flag that says the value.

    None names a launcher: where no MPI is, the framework is to be another.
    """
    if problem.path == ("batch", "launcher") and "MPI" in problem.message:
        hint = "write --framework pytorch, which needs no MPI, or install Open MPI"
        return problem._replace(path=(), hint=hint, place=Place("--framework", 0, 0))
    if problem.place is None or problem.place.file != file:
        return problem
    flags = (flag for path, flag in _FLAGS.items() if problem.path[: len(path)] == path)
    flag = next(flags, None)
    return problem._replace(place=Place(flag, 0, 0) if flag else None)


class _Interview(NamedTuple):
    """What was said before anything is asked: by options, the site, the user's config (``own``).

    ``asks`` false: nothing is asked, and the defaults count.
    """

    given: Given
    site: Site
    own: Batch
    asks: bool

    @property
    def is_batch_system(self) -> bool:
        """Whether the site has one."""
        return schedulers.get(self.site.scheduler).is_batch_system

    def answer(self, key: str, question: str, default: Any, kind: Any) -> Any:
        """Return what the option says, else the answer, else the default."""
        said = getattr(self.given, key)
        if said is not None:
            return said
        return click.prompt(question, default=default, type=kind, err=True) if self.asks else default

    def answers(self, name: str, site: str) -> Answers:
        """Ask what is left."""
        framework = self.answer("framework", "Framework", "horovod", _FRAMEWORK)
        nodes = starter.nodes_of(self.site, self.given.partition or self.own.partition)
        size = self.size(framework, nodes)
        program = self.answer("command", "Command", "python train.py", _program)
        batch = {"site": site, **dict(self.batch())}
        return Answers(name, framework, size, program, batch, starter.gpus_of(nodes))

    def size(self, framework: str, nodes: list[Pool]) -> Size:
        """Return how many replicas there are, and how large."""
        count = self.given.nodes
        size = self._of_whole_nodes(count, framework, nodes) if count else self._of_replicas(framework, nodes)
        if framework == NO_FRAMEWORK and size.workers:
            raise _refused("--framework", "workers need a framework", "name it, or ask for one node")
        return size

    def _of_replicas(self, framework: str, nodes: list[Pool]) -> Size:
        offer = starter.gpus_of(nodes)
        has = f" (a node has {offer})" if offer else ""
        usual = next((pool.gpus for pool in nodes if pool.gpus), 0)
        most = max(pool.gpus or 0 for pool in nodes) if offer else None
        gpus = self.answer("gpus", f"GPUs of each replica{has}", usual, _Count(min=0, max=most))
        if framework == NO_FRAMEWORK:
            return Size(self.given.workers or 0, gpus)
        return Size(self.answer("workers", "Workers beside the master", 1, _COUNT), gpus)

    def _of_whole_nodes(self, count: int, framework: str, nodes: list[Pool]) -> Size:
        if self.given.workers is not None:
            raise click.UsageError("--nodes goes with no --workers.")
        name, has = self.site.name, starter.gpus_of(nodes) or "no"
        kind = starter.largest(pool for pool in nodes if self.given.gpus in (None, pool.gpus or 0))
        if nodes and not kind:
            raise _refused("--nodes", f"a node of site {name} has {has} GPUs", _SMALLER)
        if count > 1 and not self.is_batch_system:
            raise _refused("--nodes", f"site {name} is one node", _SMALLER)
        workers = count - starter.master_works(framework)
        # Of nodes whose size is not known, each replica gets one.
        return Size(workers, kind.gpus or 0, kind.cpus or 1) if kind else Size(workers, self.given.gpus or 0)

    def batch(self) -> Iterator[tuple[str, str]]:
        """Yield what the batch system is told; what the user's config says need not stand in the file."""
        given, own = self.given, self.own
        account = given.account
        if not own.account and self.site.account.required and self.asks:
            account = self.answer("account", "Account", None, self._account)
        walltime = given.walltime
        if not own.walltime and self.is_batch_system:
            usual = str(self.site.walltime or Walltime(3600))
            walltime = self.answer("walltime", "Walltime", usual, _time)
        for key, value in (
            ("account", account),
            ("partition", given.partition),
            ("qos", given.qos),
            ("walltime", walltime),
        ):
            if value is not None:
                yield key, value

    def _account(self, said: str) -> str:
        rule = self.site.account
        if rule.pattern and not re.fullmatch(rule.pattern, said):
            hint = rule.hint or rule.pattern
            raise click.BadParameter(f"site {self.site.name} has no accounts like {said!r}; {hint}.")
        return said


def _refused(flag: str, message: str, hint: str) -> ConfigError:
    return ConfigError(Problem(message, hint=hint, place=Place(flag, 0, 0)))
