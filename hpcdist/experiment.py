"""The experiment: what the user asks for, as one frozen value.

``Experiment`` is the native form (Polyaxon 0.5 to 0.6 plus ``batch``); older generations are brought to it
by ``hpcdist.importers.polyaxon``. Every key that Polyaxon knows is a field here, so that nothing a user
wrote is lost: ``remarks`` tells which of them mean nothing on a batch machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal

from hpcdist import specs
from hpcdist.amounts import Resources, resource_problems
from hpcdist.errors import Path, Problem
from hpcdist.fields import Model
from hpcdist.units import Walltime
from hpcdist.words import RUN_NAME, chained, slug

Scalar = str | int | float | bool


MOST: Final = 1_000_000
"""More replicas, processes or restarts than this are a slip of the finger."""


class ReplicaEntry(Model, frozen=True):
    """The section of one worker or parameter server, or of all that have none of their own."""

    index: int | None = None
    resources: Resources | None = None
    node_selector: dict[str, Scalar] = {}
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}


class Replicas(Model, frozen=True):
    """The replicas beside the master; ``evaluator``, where it is there, is one more.

    ``ps_on``: where parameter servers go; unsaid, to nodes without GPUs where the site has such.
    """

    n_workers: int = 0
    n_ps: int = 0
    default_worker: ReplicaEntry | None = None
    default_ps: ReplicaEntry | None = None
    worker: tuple[ReplicaEntry, ...] = ()
    ps: tuple[ReplicaEntry, ...] = ()
    evaluator: ReplicaEntry | None = None
    ps_on: Literal["cpu_nodes", "worker_nodes"] | None = None


class Persistence(Model, frozen=True):
    """Named volumes; on a batch machine, paths that the site file gives."""

    data: tuple[str, ...] = ()
    outputs: str | None = None


class References(Model, frozen=True):
    """Other runs whose outputs this one reads."""

    jobs: tuple[Scalar, ...] = ()
    experiments: tuple[Scalar, ...] = ()


class Environment(Model, frozen=True):
    """Resources, replicas and variables."""

    resources: Resources | None = None
    replicas: Replicas | None = None
    processes_per_replica: int | None = None
    env_vars: dict[str, Scalar] = {}
    node_selector: dict[str, Scalar] = {}
    max_restarts: int | None = None
    persistence: Persistence | None = None
    outputs: References | None = None
    data_refs: tuple[str, ...] = ()
    artifact_refs: tuple[str, ...] = ()
    secret_refs: tuple[str, ...] = ()
    config_map_refs: tuple[str, ...] = ()
    configmap_refs: tuple[str, ...] = ()
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    cluster_uuid: str | None = None


class Build(Model, frozen=True):
    """The container image and how it is made."""

    image: str | None = None
    dockerfile: str | None = None
    ref: Scalar | None = None
    backend: str | None = None
    context: str | None = None
    build_steps: tuple[str, ...] = ()
    lang_env: str | None = None
    env_vars: tuple[tuple[Scalar, ...], ...] = ()
    commit: str | None = None
    branch: str | None = None
    git: str | None = None
    nocache: bool = False


class Run(Model, frozen=True):
    """The command: one text, or several joined by ``&&``."""

    cmd: str | tuple[str, ...]

    @property
    def command(self) -> str:
        """The text that bash runs, byte for byte as it was written."""
        return self.cmd if isinstance(self.cmd, str) else chained(self.cmd)


class Logging(Model, frozen=True):
    """How much the program should log."""

    level: str | None = None
    formatter: str | None = None


class Mail(Model, frozen=True):
    """Whom the scheduler writes to, and when (``begin``, ``end``, ``fail``, ``all``)."""

    user: str
    events: tuple[str, ...] = ("end", "fail")


class LauncherChoice(Model, frozen=True):
    """A launcher other than the site's, or words for it that nobody foresaw."""

    name: str | None = None
    args: tuple[str, ...] = ()


class Batch(Model, frozen=True):
    """Everything that only a batch system needs; what is absent comes from the site.

    ``container`` false: the image of ``build`` is not used (``--no-container``).
    """

    site: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    walltime: Walltime | None = None
    constraint: str | None = None
    exclusive: bool | None = None
    launcher: LauncherChoice | str | None = None
    dependency: str | tuple[str, ...] = ()
    array: str | int | None = None
    signal: str | None = None
    requeue: bool | None = None
    mail: str | Mail | None = None
    directives: tuple[str, ...] = ()
    gpu_visibility: Literal["task", "node"] | None = None
    container: bool | None = None

    @property
    def launcher_name(self) -> str | None:
        """The launcher that is asked for, if one is."""
        return self.launcher.name if isinstance(self.launcher, LauncherChoice) else self.launcher

    @property
    def launcher_args(self) -> tuple[str, ...]:
        """The words that the launcher is given beside hpcdist's own."""
        return self.launcher.args if isinstance(self.launcher, LauncherChoice) else ()


