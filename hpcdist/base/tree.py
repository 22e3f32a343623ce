"""Data of a file with the place of each value: ``Map`` and ``Seq``, and the ``Document`` that holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from hpcdist.base.errors import Key, Path, Place, Problem


class Map(dict[str, Any]):
    """Keys and values with their places; equal to a ``dict`` with the same entries.

    Entries may be copied into another ``Map`` (``copy_from``); each keeps the place where it was written.
    ``texts`` holds the source text of numbers, booleans and nulls: ``1.10``, ``true``, ``0x1F``.
    """

    __slots__ = ("key_places", "place", "texts", "value_places")

    def __init__(
        self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), *, place: Place | None = None
    ) -> None:
        super().__init__(entries)
        self.place = place
        self.key_places: dict[str, Place] = {}
        self.value_places: dict[str, Place] = {}
        self.texts: dict[str, str] = {}

    def put(
        self, key: str, value: object, place: Place | None = None, *, key_place: Place | None = None
    ) -> None:
        """Set an entry; the places and the source text of a previous one are removed."""
        self.drop(key)
        self[key] = value
        if place:
            self.value_places[key] = place
        if key_place or place:
            self.key_places[key] = key_place or place  # type: ignore[assignment]

    def drop(self, key: str) -> object:
        """Remove an entry with its places; return its value, None if there was none."""
        for table in (self.key_places, self.value_places, self.texts):
            table.pop(key, None)
        return self.pop(key, None)

    def copy_from(self, other: Map, key: str, name: str = "") -> None:
        """Copy the entry ``key`` of ``other`` with its places, under ``name`` if that is given."""
        name = name or key
        self.put(name, other[key], other.value_places.get(key), key_place=other.key_places.get(key))
        if key in other.texts:
            self.texts[name] = other.texts[key]

    def rename(self, old: str, new: str) -> None:
        """Rename the key ``old``, if it exists, unless ``new`` exists already."""
        if old in self and new not in self:
            self.copy_from(self, old, new)
            self.drop(old)

    def copy(self) -> Map:
        """Return a copy of this level; the levels below are shared."""
        return self.mapped(lambda _, value: value)

    def mapped(self, change: Callable[[str, Any], Any]) -> Map:
        """Return a Map with the same keys and places, and the values that ``change`` makes."""
        new = Map({key: change(key, value) for key, value in self.items()}, place=self.place)
        new.key_places, new.value_places = dict(self.key_places), dict(self.value_places)
        new.texts = dict(self.texts)
        return new

    def place_of(self, key: str) -> Place | None:
        """Return the place of a scalar's value; of the key for a section, a list, a null, or a ``Key``."""
        if isinstance(key, Key) or isinstance(self.get(key), (dict, list, type(None))):
            return self.key_places.get(key) or self.value_places.get(key)
        return self.value_places.get(key) or self.key_places.get(key)


class Seq(list[Any]):
    """Items with their places and texts; equal to a ``list`` of the same items."""

    __slots__ = ("item_places", "place", "texts")

    def __init__(self, items: Iterable[Any] = (), *, place: Place | None = None) -> None:
        super().__init__(items)
        self.place = place
        self.item_places: list[Place | None] = [None] * len(self)
        self.texts: dict[int, str] = {}

    def add(self, item: object, place: Place | None, text: str | None = None) -> None:
        """Append an item with its place and source text."""
        if text is not None:
            self.texts[len(self)] = text
        self.append(item)
        self.item_places.append(place)

    def mapped(self, change: Callable[[int, Any], Any]) -> Seq:
        """Return a Seq with the same places, and the items that ``change`` makes."""
        new = Seq((change(index, item) for index, item in enumerate(self)), place=self.place)
        new.item_places, new.texts = list(self.item_places), dict(self.texts)
        return new

    def place_of(self, index: int) -> Place | None:
        """Return where an item was written."""
        return self.item_places[index] if index < len(self.item_places) else None


@lru_cache(maxsize=4)
def lines_of(text: str) -> list[str]:
    """Return the lines of a file's text, split once for all operations of a pipeline."""
    return text.splitlines()


