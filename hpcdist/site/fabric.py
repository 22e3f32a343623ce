"""The fabric: the settings that a machine's network needs, and their conditions.

A variable is a plain value or a ``Setting`` with conditions; settings that are correct only together are a
``ConditionalGroup``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model
from hpcdist.base.words import VARIABLE_NAME

# --- Conditions: the jobs for which a value of a site file applies


When = Literal["always", "single_node", "multi_node"]
Library = Literal["nccl", "rccl", "oneccl"]

NO_FRAMEWORK: Final = "none"
"""The name that conditions have for jobs without a framework."""


class Condition(Model, frozen=True, kw_only=True):
    """When something applies: all conditions must hold.

    ``when``: the job's number of nodes. ``min_nodes`` and ``max_nodes``: the fewest and most. ``library``:
    the job requests GPUs of that collectives library (NVIDIA: nccl, AMD: rccl, Intel: oneccl).
    ``container``: only inside a container, or only outside. ``frameworks``: the job's framework is one of
    these; ``none``: it has none. ``not_frameworks``: it is none of these. ``node_types``: all of the job's
    nodes are of these types. ``partitions``: all are in these.
    """

    when: When = "always"
    min_nodes: int | None = None
    max_nodes: int | None = None
    library: Library | None = None
    container: bool | None = None
    frameworks: tuple[str, ...] = ()
    not_frameworks: tuple[str, ...] = ()
    node_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions as words, for messages."""
        inside = (
            None if self.container is None else "in a container" if self.container else "outside containers"
        )
        when = None if self.when == "always" else self.when
        least = f"from {self.min_nodes} nodes on" if self.min_nodes else None
        most = f"up to {self.max_nodes} nodes" if self.max_nodes else None
        lists = (
            f"{what} {'/'.join(names)}"
            for what, names in (
                ("framework", self.frameworks),
                ("framework not", self.not_frameworks),
                ("nodes", self.node_types),
                ("partition", self.partitions),
            )
            if names
        )
        return tuple(word for word in (when, least, most, self.library, inside, *lists) if word)


class ConditionalText(Condition, frozen=True, kw_only=True):
    """A line, or an item of a list, that only some jobs have.

    ``value``: the text.
    """

    value: str


class JobFacts(Model, frozen=True):
    """The facts of a job that conditions check.

    ``library`` is that of its nodes' GPUs: None if unknown, or if there are several. ``gpus``: it requests
    some. ``node_types``: those that its nodes may have. ``partitions``: the site's names of theirs.
    """

    nodes: int
    library: Library | None = None
    container: bool = False
    gpus: bool = True
    framework: str | None = None
    node_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def satisfies(self, condition: Condition) -> bool:
        """Whether all conditions hold that can be checked before the job runs."""
        several = self.nodes > 1
        return (
            condition.when in ("always", "multi_node" if several else "single_node")
            and (condition.min_nodes or 1) <= self.nodes <= (condition.max_nodes or self.nodes)
            and condition.library in (None, self.library if self.gpus else None)
            and condition.container in (None, self.container)
            and self._has_framework(condition)
            and _are_all_in(self.node_types, condition.node_types)
            and _are_all_in(self.partitions, condition.partitions)
        )

    def _has_framework(self, condition: Condition) -> bool:
        own = self.framework or NO_FRAMEWORK
        return (not condition.frameworks or own in condition.frameworks) and (
            own not in condition.not_frameworks
        )


def _are_all_in(own: Collection[str], allowed: Collection[str]) -> bool:
    return not allowed or (bool(own) and set(own) <= set(allowed))