class Experiment(Model, frozen=True, kw_only=True):
    """One experiment file; ``sections`` are all further top-level keys: those of frameworks, by name."""

    rest = "sections"

    version: int = 1
    kind: Literal["experiment", "job"] = "experiment"
    name: str = "experiment"
    description: str | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None
    framework: str | None = None
    backend: str | None = None
    logging: Logging = Logging()
    params: dict[str, Any] = {}
    inputs: tuple[dict[str, Any], ...] = ()
    outputs: tuple[dict[str, Any], ...] = ()
    environment: Environment = Environment()
    build: Build | None = None
    run: Run
    sections: dict[str, Any] = {}
    batch: Batch = Batch()


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield what no type can say: amounts, worker indexes, names of variables."""
    environment = experiment.environment
    if not RUN_NAME.fullmatch(experiment.name):
        hint = f"use letters, digits, - and _, such as {slug(experiment.name)!r}"
        yield Problem(f"{experiment.name!r} cannot be the name of a job", ("name",), hint)
    yield from _count_problems(environment)
    if environment.resources:
        yield from resource_problems(environment.resources, ("environment", "resources"))
    section = environment.replicas or Replicas()
    for role, count, own, default in (
        ("worker", section.n_workers, section.worker, section.default_worker),
        ("ps", section.n_ps, section.ps, section.default_ps),
    ):
        yield from _replica_problems(role, count, own, default)
    if section.ps_on and not section.n_ps:
        path = ("environment", "replicas", "ps_on")
        yield Problem("there are no parameter servers", path, "write `n_ps`, or remove it")
    if section.evaluator and section.evaluator.resources:
        yield from resource_problems(
            section.evaluator.resources, ("environment", "replicas", "evaluator", "resources")
        )
    yield from _variable_problems(experiment)
    yield from _batch_problems(experiment.batch)
    if experiment.logging.level is not None:
        yield from specs.log_level_problems(experiment.logging.level, ("logging", "level"))
    if not experiment.run.command.strip():
        yield Problem("the command is empty", ("run", "cmd"), "write the command that starts the program")
    yield from specs.length_problems("the command", experiment.run.command, ("run", "cmd"))
    yield from specs.length_problems("all of it", json.dumps(experiment.params, default=str), ("params",))


def _variable_problems(experiment: Experiment) -> Iterator[Problem]:
    for name, value in experiment.environment.env_vars.items():
        yield from specs.variable_problems(name, str(value), ("environment", "env_vars", name))
    for index, pair in enumerate(experiment.build.env_vars if experiment.build else ()):
        path = ("build", "env_vars", index)
        if len(pair) == 2:  # noqa: PLR2004 - a name and its value
            yield from specs.variable_problems(str(pair[0]), str(pair[1]), path)
        else:
            yield Problem(f"{list(pair)} is no variable", path, "write [NAME, value]")


def _batch_problems(batch: Batch) -> Iterator[Problem]:
    waits = (batch.dependency,) if isinstance(batch.dependency, str) else batch.dependency
    yield from specs.dependency_problems(waits, ("batch", "dependency"))
    if batch.array is not None:
        yield from specs.array_problems(str(batch.array), ("batch", "array"))
    if batch.signal is not None:
        yield from specs.signal_problems(batch.signal, ("batch", "signal"))
    if isinstance(batch.mail, Mail):
        yield from specs.mail_problems(batch.mail.events, ("batch", "mail", "events"))


def _count_problems(environment: Environment) -> Iterator[Problem]:
    for name, least in (("processes_per_replica", 1), ("max_restarts", 0)):
        number = getattr(environment, name)
        if number is not None and not least <= number <= MOST:
            hint = f"write a number from {least} to {MOST}"
            yield Problem(f"there cannot be {number} of them", ("environment", name), hint)


def _replica_problems(
    role: str, count: int, own: tuple[ReplicaEntry, ...], default: ReplicaEntry | None
) -> Iterator[Problem]:
    base: Path = ("environment", "replicas")
    if not 0 <= count <= MOST:
        yield Problem(
            f"there cannot be {count} of them", (*base, f"n_{role}s" if role == "worker" else "n_ps")
        )
    seen: set[int] = set()
    for place, entry in enumerate(own):
        path = (*base, role, place)
        if entry.index is None:
            yield Problem(f"this {role} has no index", path, f"write `index: 0` to `index: {count - 1}`")
        elif not 0 <= entry.index < count:
            allowed = f"0 to {count - 1}" if count > 0 else f"none (there are no {role} replicas)"
            yield Problem(f"there is no {role} {entry.index}", (*path, "index"), f"allowed: {allowed}")
        elif entry.index in seen:
            yield Problem(f"{role} {entry.index} stands here for the second time", (*path, "index"))
        seen.add(-1 if entry.index is None else entry.index)
        if entry.resources:
            yield from resource_problems(entry.resources, (*path, "resources"))
    if default and default.resources:
        yield from resource_problems(default.resources, (*base, f"default_{role}", "resources"))
