"""Steps beside the command: before it, after it, while it runs; and data that is copied to each node."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.words import join_commands

_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip")
_NO_NAMES: Final = frozenset(("", ".", ".."))


class Step(Model, frozen=True):
    """A step before or after the program.

    ``cmd``: its command, one text, or several joined by ``&&``, which bash runs outside of a container.
    ``per``: ``job`` runs it once, where the script runs; ``node`` once on each node.
    """

    main = "cmd"

    cmd: str | tuple[str, ...]
    per: Literal["job", "node"] = "job"

    @property
    def command(self) -> str:
        """The text that bash runs."""
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


class Beside(Model, frozen=True):
    """A program that runs beside the tasks and is ended with them.

    ``cmd``: its command, as of a step. ``on``: ``last_node``, or ``each_node`` for one on each, which it
    shares with the tasks; ``own_node`` for a further node that has no tasks.
    """

    main = "cmd"

    cmd: str | tuple[str, ...]
    on: Literal["last_node", "each_node", "own_node"] = "last_node"

    @property
    def command(self) -> str:
        """The text that bash runs."""
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


class Stage(Model, frozen=True, rename={"source": "from"}):
    """A file or folder that is copied to each node before the program runs.

    ``from``: its path on the shared file system. ``to``: ``node_local``, the folder ``$HPCDIST_STAGE`` on a
    local disk of each node, which is removed at the end; or the path of a folder there, which stays.
    ``unpack``: it is an archive of tar or zip, which is unpacked there.
    """

    source: str
    to: str = "node_local"
    unpack: bool = False

    @property
    def name(self) -> str:
        """The last part of its path, its name in the folder of each node."""
        return self.source.rstrip("/").rpartition("/")[2]

    @property
    def place(self) -> tuple[str, str]:
        """The folder, and what the user finds there: of an archive, a folder of its name is expected."""
        suffix = next((suffix for suffix in _ARCHIVES if self.unpack and self.name.endswith(suffix)), "")
        return posixpath.normpath(self.to), self.name.removesuffix(suffix)


def problems(stage: tuple[Stage, ...]) -> Iterator[Problem]:
    """Yield what is wrong with data for each node."""
    first: dict[tuple[str, str], str] = {}
    for index, item in enumerate(stage):
        yield from _stage_problems(item, ("stage", index))
        folder, name = item.place
        if item.place in first:
            message = f"{first[item.place]!r} and {item.source!r} would both be {name!r} in {folder}"
            yield Problem(message, ("stage", index), "rename one, or write another `to`")
        first.setdefault(item.place, item.source)


def _stage_problems(item: Stage, path: Path) -> Iterator[Problem]:
    for key, text in (("from", item.source), ("to", item.to)):
        if "$" in text or text.startswith("~") or not text.isprintable() or not text:
            yield Problem(
                f"variables and ~ are not expanded in {text!r}", (*path, key), "write the path itself"
            )
    if item.source and item.name in _NO_NAMES:
        hint = "write a path that ends with its name, such as /proj/data"
        yield Problem(f"{item.source!r} has no name for its copy", (*path, "from"), hint)
    if item.to != "node_local" and not item.to.startswith("/"):
        yield Problem(f"{item.to!r} is not an absolute path", (*path, "to"), "write `node_local`, or /PATH")
    elif ".." in item.to.split("/") or posixpath.normpath(item.to).strip("/") == "":
        hint = "write a folder for this data, such as /scratch/data"
        yield Problem(f"{item.to!r} is no folder for data", (*path, "to"), hint)
    if item.unpack and not item.source.endswith(_ARCHIVES):
        hint = f"remove it, or name an archive: {', '.join(_ARCHIVES)}"
        yield Problem(f"{item.source!r} is not an archive", (*path, "unpack"), hint)