def applying(texts: Iterable[str | ConditionalText], job: JobFacts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts that a job has, each with its condition in words."""
    for item in texts:
        if isinstance(item, str):
            yield item, ()
        elif job.satisfies(item):
            yield item.value, (", ".join(item.words),) * bool(item.words)


def text_of(item: str | ConditionalText) -> str:
    """Return the text of an item, with or without conditions."""
    return item if isinstance(item, str) else item.value


# --- The fabric: the settings that a machine's network needs, and their conditions


Scalar = str | int | float | bool
Network = Literal["slingshot", "infiniband", "omni-path", "efa", "gpudirect-tcp", "roce", "ethernet"]

_LINKED: Final = re.compile(r"lib[A-Za-z0-9_+-]+\.so(?:\.[0-9.]+)?")
_FILE: Final = re.compile(r"(?:[A-Za-z0-9_./+*?-]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+")


class FileCondition(Condition, frozen=True, kw_only=True):
    """A condition that may also depend on a file of the nodes.

    ``found``: the file exists on the first node when the job runs; a name without a slash is searched in
    ``LD_LIBRARY_PATH``; ``$NAME``, ``*`` and ``?`` are expanded by the shell. ``links``: a program of the
    command is linked with this library, such as ``libnccl.so``, as that node finds out; one in Python is not,
    nor is one in a container, which the job cannot look into: name its ``frameworks`` there.
    """

    found: str | None = None
    links: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions as words, for messages."""
        found = (f"if {self.found} is found",) if self.found else ()
        return (*super().words, *found, *((f"if the program links {self.links}",) if self.links else ()))

    def may_hold(self, job: JobFacts) -> bool:
        """Whether it holds for such a job, as far as this is known before the job runs."""
        return job.satisfies(self) and not (self.links and job.container)

    @property
    def is_late(self) -> bool:
        """Whether the job itself must check a part of it."""
        return self.found is not None or self.links is not None


class Setting(FileCondition, frozen=True, kw_only=True):
    """A variable that is set only under a condition.

    ``value``: its value then. ``otherwise``: its value if the condition does not hold; without it the
    variable is not set.
    """

    value: Scalar
    otherwise: Scalar | None = None


class ConditionalGroup(FileCondition, frozen=True, kw_only=True):
    """Variables, directives and launcher arguments that are correct only together.

    ``why``: the reason. ``env``: the variables. ``directives``: lines for the scheduler. ``args``: arguments
    of the launcher.
    """

    why: str
    env: dict[str, Scalar] = {}
    directives: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class Fabric(Model, frozen=True):
    """Settings of NCCL, RCCL, oneCCL, libfabric, UCX and MPI on this machine.

    ``network``: its kind, if it is known. ``interface``: the network interface for TCP between nodes (gloo,
    ps-lite), such as ``ib0``. ``env``: variables of the job, each a value, or a value with conditions.
    ``together``: settings that are correct only together. ``known``: variables of this file about which the
    lint warns, and why they are set all the same.
    """

    network: Network | None = None
    interface: str | None = None
    env: dict[str, Setting | Scalar] = {}
    together: tuple[ConditionalGroup, ...] = ()
    known: dict[str, str] = {}


class ResolvedSetting(NamedTuple):
    """A variable of a job; ``value`` is set if ``found`` and ``links`` hold, else ``otherwise``.

    ``key`` is that of the site file, ``why`` its group's reason, ``notes`` the condition that holds or not.
    """

    name: str
    value: Scalar
    key: str
    why: str = ""
    notes: tuple[str, ...] = ()
    found: str | None = None
    otherwise: Scalar | None = None
    links: str | None = None


_OF_GPUS: Final = ("NCCL_", "RCCL_")
"""Beginnings of variables that only libraries for GPUs read."""


def resolve_settings(fabric: Fabric, job: JobFacts) -> Iterator[ResolvedSetting]:
    """Yield the variables of a job: those of NCCL and RCCL for no MPI job without GPUs."""
    without_gpus = job.framework == "mpi" and not job.gpus
    for name, entry in fabric.env.items():
        if without_gpus and name.startswith(_OF_GPUS):
            continue
        setting = entry if isinstance(entry, Setting) else Setting(value=entry)
        key, condition = f"fabric.env.{name}", ", ".join(setting.words)
        if setting.may_hold(job):
            otherwise, notes = setting.otherwise if setting.is_late else None, (condition,) * bool(condition)
            late = (setting.found, otherwise, setting.links)
            yield ResolvedSetting(name, setting.value, key, "", notes, *late)
        elif setting.otherwise is not None:
            yield ResolvedSetting(name, setting.otherwise, key, notes=(f"not {condition}",))
    for index, group in active_groups(fabric, job):
        notes = (", ".join(group.words),) * bool(group.words)
        for name, value in group.env.items():
            late = (group.found, None, group.links)
            yield ResolvedSetting(name, value, f"fabric.together.{index}", group.why, notes, *late)


def active_groups(fabric: Fabric, job: JobFacts) -> Iterator[tuple[int, ConditionalGroup]]:
    """Yield the groups whose conditions hold, with their index in the file."""
    return ((index, group) for index, group in enumerate(fabric.together) if group.may_hold(job))


def problems_of(fabric: Fabric) -> Iterator[Problem]:
    """Yield the problems of the section ``fabric`` that its types do not exclude."""
    for name, entry in fabric.env.items():
        path = ("fabric", "env", name)
        yield from _name_problems(name, path)
        if isinstance(entry, Setting):
            yield from _setting_problems(entry, path)
    for index, group in enumerate(fabric.together):
        place = ("fabric", "together", index)
        for name in group.env:
            yield from _name_problems(name, (*place, "env", name))
            if name in fabric.env:
                yield Problem(f"{name} is also in `fabric.env`", (*place, "env", name), "write it once")
        if group.is_late and (group.directives or group.args):
            message = "directives and launcher arguments are written before the job can check that"
            yield Problem(message, (*place, "found" if group.found else "links"), "use another condition")
        yield from _found_problems(group, place)
    for name in sorted(set(fabric.known) - set(variable_names(fabric))):
        yield Problem(f"this file does not set {name}", ("fabric", "known", name), "remove it")


def variable_names(fabric: Fabric) -> list[str]:
    """Return the names of all variables that the section may set."""
    return [*fabric.env, *(name for group in fabric.together for name in group.env)]


def _name_problems(name: str, path: Path) -> Iterator[Problem]:
    if not VARIABLE_NAME.fullmatch(name):
        yield Problem(f"{name!r} is not a valid variable name", path)


def _setting_problems(setting: Setting, path: Path) -> Iterator[Problem]:
    if not setting.words and setting.otherwise is not None:
        yield Problem(
            "without a condition, `otherwise` is never used", path, "add one, such as `when: multi_node`"
        )
    yield from _found_problems(setting, path)


def _found_problems(condition: FileCondition, path: Path) -> Iterator[Problem]:
    if condition.found is not None and not _FILE.fullmatch(condition.found):
        message = f"{condition.found!r} is not a file name that a script can search"
        hint = "write a name (libnccl-net.so) or a path, with letters, digits, $NAME, * and ? only"
        yield Problem(message, (*path, "found"), hint)
    if condition.links is not None and not _LINKED.fullmatch(condition.links):
        hint = "write a name such as libnccl.so"
        yield Problem(f"{condition.links!r} is not the name of a library", (*path, "links"), hint)
