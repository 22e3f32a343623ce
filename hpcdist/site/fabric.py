"""The fabric: what a machine's network wants said, and under which conditions.

A variable is a plain value or a ``Setting`` with conditions; what works only together is a
``ConditionalGroup``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.words import VARIABLE_NAME

Scalar = str | int | float | bool
When = Literal["always", "single_node", "multi_node"]
Library = Literal["nccl", "rccl", "oneccl"]
Network = Literal["slingshot", "infiniband", "omni-path", "efa", "gpudirect-tcp", "roce", "ethernet"]

_FILE: Final = re.compile(r"(?:[A-Za-z0-9_./+*?-]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+")


class Condition(Model, frozen=True, kw_only=True):
    """When something counts: all that is said here must hold.

    ``when``: by the job's number of nodes. ``library``: the job's nodes have GPUs of that collectives library
    (NVIDIA: nccl, AMD: rccl, Intel: oneccl). ``container``: inside a container, or outside only. ``found``:
    the file is there when the job runs, on its first node; a name without a slash is looked for in
    ``LD_LIBRARY_PATH``; ``$NAME``, ``*`` and ``?`` mean what they mean to a shell.
    """

    when: When = "always"
    library: Library | None = None
    container: bool | None = None
    found: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What it says, condition by condition."""
        inside = (
            None if self.container is None else "in a container" if self.container else "outside containers"
        )
        when = None if self.when == "always" else self.when
        found = self.found and f"if {self.found} is found"
        return tuple(word for word in (when, self.library, inside, found) if word)


class Setting(Condition, frozen=True, kw_only=True):
    """A variable that counts only under a condition.

    ``value``: what it is then. ``otherwise``: what it is else, unsaid not set at all.
    """

    value: Scalar
    otherwise: Scalar | None = None


class ConditionalGroup(Condition, frozen=True, kw_only=True):
    """Variables, directives and words of the launcher that are right only all together.

    ``why``: the reason. ``env``: the variables. ``directives``: lines for the scheduler. ``args``: words of
    the launcher.
    """

    why: str
    env: dict[str, Scalar] = {}
    directives: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class Fabric(Model, frozen=True):
    """What NCCL, RCCL, oneCCL, libfabric, UCX and MPI are told on this machine.

    ``network`` is its kind, where that is known. ``interface`` is the one for TCP between nodes (gloo,
    ps-lite), such as ``ib0``. ``env``: variables of the job, each a value, or keys with a condition.
    ``together``: what is right only all together. ``known``: variables of this file that the lint warns of,
    and why they are so all the same.
    """

    network: Network | None = None
    interface: str | None = None
    env: dict[str, Setting | Scalar] = {}
    together: tuple[ConditionalGroup, ...] = ()
    known: dict[str, str] = {}


class JobFacts(NamedTuple):
    """What conditions are held against; ``library`` is None where it is not known, or where there are two."""

    nodes: int
    library: Library | None = None
    container: bool = False

    def meet(self, condition: Condition) -> bool:
        """Whether all holds that is known before the job runs."""
        several = self.nodes > 1
        return (
            condition.when in ("always", "multi_node" if several else "single_node")
            and condition.library in (None, self.library)
            and condition.container in (None, self.container)
        )


class Settled(NamedTuple):
    """A variable that is to be set, if a file is ``found`` where one is named, else to ``otherwise``."""

    name: str
    value: Scalar
    where: str
    found: str | None = None
    otherwise: Scalar | None = None


def settled(fabric: Fabric, surroundings: JobFacts) -> Iterator[Settled]:
    """Yield the variables of a job; ``where`` is the key of the site file, with the condition it met."""
    for name, entry in fabric.env.items():
        setting = entry if isinstance(entry, Setting) else Setting(value=entry)
        where = f"fabric.env.{name}"
        if surroundings.meet(setting):
            otherwise = setting.otherwise if setting.found else None
            yield Settled(name, setting.value, where + _in_brackets(setting), setting.found, otherwise)
        elif setting.otherwise is not None:
            yield Settled(name, setting.otherwise, f"{where} (not {', '.join(setting.words)})")
    for index, group in groups(fabric, surroundings):
        for name, value in group.env.items():
            yield Settled(
                name, value, f"fabric.together.{index}: {group.why}{_in_brackets(group)}", group.found
            )


def _in_brackets(condition: Condition) -> str:
    return f" ({', '.join(condition.words)})" if condition.words else ""


def groups(fabric: Fabric, surroundings: JobFacts) -> Iterator[tuple[int, ConditionalGroup]]:
    """Yield the groups that count, with their number in the file."""
    return ((index, group) for index, group in enumerate(fabric.together) if surroundings.meet(group))


def problems_of(fabric: Fabric) -> Iterator[Problem]:
    """Yield what no type can say of the section ``fabric``."""
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
                yield Problem(f"{name} stands in `fabric.env` too", (*place, "env", name), "write it once")
        if group.found and (group.directives or group.args):
            message = "directives and launcher words are written before anybody can look for a file"
            yield Problem(message, (*place, "found"), "use another condition")
        yield from _found_problems(group, place)
    for name in sorted(set(fabric.known) - set(names(fabric))):
        yield Problem(f"this file does not set {name}", ("fabric", "known", name), "remove it")


def names(fabric: Fabric) -> list[str]:
    """Return the names of all variables that the file may set."""
    return [*fabric.env, *(name for group in fabric.together for name in group.env)]


def _name_problems(name: str, path: Path) -> Iterator[Problem]:
    if not VARIABLE_NAME.fullmatch(name):
        yield Problem(f"{name!r} is not a valid variable name", path)


def _setting_problems(setting: Setting, path: Path) -> Iterator[Problem]:
    if not setting.words and setting.otherwise is not None:
        yield Problem("it is always the value, so there is no `otherwise`", path, "write `when: multi_node`")
    yield from _found_problems(setting, path)


def _found_problems(condition: Condition, path: Path) -> Iterator[Problem]:
    if condition.found is not None and not _FILE.fullmatch(condition.found):
        message = f"{condition.found!r} is not a file that a script can look for"
        hint = "write a name (libnccl-net.so) or a path, with letters, digits, $NAME, * and ? only"
        yield Problem(message, (*path, "found"), hint)
