"""Reads YAML, strictly as version 1.2, with the place of each value and a message for everything refused.

PyYAML's parser makes the events, by libyaml if PyYAML has it; ``documents.compose`` and
``documents.scalars`` interpret them. Refused: duplicate keys, tags outside the core schema, a second document
unless the caller accepts several, more than 100,000 values with aliases expanded, nesting beyond 64 levels.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from hpcdist.documents import scalars
from hpcdist.documents.compose import PARSER, Composer, Node
from hpcdist.documents.tree import Document, Map, Seq
from hpcdist.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.host import untrusted

MAX_BYTES: Final = 2**20
_FORMS: Final = (
    "an experiment, or a job file of another tool, is YAML or JSON; start a script by its `run.cmd`"
)
_KEYS: Final = "an experiment begins with keys, such as `run: {cmd: ...}`"
_INIT: Final = "`hpcdist init` writes a first experiment"
_UNPRINTABLE: Final = re.compile(  # what it is, for Python takes 4 ms to compile what it is not
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
        return untrusted.read_user_file(path, MAX_BYTES + 1)
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


def _section(root: Node, *, several: bool) -> Map:
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
        return _at(_only_value("value: " + text, place.file), place) if is_yaml else scalars.resolve(text)
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
