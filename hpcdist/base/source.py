"""Reads YAML, strictly as version 1.2, with the place of each value and a message for everything refused.

PyYAML's parser makes the events, by libyaml if PyYAML has it; ``Composer`` and
``tree.resolve`` interpret them. Refused: duplicate keys, tags outside the core schema, a second document
unless the caller accepts several, more than 100,000 values with aliases expanded, nesting beyond 64 levels.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from hpcdist.base import ownership, tree
from hpcdist.base.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.base.yaml_errors import explain, split_at_comma, template_at

# --- Composes the events of a YAML parser into trees with places, by the rules of YAML 1.2

MAX_DEPTH: Final = 64
MAX_NODES: Final = 100_000
MAX_PROBLEMS: Final = 50

PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser where PyYAML has it, else PyYAML's own."""

_UNPASSABLE: Final = re.compile("[\0\ud800-\udfff]")
_NO_KEY: Final = ("a list or section cannot be a key", "write a word")
_CORE: Final = "tag:yaml.org,2002:"


class YamlNode(NamedTuple):
    """A value, and its size and depth with all aliases expanded; ``text``: of a scalar."""

    value: Any
    place: Place
    size: int = 1
    depth: int = 1
    text: str | None = None
    plain: bool = False

    @property
    def spelt(self) -> str | None:
        """The source text of a scalar that is not a string, such as a number."""
        return None if isinstance(self.value, str) else self.text