class Document(NamedTuple):
    """The data of one file; ``text`` is the file as it was read, ``others`` are its further documents."""

    data: Map
    file: str
    text: str = ""
    others: tuple[Map, ...] = ()

    def place(self, path: Path) -> Place | None:
        """Return where the value of that path was written, or its nearest ancestor that exists.

        A ``Key`` as the last step means the key itself.
        """
        node: object = self.data
        best = self.data.place
        for step in path:
            below = _below(node, step)
            if below is None:
                break
            node, best = below[0], below[1] or best
        return best

    def locate(self, problem: Problem) -> Problem:
        """Return the problem with its place filled in, where it has none yet."""
        if problem.place:
            return problem
        place = self.place(problem.path)
        return problem._replace(place=self._within(place, problem.word) if place else None)

    def _within(self, place: Place, word: str) -> Place:
        """Return the place of a word at or after a place, or that place if it is not found."""
        lines = lines_of(self.text)[place.line - 1 :] if word and place.file == self.file else []
        for number, line in enumerate(lines):
            column = line.find(word, 0 if number else place.column - 1)
            if column >= 0:
                return Place(place.file, place.line + number, column + 1)
        return place


def _below(node: object, step: str | int) -> tuple[object, Place | None] | None:
    if isinstance(node, Map) and isinstance(step, str) and step in node:
        return node[step], node.place_of(step)
    if isinstance(node, Seq) and isinstance(step, int) and 0 <= step < len(node):
        return node[step], node.place_of(step)
    return None


def value_at(node: Any, path: Path) -> Any:
    """Return the value at a path in a tree, None if it does not exist."""
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.get(step)
        elif isinstance(node, list) and isinstance(step, int) and 0 <= step < len(node):
            node = node[step]
        else:
            return None
    return node


def texts_in(node: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each text of a tree with its path."""
    if isinstance(node, str):
        yield path, node
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, item in entries:
        yield from texts_in(item, (*path, step))


# --- What a plain word of YAML means: the core schema of YAML 1.2.2, section 10.3.2, and nothing more
#
# So ``no``, ``on``, ``2:00:00`` and ``2024-01-31`` are text, ``010`` is ten and ``1e-10`` a number.

Plain = str | int | float | bool | None

_CONSTANTS: Final[dict[str, Plain]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS: Final = 300  # what still fits into a float; Python itself refuses 4300
_KINDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "null"}


def resolve(text: str) -> Plain:
    """Return what a plain (unquoted) word means.

    Raises:
        ValueError: for a number of more than 300 digits.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits is not supported; quote it if it is text")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def resolve_as(text: str, tag: str) -> Plain:
    """Return what a word means under a tag of the core schema: str, int, float, bool or null.

    Raises:
        ValueError: when it does not mean that.
    """
    if tag == "str":
        return text
    value = resolve(text)
    kinds = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}[tag]
    if type(value) not in kinds:
        raise ValueError(f"{text!r} is not {_KINDS[tag]}, which its tag !!{tag} requires")
    return float(value) if tag == "float" and value is not None else value


# --- Replacing a section in the text of a YAML file, whose comments and layout stay as they are

_OF_SECTION: Final = (" ", "-", "#", "\n", "\r")
"""How the lines of a section begin after the first, in block style."""


def with_section(text: str, key: str, section: str) -> str:
    """Return the text with this section in place of the one with its key, else at the end.

    ``section`` has the key, and ends with a newline. Comments and empty lines in front of the next key stay
    there. The caller checks the result: not all that YAML allows is understood.
    """
    lines = text.splitlines(keepends=True)
    begin = next((place for place, line in enumerate(lines) if line.startswith(f"{key}:")), None)
    if begin is None:
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{section}"
    ends = (place for place in range(begin + 1, len(lines)) if not lines[place].startswith(_OF_SECTION))
    end = next(ends, len(lines))
    while end - 1 > begin and not lines[end - 1].startswith((" ", "-")):
        end -= 1
    return "".join((*lines[:begin], section, *lines[end:]))
