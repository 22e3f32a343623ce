"""Reads a foreign file completely: every key that was not read is reported at the end.

An importer reads values (``get``, ``move``), sets them in the native form (``put``), reports others as
without effect on a batch machine (``ignore``) or as not convertible (``refuse``). ``finish`` reports the
rest.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from hpcdist.base.errors import ConfigError, Key, Path, Place, Problem, dotted
from hpcdist.base.tree import Document, Map, Seq, texts_in, value_at
from hpcdist.importers import Imported

VARIABLE: Final = re.compile(r"(?<!\$)\$(?:\{([A-Za-z_]\w*)(?::?-[^{}]*)?\}|([A-Za-z_]\w*))")
"""A variable of a shell, also one with a default."""


class Reading:
    """One foreign file; ``data`` stays as it is, ``native`` grows."""

    def __init__(self, data: Map) -> None:
        self.data = data
        self.native = Map(place=data.place)
        self.remarks: list[Problem] = []
        self.origins: dict[Path, Path] = {}
        self._done: set[Path] = set()

    # --- the foreign file

    def peek(self, *path: str | int) -> Any:
        """Return a value without marking it as read; None if it is missing."""
        return value_at(self.data, path)

    def get(self, *path: str | int) -> Any:
        """Return a value, and mark it and all below it as read; None if it is missing."""
        self._done.add(path)
        return self.peek(*path)

    def text(self, *path: str | int) -> str | None:
        """Return a scalar in its source spelling, and mark it as read; None if it is missing."""
        value, above = self.get(*path), self.peek(*path[:-1])
        if value is None:
            return None
        return str(getattr(above, "texts", {}).get(path[-1], value))

    def word(self, *path: str | int) -> str | None:
        """Return a scalar as `text`; None, with an error, for a section or a list."""
        if isinstance(value := self.peek(*path), (dict, list)):
            kind = "a list" if isinstance(value, list) else "keys and values"
            self.refuse(*path, why=f"expected text, got {kind}")
            return None
        return self.text(*path)

    def whole(self, *path: str | int, least: int = 0) -> int | None:
        """Return a whole number; None if it is missing; None, with an error, for anything else."""
        value = self.get(*path)
        if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
            value = int(value)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
            return value
        hint = "" if least else "write one such as 2"
        why = f"expected a whole number{f' of {least} or more' if least else ''}, got {value!r}"
        self.refuse(*path, why=why, hint=self.value_hint(value, hint))
        return None

    def value_hint(self, value: object, hint: str) -> str:
        """Return the hint for an invalid value: `-p` for shell variables, else ``hint``.

        They are filled in by `hpcdist.loading`.
        """
        names = dict.fromkeys(braced or plain for braced, plain in VARIABLE.findall(str(value)))
        return f"give it: `{' '.join(f'-p {name}=VALUE' for name in names)}`" if names else hint

    def section(self, *path: str | int) -> bool:
        """Return whether there is a section; refuse anything else."""
        value = self.peek(*path)
        if value is None or (isinstance(value, (Mapping, list)) and not value):
            self.get(*path)
            return False
        if not isinstance(value, Mapping):
            self.refuse(*path, why="expected keys and values", hint="write `key: value`")
            return False
        return True

    def keys(self, *path: str | int) -> list[str]:
        """Return the keys of a section, none if it is not a section."""
        node = self.peek(*path)
        return list(node) if isinstance(node, Mapping) else []

    def items(self, *path: str | int) -> Iterator[tuple[int, Any]]:
        """Yield the items of a list with their numbers, none if it is not a list."""
        node = self.peek(*path)
        return iter(enumerate(node)) if isinstance(node, list) else iter(())

    def place(self, *path: str | int) -> Place | None:
        """Return where a value was written, or the nearest thing above it."""
        return Document(self.data, "").place(path)

    def folder(self, *path: str | int) -> str:
        """Return the folder of the file that has a value, of the main file for a value of ``--set``."""
        place = self.place(*path)
        file = (place if place and place.line else self.data.place or Place("", 0, 0)).file
        return "" if file.startswith("<") else posixpath.dirname(file)

    # --- the native form

    def put(self, target: str, value: object, *source: str | int) -> None:
        """Set the native key ``target`` (dotted) to a value from the foreign key ``source``."""
        *above, last = target.split(".")
        node = self.native
        for step in above:
            if not isinstance(node.get(step), Map):
                node.put(step, Map(place=self.place(*source)), self.place(*source))
            node = node[step]
        node.put(last, placed(value, self.place(*source)), self.place(*source))
        self.origins[tuple(target.split("."))] = source

    def move(self, target: str, *source: str | int) -> None:
        """Set a native key to a value unchanged, if there is one."""
        value = self.get(*source)
        if value is not None:
            self.put(target, value, *source)

    # --- what cannot be moved

    def ignore(self, *path: str | int, why: str) -> None:
        """Warn that a key, if it is set, has no effect on a batch machine, and why."""
        if self._is_there(path):
            self._done.add(path)
            self._remark(path, f"{path[-1]} has no effect on a batch machine: {why}", "", "warning")

    def refuse(self, *path: str | int, why: str, hint: str = "") -> None:
        """Report an error for a value that cannot be converted, with what to write instead."""
        self._done.add(path)
        self._remark(path, why, hint, "error")

    def warn(self, *path: str | int, why: str, hint: str = "") -> None:
        """Add a warning about a value that was read."""
        self._remark(path, why, hint, "warning")

    def fail(self, *path: str | int, why: str, hint: str = "") -> NoReturn:
        """Refuse the whole file, with one error about a key."""
        raise ConfigError(Problem(why, path, hint, place=self.place(*path)))

    def ignore_all(self, reasons: Mapping[str, str], *above: str | int) -> None:
        """Ignore each key of a table that is set; a dotted key of the table may have ``*`` for any step."""
        for pattern, why in reasons.items():
            for path in list(self._matching(pattern.split("."), above)):
                self.ignore(*path, why=why)

    def finish(self) -> Imported:
        """Return the native form, with an error for each key that was neither read nor reported."""
        for path in self._unread_keys(self.data, ()):
            why, hint = f"unknown key {dotted(path)!r}", "remove it"
            if section := self._empty_before(path):
                why = f"the lines under `{section}:` have lost their indentation"
                hint = f"indent `{path[-1]}` by two spaces, and what belongs to it by two more"
            self._remark(_key(path), why, hint, "error")
        return Imported(self.native, tuple(self.remarks), dict(self.origins))

    def _empty_before(self, path: Path) -> str:
        """Return the key before an unknown one that has no value, "" if it has one."""
        above = self.peek(*path[:-1])
        keys = list(above) if isinstance(above, Map) else []
        at = keys.index(str(path[-1])) if keys else 0
        return keys[at - 1] if at and above[keys[at - 1]] is None else ""

    def _remark(self, path: Path, message: str, hint: str, severity: Any) -> None:
        self.remarks.append(Problem(message, path, hint, severity, self.place(*path)))

    def _is_there(self, path: Path) -> bool:
        above = self.peek(*path[:-1])
        if isinstance(above, Mapping):
            return path[-1] in above
        return isinstance(above, list) and isinstance(path[-1], int) and path[-1] < len(above)

    def _matching(self, steps: Sequence[str], above: Path) -> Iterator[Path]:
        if not steps:
            yield above
            return
        for name in steps_of(self.peek(*above)):
            if steps[0] in ("*", str(name)):
                yield from self._matching(steps[1:], (*above, name))

    def _unread_keys(self, node: object, path: Path) -> Iterator[Path]:
        """Yield the topmost keys below which nothing was read."""
        if path in self._done:
            return
        inside = any(done[: len(path)] == path for done in self._done)
        below = steps_of(node)
        if path and not (inside and below):
            yield path
            return
        for step in below:
            yield from self._unread_keys(node[step], (*path, step))  # type: ignore[index]


def steps_of(node: object) -> list[str | int]:
    """Return the keys of a section, or the places of a list; an empty list for a value."""
    if isinstance(node, list):
        return list(range(len(node)))
    return list(node) if isinstance(node, Mapping) else []


def _key(path: Path) -> Path:
    """Return the path of a key itself; the path of a list item is unchanged."""
    last = path[-1]
    return (*path[:-1], Key(last)) if isinstance(last, str) else path


def one_of(items: Mapping[Path, str], data: Map) -> dict[str, Map]:
    """Return, for each name that is unique in ``items``, the data with only that item.

    Other items of its list become null, and others of its section are dropped: paths do not change.
    """
    names = [name for name in items.values() if name]
    return {
        name: _without(data, [other for other in items if other != path])
        for path, name in items.items()
        if names.count(name) == 1
    }


def _without(node: Any, paths: Sequence[Path]) -> Any:
    """Return a copy without the values at these paths."""
    if isinstance(node, Seq):
        return node.mapped(lambda at, item: _left(item, at, paths))
    if not isinstance(node, Map):
        return node
    copy = node.mapped(lambda key, item: _left(item, key, paths))
    for key in [path[0] for path in paths if len(path) == 1]:
        copy.drop(str(key))
    return copy


def _left(item: Any, step: str | int, paths: Sequence[Path]) -> Any:
    below = [path[1:] for path in paths if path[0] == step]
    return None if () in below else _without(item, below) if below else item


def with_value(node: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a tree with the value at a path changed."""
    if not path:
        return change(node)
    return node.mapped(lambda step, item: with_value(item, path[1:], change) if step == path[0] else item)