def _joined_surrogates(text: str) -> str:
    """Return the text with each surrogate pair, an escape of JSON, replaced by its character."""
    if text.isascii() or not _UNPASSABLE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class Composer:
    """Makes trees from the events of a parser: libyaml's, or PyYAML's own where that is missing."""

    def __init__(self, text: str, file: str, parser: Any = PARSER) -> None:
        self._problems: list[Problem] = []
        self._file = file
        self._text = text
        self._parser = parser(text)
        self._anchors: dict[str, YamlNode | None] = {}  # None while the anchored node is still open
        self._size = 0

    def document(self) -> YamlNode:
        """Return the root of the only document, null without one.

        Raises:
            ConfigError: with every problem up to the first that ends parsing.
        """
        return self.documents(1)[0]

    def documents(self, most: float = math.inf) -> list[YamlNode]:
        """Return the roots of all documents, one null without any.

        Raises:
            ConfigError: as ``document`` does, and for more documents than ``most``.
        """
        self._next()
        roots: list[YamlNode] = []
        while isinstance(start := self._next(), yaml.DocumentStartEvent):
            if len(roots) == most:
                self._fail(start, "a second document begins here", "keep one document in a file")
            self._anchors.clear()
            roots.append(self._node(0))
            self._next()
        if self._problems:
            raise ConfigError(*self._problems)
        return roots or [YamlNode(None, self._place(start))]

    def _next(self) -> Any:
        try:
            return self._parser.get_event()
        except yaml.YAMLError as error:
            raise self._syntax_error(error) from None

    def _syntax_error(self, error: yaml.YAMLError) -> ConfigError:
        what, hint, line, column = explain(error, self._text)
        if any(problem.place and problem.place.line == line for problem in self._problems):
            return ConfigError(*self._problems)
        return ConfigError(*self._problems, Problem(what, hint=hint, place=Place(self._file, line, column)))

    def _place(self, event: Any) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _fail(self, event: Any, message: str, hint: str = "") -> NoReturn:
        raise ConfigError(*self._problems, Problem(message, hint=hint, place=self._place(event)))

    def _add_problem(self, place: Place, message: str, hint: str = "") -> None:
        self._problems.append(Problem(message, hint=hint, place=place))
        if len(self._problems) == MAX_PROBLEMS:
            raise ConfigError(*self._problems)

    def _node(self, depth: int) -> YamlNode:
        event = self._next()
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._count(event, 1, depth)
        anchor = event.anchor
        if anchor:
            self._anchors[anchor] = None
        node = self._compose(event, depth)
        if anchor:
            self._anchors[anchor] = node
        return node

    def _compose(self, event: Any, depth: int) -> YamlNode:
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, depth)
        return (
            self._mapping(event, depth) if isinstance(event, yaml.MappingStartEvent) else self._scalar(event)
        )

    def _count(self, event: Any, size: int, depth: int) -> None:
        self._size += size
        if self._size > MAX_NODES:
            if self._anchors:
                self._fail(
                    event,
                    f"with its aliases expanded, the file has more than {MAX_NODES} values",
                    "remove aliases (*name)",
                )
            hint = "keep them in a file that the program reads"
            self._fail(event, f"the file has more than {MAX_NODES} values", hint)
        if depth > MAX_DEPTH:
            self._fail(
                event, f"lists and sections are nested more than {MAX_DEPTH} levels deep", "use fewer levels"
            )

    def _alias(self, event: Any, depth: int) -> YamlNode:
        node = self._anchors.get(event.anchor)
        if node is None:
            inside = event.anchor in self._anchors
            what = "refers to a value that contains it" if inside else "has no anchor above it"
            known = [name for name, value in self._anchors.items() if value]
            hint = (
                ""
                if inside
                else did_you_mean(event.anchor, known)
                or f"write &{event.anchor} before the value that it refers to"
            )
            self._fail(event, f"the alias *{event.anchor} {what}", hint)
        self._count(event, node.size, depth + node.depth - 1)
        return YamlNode(node.value, self._place(event), node.size, node.depth, node.text, node.plain)

    def _scalar(self, event: Any) -> YamlNode:
        place = self._place(event)
        text = _joined_surrogates(event.value)
        value: tree.Plain = text
        try:
            if event.tag is not None:
                value = tree.resolve_as(text, self._tag(event, ("str", "int", "float", "bool", "null")))
            elif event.implicit[0]:
                value = tree.resolve(text)
        except ValueError as error:
            self._add_problem(place, str(error))
        if _UNPASSABLE.search(text):
            self._add_problem(
                place, "a NUL byte or an unpaired surrogate cannot be passed to a program", "remove it"
            )
        return YamlNode(value, place, text=text, plain=not event.style)

    def _tag(self, event: Any, allowed: tuple[str, ...]) -> str:
        """Return the short name of a core tag; any other is a problem, and is read as the first allowed."""
        tag = str(event.tag).removeprefix(_CORE)
        if tag in allowed and tag != event.tag:
            return tag
        shown = f"!!{tag}" if tag != event.tag else tag
        self._add_problem(
            self._place(event),
            f"the tag {shown} is not supported",
            "remove it: a file holds data, not objects",
        )
        return allowed[0]

    def _sequence(self, event: Any, depth: int) -> YamlNode:
        if event.tag is not None:
            self._tag(event, ("seq",))
        seq, size, deepest = Seq(place=self._place(event)), 1, 0
        while not self._ends(yaml.SequenceEndEvent):
            item = self._node(depth + 1)
            seq.add(item.value, item.place, item.spelt)
            size, deepest = size + item.size, max(deepest, item.depth)
        return YamlNode(seq, self._place(event), size, deepest + 1)

    def _mapping(self, event: Any, depth: int) -> YamlNode:
        if event.tag is not None:
            self._tag(event, ("map",))
        result, size, deepest = Map(place=self._place(event)), 1, 0
        merged: list[YamlNode] = []
        before: YamlNode | None = None
        while not self._ends(yaml.MappingEndEvent):
            key, value = self._node(depth + 1), self._node(depth + 1)
            before = self._unsplit(before, key, value) if event.flow_style else None
            if key.plain and key.text == "<<":
                merged.append(value)
            else:
                self._entry(result, key, value)
            size, deepest = size + key.size + value.size, max(deepest, value.depth)
        for source in self._merge_sources(merged):
            for name in source:
                if name not in result:
                    result.copy_from(source, name)
        return YamlNode(result, self._place(event), size, deepest + 1)

    def _unsplit(self, before: YamlNode | None, key: YamlNode, value: YamlNode) -> YamlNode | None:
        """Return the plain value of an entry in { }; report it if the next key is really the rest of it."""
        if value.text or not (before and key.plain and key.text and value.place.line == key.place.line):
            return value if value.plain and value.text else None
        if value.place.column == key.place.column + len(key.text):  # there is no ':'
            line = self._text.splitlines()[key.place.line - 1]
            text = line[before.place.column - 1 : value.place.column - 1]
            self._add_problem(before.place, *split_at_comma(text, key.text))
        return None

    def _ends(self, kind: type) -> bool:
        try:
            ended: bool = self._parser.check_event(kind)
        except yaml.YAMLError as error:
            raise self._syntax_error(error) from None
        if ended:
            self._next()
        return ended

    def _entry(self, result: Map, key: YamlNode, value: YamlNode) -> None:
        if key.text is None:
            template = template_at(self._text, key.place) if isinstance(key.value, Map) else ""
            what = "a template at the start of a value must be quoted"
            message = (what, f"write {template}") if template else _NO_KEY
            self._add_problem(key.place, *message)
        elif key.text in result:
            hint, last = f"the first one is in line {result.key_places[key.text].line}", [*result][-1]
            if result[last] is None and last != key.text:
                hint += f"; or the lines under `{last}:` have lost their indentation"
            self._add_problem(key.place, f"the key {key.text!r} is written twice", hint)
        else:
            result.put(key.text, value.value, value.place, key_place=key.place)
            if value.spelt is not None:
                result.texts[key.text] = value.spelt

    def _merge_sources(self, merged: list[YamlNode]) -> Iterator[Map]:
        """Yield the sections that ``<<`` merges; the first one wins (yaml.org/type/merge)."""
        for node in merged:
            for item in node.value if isinstance(node.value, Seq) else [node.value]:
                if isinstance(item, Map):
                    yield item
                else:
                    self._add_problem(
                        node.place, "<< takes a section or a list of sections", "write `<<: *anchor`"
                    )


