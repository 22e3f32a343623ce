"""Origins: where a value was decided, so that every line of a script can be explained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from hpcdist.documents.fields import Model
from hpcdist.errors import Path

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
    is a key of the experiment, of which the planner finds the place. ``site``: ``key`` is that of the site
    file. ``rule`` and ``default``: hpcdist itself, as ``name`` says. ``task wrapper``: the word that starts
    each task. ``reason``: why it was decided so. ``notes``: further remarks.
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
