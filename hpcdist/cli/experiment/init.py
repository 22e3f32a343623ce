"""``hpcdist init``: write a first experiment from options or prompts; it passes `check`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import click

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Path, Place, Problem, located
from hpcdist.base.units import Walltime
from hpcdist.base.words import RUN_NAME, RUN_NAME_FORM, quote, slug
from hpcdist.cli import completion
from hpcdist.cli.experiment import new_file
from hpcdist.cli.experiment.check import check
from hpcdist.cli.options import site_option, site_path_option
from hpcdist.cli.session import machine_of
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.writing import printable, write
from hpcdist.layers.frameworks import frameworks
from hpcdist.loading import load, preferences
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.planner.pools import Pool, pools
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

# --- The text of a first experiment: YAML with a comment beside every value

NO_FRAMEWORK: Final = "none"
_PARAMETER_SERVER: Final = "mxnet"
"""The framework whose master only schedules, and which needs servers."""


class Size(NamedTuple):
    """The workers besides the master, and the resources of each replica; GPUs come with their CPUs."""

    workers: int
    gpus: int
    cpus: int = 1


class StarterValues(NamedTuple):
    """The values of the file: ``batch`` holds that section, ``offer`` describes the GPUs of a node."""

    name: str
    framework: str
    size: Size
    command: str
    batch: Mapping[str, str]
    offer: str


def choices() -> list[str]:
    """Return the names of all frameworks, and ``none``."""
    return [*frameworks.names(), NO_FRAMEWORK]


def master_works(framework: str) -> bool:
    """Whether the master trains as workers do."""
    return framework != _PARAMETER_SERVER


def nodes_of(site: Site, partition: str | None = None) -> list[Pool]:
    """Return the pools of known node size: of one partition, or of all, the default first."""
    if not schedulers.get(site.scheduler).is_batch_system:  # without limits on nodes
        return []
    found = (pool for pool in pools(site) if pool.node_type and partition in (None, pool.partition))
    return [pool for pool in found if pool.gpus or (pool.cpus and not pool.gpus_unknown)]


def largest(nodes: Iterable[Pool]) -> Pool | None:
    """Return the pool whose nodes have the most GPUs, then the most CPUs."""
    return max(nodes, key=lambda pool: (pool.gpus or 0, pool.cpus or 0), default=None)


def gpus_of(nodes: list[Pool]) -> str:
    """Describe the GPUs of a node: ``4 a100, 4 a40 or 8 h200``; empty if no node has any."""
    kinds = dict.fromkeys(f"{pool.gpus} {pool.gpu_type or ''}".strip() for pool in nodes if pool.gpus)
    *others, last = kinds or [""]
    return f"{', '.join(others)} or {last}" if others else last


def starter_text(values: StarterValues, site: Site) -> str:
    """Return the text of the file."""
    head = f"# Written by `hpcdist init` for site {site.name}: {site.description}."
    comments = _comments(values)
    return f"{printable(head)}\n{write(_data(values), lambda path: comments.get(path, ''))}"


def _data(values: StarterValues) -> dict[str, Any]:
    size, store = values.size, not master_works(values.framework)
    own = {"gpu": {"requests": size.gpus}} if size.gpus else {"cpu": {"requests": size.cpus}}
    server = {"cpu": {"requests": 1}}
    data: dict[str, Any] = {"version": 1, "name": values.name, "run": {"cmd": values.command}}
    data["environment"] = {"resources": server if store else own}
    if values.framework != NO_FRAMEWORK:
        data["framework"] = values.framework
        replicas: dict[str, Any] = {"n_workers": size.workers, "default_worker": {"resources": own}}
        servers = {"n_ps": 1, "default_ps": {"resources": server}} if store else {}
        data["environment"]["replicas"] = replicas | servers
    if values.framework == "pytorch":
        data["pytorch"] = {"launch": "env"}
    return data | {"batch": dict(values.batch)}


def _comments(values: StarterValues) -> dict[Path, str]:
    """Return the comments beside the values, by path."""
    others = (name for name in frameworks.names() if name != values.framework)
    replicas: Path = ("environment", "replicas")
    found: dict[Path, str] = {
        ("version",): "of the file format",
        ("name",): "name of its runs and jobs",
        ("framework",): f"also {', '.join(others)}",
        ("run", "cmd"): "command of every task",
        (
            "pytorch",
            "launch",
        ): "env: one process per GPU; torchrun: one torchrun per node; default: one process per replica",
        (*replicas, "n_workers"): "besides the master",
        (*replicas, "n_ps"): "parameter servers",
        ("batch", "site"): "see `hpcdist sites show`",
        ("batch", "account"): "account to charge",
        ("batch", "partition"): "default: that of the site, or the first that fits",
        ("batch", "qos"): "default: that of the partition",
        ("batch", "walltime"): "time limit of the job",
    }
    has = f"; a node has {values.offer}" if values.offer else ""
    for whose, path in (
        ("of the master", ("environment", "resources")),
        ("of each worker", (*replicas, "default_worker", "resources")),
        ("of each server", (*replicas, "default_ps", "resources")),
    ):
        found |= {(*path, "gpu", "requests"): whose + has, (*path, "cpu", "requests"): whose}
    return found


# --- ``hpcdist init``

_OPTIONS: Final = {
    ("environment", "replicas"): "--workers",
    ("environment", "resources"): "--gpus",
    ("batch", "account"): "--account",
    ("batch", "partition"): "--partition",
    ("batch", "qos"): "--qos",
    ("batch", "walltime"): "--walltime",
}
"""The option that sets each path of the file."""
_USE_WORKERS: Final = "use --workers, and --gpus for the GPUs of each"


def _job_name(text: str) -> str:
    if not RUN_NAME.fullmatch(text):
        hint = f"{RUN_NAME_FORM}, such as {slug(text)!r}"
        raise click.BadParameter(f"{text!r} is not a valid job name; {hint}.")
    return text


def _program(text: str) -> str:
    if not text.strip():
        raise click.BadParameter("The command is empty; give the command that starts the program.")
    return text


def _time(text: str) -> str:
    try:
        return str(Walltime.parse(text))
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


_FRAMEWORK: Final = click.Choice(choices())


class _Count(click.IntRange):
    name = "number"  # in error messages, instead of "integer range"


_COUNT: Final = _Count(min=0)


@click.command("init")
@site_option
@site_path_option
@click.option(
    "--name", type=_job_name, metavar="NAME", help="Name of the job; default: that of FILE, or experiment."
)
@click.option(
    "--framework", type=_FRAMEWORK, metavar="NAME", help=f"One of {', '.join(choices())}; default: horovod.",
)  # fmt: skip
@click.option("--nodes", type=_Count(min=1), metavar="N", help="Number of whole nodes, one replica on each.")
@click.option("--workers", type=_COUNT, metavar="N", help="Replicas besides the master; default: 1.")
@click.option("--gpus", type=_COUNT, metavar="N", help="GPUs of each replica; default: all of a node.")
@click.option(
    "--command", type=_program, metavar="CMD", help="Command of each task; default: python train.py."
)
@click.option("--account", metavar="NAME", help="Account to charge.")
@click.option("--partition", metavar="NAME", help="Partition of the job; default: chosen by fit.")
@click.option("--qos", metavar="NAME", help="Quality of service of the job.")
@click.option("--walltime", type=_time, metavar="TIME", help="Time limit of the job; default: one hour.")
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=completion.files,
    help="Write to this new file; default: NAME.yml; -: print it.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not prompt; use the defaults.")
def command(
    site: str | None, site_path: tuple[str, ...], output: str | None, yes: bool, **given: Any
) -> None:
    """Write a first experiment file for this machine.

    On a terminal, it prompts for values that no option gives. The file passes `hpcdist check`; an existing
    file is never overwritten.
    """
    options = ExperimentOptions("", site, site_path)
    _write_experiment(options, InitOptions(**given), output, interactive=sys.stdin.isatty() and not yes)


class InitOptions(NamedTuple):
    """The values of the options; None where an option is absent."""

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


def _write_experiment(
    options: ExperimentOptions, given: InitOptions, output: str | None, *, interactive: bool
) -> None:
    """Choose the site, prompt, check the experiment and write it."""
    own = preferences.read(os.environ)
    site = machine_of(options.site, options.site_path, own).site
    bare = load.load_experiment(source.parse("run: {cmd: 'true'}", ""))
    interview = _Interview(
        given, site, preferences.with_defaults(bare, own, site).experiment.batch, interactive
    )
    stem = slug(PurePath(output).stem) if output else "experiment"
    name = interview.answer("name", "Name", stem, _job_name)
    file = new_file.chosen(output or f"{name}.yml")
    text = starter_text(interview.answers(name, options.site or site.name), site)
    where = str(file or "-")
    with located(lambda problem: _at_option(problem, where)):
        made = check(options._replace(file=where), source.parse(text, where))
    if made.plan.placement.nodes < (given.nodes or 0):
        message = f"replicas of that size share nodes, so the job has {made.summary}"
        raise _refused(
            "--nodes", message, "request all GPUs of a node, or choose a partition of smaller nodes"
        )
    new_file.write(file, text)
    if file:
        word = quote(file)
        click.echo(f"wrote {file}: {made.summary}\n  hpcdist plan {word}\n  hpcdist submit {word}")


def _at_option(problem: Problem, file: str) -> Problem:
    """Return a problem of the unwritten file with the option that sets the value as its place.

    No option sets a launcher: without MPI, the remedy is another framework.
    """
    if problem.path == ("batch", "launcher") and "MPI" in problem.message:
        hint = "use --framework pytorch, which needs no MPI, or install Open MPI"
        return problem._replace(path=(), hint=hint, place=Place("--framework", 0, 0))
    if problem.place is None or problem.place.file != file:
        return problem
    options = (option for path, option in _OPTIONS.items() if problem.path[: len(path)] == path)
    option = next(options, None)
    return problem._replace(place=Place(option, 0, 0) if option else None)


class _Interview(NamedTuple):
    """The values of the file: from options, the user's config (``own``), prompts or defaults.

    ``interactive``: prompt for what no option gives.
    """

    given: InitOptions
    site: Site
    own: Batch
    interactive: bool

    @property
    def is_batch_system(self) -> bool:
        """Whether the site has a batch system."""
        return schedulers.get(self.site.scheduler).is_batch_system

    def answer(self, key: str, question: str, default: Any, kind: Any) -> Any:
        """Return the value of the option, else of the prompt, else the default."""
        value = getattr(self.given, key)
        if value is not None:
            return value
        return click.prompt(question, default=default, type=kind, err=True) if self.interactive else default

    def answers(self, name: str, site: str) -> StarterValues:
        """Return all values, prompting for those that no option gives."""
        framework = self.answer("framework", "Framework", "horovod", _FRAMEWORK)
        nodes = nodes_of(self.site, self.given.partition or self.own.partition)
        size = self.size(framework, nodes)
        program = self.answer("command", "Command", "python train.py", _program)
        batch = {"site": site, **dict(self.batch())}
        return StarterValues(name, framework, size, program, batch, gpus_of(nodes))

    def size(self, framework: str, nodes: list[Pool]) -> Size:
        """Return the number and the size of the replicas."""
        count = self.given.nodes
        size = self._of_whole_nodes(count, framework, nodes) if count else self._of_replicas(framework, nodes)
        if framework == NO_FRAMEWORK and size.workers:
            raise _refused("--framework", "workers need a framework", "choose one, or request one node")
        return size

    def _of_replicas(self, framework: str, nodes: list[Pool]) -> Size:
        offer = gpus_of(nodes)
        has = f" (a node has {offer})" if offer else ""
        usual = next((pool.gpus for pool in nodes if pool.gpus), 0)
        most = max(pool.gpus or 0 for pool in nodes) if offer else None
        gpus = self.answer("gpus", f"GPUs of each replica{has}", usual, _Count(min=0, max=most))
        if framework == NO_FRAMEWORK:
            return Size(self.given.workers or 0, gpus)
        return Size(self.answer("workers", "Workers besides the master", 1, _COUNT), gpus)

    def _of_whole_nodes(self, count: int, framework: str, nodes: list[Pool]) -> Size:
        if self.given.workers is not None:
            raise click.UsageError("--nodes cannot be combined with --workers.")
        name, has = self.site.name, gpus_of(nodes) or "no"
        kind = largest(pool for pool in nodes if self.given.gpus in (None, pool.gpus or 0))
        if nodes and not kind:
            raise _refused("--nodes", f"a node of site {name} has {has} GPUs", _USE_WORKERS)
        if count > 1 and not self.is_batch_system:
            raise _refused("--nodes", f"site {name} has only one node", _USE_WORKERS)
        workers = count - master_works(framework)
        # On nodes of unknown size, each replica gets a node.
        return Size(workers, kind.gpus or 0, kind.cpus or 1) if kind else Size(workers, self.given.gpus or 0)

    def batch(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of section ``batch``; those that the user's config sets are left out."""
        given, own = self.given, self.own
        account = given.account
        if not own.account and self.site.account.required and self.interactive:
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

    def _account(self, name: str) -> str:
        rule = self.site.account
        if rule.pattern and not re.fullmatch(rule.pattern, name):
            hint = rule.hint or rule.pattern
            raise click.BadParameter(
                f"{name!r} is not a valid account name on site {self.site.name}; {hint}."
            )
        return name


def _refused(option: str, message: str, hint: str) -> ConfigError:
    return ConfigError(Problem(message, hint=hint, place=Place(option, 0, 0)))