# --- Reads YAML, strictly as version 1.2, with the place of each value and a message for everything refused

MAX_BYTES: Final = 2**20
_FORMS: Final = (
    "an experiment, or a job file of another tool, is YAML or JSON; start a script by its `run.cmd`"
)
_KEYS: Final = "an experiment begins with keys, such as `run: {cmd: ...}`"
_INIT: Final = "`hpcdist init` writes a first experiment"
_UNPRINTABLE: Final = re.compile(  # the negated class takes Python 4 ms to compile
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]"
)
_LINE_ENDS: Final = {"\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P"}
"""Line ends in YAML 1.1, which libyaml folds into spaces, but characters in YAML 1.2; with their escapes."""
_SURROGATES: Final = re.compile(r"\\u[dD][89a-fA-F]")


def load(path: str | Path, *, several: bool = False) -> Document:
    """Read a file, ``-`` for standard input; ``several``: it may hold more than one document.

    Raises:
        ConfigError: when it cannot be read, or is not YAML with keys and values; every problem has its place.
    """
    return parse(read_text(path), name(path), several=several)


def name(path: str | Path) -> str:
    """Return the name of a file in messages."""
    return "<stdin>" if str(path) == "-" else str(path).encode("utf-8", "backslashreplace").decode()


def read_text(path: str | Path) -> str:
    """Return the text of a file, ``-`` for standard input.

    Raises:
        ConfigError: when it does not exist, is not UTF-8 text, or is over 1 MiB.
    """
    return decode(read_bytes(path), name(path))


