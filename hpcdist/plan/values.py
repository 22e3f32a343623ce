"""What a script is made of, each with its origin: directives, variables, words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from hpcdist.base.errors import Path
from hpcdist.base.fields import Model
from hpcdist.plan.placeholders import Template

# --- Origins: where a value was decided, so that every line of a script can be explained

Kind = Literal[
    "place",
    "key",
    "site",
    "framework",
    "launcher",
    "container",
    "rule",
    "polyaxon",
    "default",
    "task wrapper",
]


class Origin(Model, frozen=True, omit_defaults=True):
    """Where a value was decided; its text is for people alone, decisions are made by its fields.

    ``kind`` ``place``: the user wrote it, ``name`` is where: file and line, or an option. ``key``: ``name``
    is a key of the experiment; the planner finds its place. ``site``: ``key`` is a key of the site file.
    ``rule`` and ``default``: hpcdist itself, as ``name`` says. ``task wrapper``: the word that starts each
    task. ``reason``: why it was decided so. ``notes``: further remarks.
    """

    kind: Kind
    name: str = ""
    key: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = self.name or self.kind
        head = f"{self.kind} {self.name}" if self.kind in _WITH_KIND else named
        return ": ".join(filter(None, (head, self.key, self.reason))) + "".join(
            f" ({note})" for note in self.notes
        )

    def with_note(self, note: str) -> Origin:
        """Return the origin with a further note."""
        return msgspec.structs.replace(self, notes=(*self.notes, note))


def joined(origins: Iterable[Origin], by: str) -> Origin:
    """Return several origins as one, which is only shown."""
    return Origin("place", by.join(map(str, origins)))


Where = Callable[[Path], Origin]
"""What finds the origin of a value of the experiment by its path."""

DEFAULT: Final = Origin("default")
_WITH_KIND: Final = frozenset({"site", "framework", "launcher", "container", "rule"})


# --- What a script is made of, each with its origin


class Directive(Model, frozen=True, kw_only=True):
    """One line for the scheduler: ``--nodes=2``; ``value`` None for a bare flag; ``group`` for het jobs."""

    flag: str
    value: str | None
    origin: Origin
    group: int = 0


class Variable(Model, frozen=True, kw_only=True):
    """A variable and its value; ``shell``: bash expands it, as its ``template`` says. ``role``: tasks, or "".

    ``found`` and ``links``: where this file is not found when the job runs, or no program of the command
    links this library, the value is ``otherwise`` (None: not set).
    """

    name: str
    value: str
    origin: Origin
    shell: bool = False
    template: Template | None = None
    role: str = ""
    found: str | None = None
    links: str | None = None
    otherwise: str | None = None

    @property
    def is_late(self) -> bool:
        """Whether the job itself decides whether it is set."""
        return self.found is not None or self.links is not None

    @classmethod
    def filled(cls, name: str, template: Template, origin: Origin, role: str = "") -> Variable:
        """Return a variable whose value the script fills in."""
        return cls(name=name, value=template.bash, origin=origin, shell=True, template=template, role=role)  # noqa: S604 - starts no process


class Word(Model, frozen=True, kw_only=True):
    """One word of the launch line, or several that belong together and are shell already (``shell``)."""

    text: str
    origin: Origin
    shell: bool = False

    @classmethod
    def raw(cls, text: str, origin: Origin) -> Word:
        """Return text that is shell already."""
        return cls(text=text, origin=origin, shell=True)  # noqa: S604 - starts no process


PROGRAM: Final = '"$commands"'
"""What stands for the user's command."""

TASK_WRAPPER: Final = Word.raw('bash -c "$(declare -f task); task"', Origin("task wrapper"))