def with_texts(node: Any, change: Callable[[str], Any]) -> Any:
    """Return a copy of a tree with each text changed."""
    if isinstance(node, (Map, Seq)):
        return node.mapped(lambda _, item: with_texts(item, change))
    return change(node) if isinstance(node, str) else node


def variables_in(data: Map) -> set[str]:
    """Return the shell variables in the texts of a file."""
    found = (match for _, text in texts_in(data, ()) for match in VARIABLE.finditer(text))
    return {match[1] or match[2] for match in found}


def with_variables(data: Map, values: Mapping[str, str]) -> Map:
    """Return a file with these shell variables filled in, as `envsubst` does."""

    def change(text: str) -> Any:
        new = VARIABLE.sub(lambda match: values.get(match[1] or match[2], match[0]), text)
        return int(new) if new != text and new.isdecimal() else new

    filled: Map = with_texts(data, change) if values else data
    return filled


def placed(value: object, place: Place | None) -> object:
    """Return plain data as a tree with that place for all of its parts; a tree is returned unchanged."""
    if isinstance(value, (Map, Seq)):
        return value
    if isinstance(value, Mapping):
        tree = Map(place=place)
        for key, item in value.items():
            tree.put(str(key), placed(item, place), place)
        return tree
    if isinstance(value, (list, tuple)):
        seq = Seq(place=place)
        for item in value:
            seq.add(placed(item, place), place)
        return seq
    return value