def read_bytes(path: str | Path) -> bytes:
    """Return the first MiB of a file, and a byte more if it is larger; ``-`` is standard input.

    Raises:
        ConfigError: when it cannot be read.
    """
    if str(path) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise _file_error(path, "standard input is closed", "name a file")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        return ownership.read_user_file(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise _file_error(path, "there is no such file", _similar_names(Path(path))) from None
    except IsADirectoryError:
        raise _file_error(path, "this is a directory", "name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _file_error(path, f"the file cannot be read: {reason}") from None


def _file_error(path: str | Path, message: str, hint: str = "") -> ConfigError:
    return ConfigError(Problem(message, hint=hint, place=Place(str(path), 0, 0)))


def _similar_names(path: Path) -> str:
    with contextlib.suppress(OSError):
        names = [item.name for item in path.parent.iterdir() if item.suffix in (".yml", ".yaml", ".json")]
        return did_you_mean(path.name, names, most=20)
    return ""


def decode(raw: bytes, file: str) -> str:
    """Return the text of these bytes.

    Raises:
        ConfigError: when they are over 1 MiB, not UTF-8, or hold control characters.
    """
    if len(raw) > MAX_BYTES:
        raise _file_error(file, "the file is over 1 MiB", "is it the right file?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place_at(raw[: error.start].decode("utf-8-sig", "replace"), file)
        message = f"the byte 0x{raw[error.start]:02x} is not valid UTF-8"
        raise ConfigError(Problem(message, hint="save the file as UTF-8", place=place)) from None
    bad = _UNPRINTABLE.search(text)
    if bad:
        raise ConfigError(_unprintable(bad[0])._replace(place=_place_at(text[: bad.start()], file)))
    return text


def _unprintable(character: str) -> Problem:
    if escape := _LINE_ENDS.get(character):
        message = f"U+{ord(character):04X} ends a line for some YAML parsers and not for others"
        return Problem(message, hint=f"remove it, or write {escape} in double quotes")
    name = "a NUL byte" if character == "\0" else f"the control character U+{ord(character):04X}"
    return Problem(f"{name} is not allowed in a text file", hint="remove it")


def _place_at(before: str, file: str) -> Place:
    return Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def parse(text: str, file: str, parser: Any = None, *, several: bool = False) -> Document:
    """Parse a text into a document; of several, into the first that is not empty, with the ``others``.

    Raises:
        ConfigError: when it is not YAML with keys and values at its top, or not one document only.
    """
    if parser is None:  # libyaml refuses escaped surrogate pairs, which JSON may use
        parser = yaml.SafeLoader if _SURROGATES.search(text) else PARSER
    composer = Composer(decode(text.encode("utf-8", "surrogatepass"), file), file, parser)
    roots = composer.documents() if several else [composer.document()]
    sections = [_section(root, several=several) for root in roots if root.value is not None]
    if not sections:
        raise _file_error(file, "the file is empty", _INIT if several else "")
    return Document(sections[0], file, text, tuple(sections[1:]))


def _section(root: YamlNode, *, several: bool) -> Map:
    if isinstance(root.value, Map):
        return root.value
    kind = "a list" if isinstance(root.value, Seq) else "text" if isinstance(root.value, str) else "one value"
    hint = "write `key: value`"
    if several:
        hint = _FORMS if kind == "text" else _KEYS
    raise ConfigError(Problem(f"expected keys and values, got {kind}", hint=hint, place=root.place))


def read_value(text: str, place: Place) -> object:
    """Read a value from the command line: ``4``, ``2:00:00``, ``[a, b]``, ``{x: 1}``, ``"4"``.

    A value that begins with a bracket or a quote is YAML; any other is one plain scalar,
    so that ``python x.py # y: z`` is that text.

    Raises:
        ConfigError: with that place, when the YAML is broken.
    """
    try:
        text.encode()
        begin = text.lstrip()
        is_yaml = begin[:1] in ("[", "{", '"', "'") and not begin.startswith(("{{", "{%"))
        return _at(_only_value("value: " + text, place.file), place) if is_yaml else tree.resolve(text)
    except ConfigError as error:
        problems = (Problem(item.message, hint=item.hint, place=place) for item in error.problems)
        raise ConfigError(*problems) from None
    except UnicodeEncodeError:
        raise ConfigError(Problem("the value is not valid UTF-8", place=place)) from None
    except ValueError as error:
        raise ConfigError(Problem(str(error), place=place)) from None


def _at(node: object, place: Place) -> object:
    """Return a value with this place for all of its parts."""
    if isinstance(node, Map):
        section = Map(place=place)
        for key, value in node.items():
            section.put(key, _at(value, place), place)
        section.texts = dict(node.texts)
        return section
    if isinstance(node, Seq):
        items = Seq(place=place)
        for index, item in enumerate(node):
            items.add(_at(item, place), place, node.texts.get(index))
        return items
    return node


def _only_value(text: str, file: str) -> object:
    data = parse(text, file).data
    if len(data) > 1:
        raise ValueError("expected one value, got several")
    return data["value"]
