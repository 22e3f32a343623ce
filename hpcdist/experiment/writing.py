"""Writes an experiment as YAML for its user to edit: read again, it is the same data.

Text that could be misread is quoted, also if only YAML 1.1 would misread it (``no``, ``2:00:00``); text of
several lines is a literal block (``|``).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args

import msgspec

from hpcdist.base.errors import Path
from hpcdist.base.fields import Model
from hpcdist.base.tree import resolve
from hpcdist.experiment.model import Experiment

Comment = Callable[[Path], str]
"""Returns the comment behind the value of a path, or nothing."""

_COLUMN: Final = 48
"""The last column at which comments begin, unless the value is longer."""
_LONGEST_KEY: Final = 1000
"""A longer key needs a ``?`` before it: parsers look 1024 characters ahead (YAML 1.2.2, section 7.4.2)."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.+][\w ./=+@%^,;()<>~$&*?!|\"'{}\[\]\\:#-]*", re.ASCII)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
_ENDS_PLAIN: Final = re.compile(r": | #|[: ]$")
_OF_YAML_1_1: Final = re.compile(r"(?i:y|n|yes|no|on|off)|[-+.\d][-+.\d_:eE]*", re.ASCII)
_BLOCK: Final = re.compile(
    "[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]+"
)
_UNSEEN: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class _Line(NamedTuple):
    text: str
    comment: str = ""


def write(data: Mapping[str, Any], comment: Comment = lambda _: "") -> str:
    """Return the data as YAML: keys in the order of ``Experiment``, behind each value its comment."""
    lines = [*_Writer(comment).below(data, (), "", Experiment)] or [_Line("{}")]
    column = min(_COLUMN, max((len(line.text) for line in lines if line.comment), default=0))
    return "".join(
        f"{line.text:<{column}}  # {printable(line.comment)}\n" if line.comment else f"{line.text}\n"
        for line in lines
    )


def printable(text: str) -> str:
    """Return a text that is safe in a comment: one line, without terminal control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


class _Writer:
    """Writes a tree line by line; ``kind`` is the type that the model gives a value."""

    def __init__(self, comment: Comment) -> None:
        self._comment = comment

    def below(self, node: Any, path: Path, indent: str, kind: Any) -> Iterator[_Line]:
        """Yield the lines of a section or a list."""
        write_it = self._section if isinstance(node, Mapping) else self._list
        return write_it(node, path, indent, _model_in(kind))

    def _section(self, node: Any, path: Path, indent: str, model: type[Model] | None) -> Iterator[_Line]:
        fields = _fields(model) if model else {}
        for key in _in_order(node, fields, model.rest if model else ""):
            word, value, inside = _key(key), node[key], (*path, key)
            head = f"{indent}{word}:"
            if len(word) > _LONGEST_KEY:
                yield _Line(f"{indent}? {word}")
                head = f"{indent}:"
            if _is_full(value):
                yield _Line(head)
                yield from self.below(value, inside, f"{indent}  ", fields.get(key))
            else:
                yield from self._scalar(head, node, inside, indent)

    def _list(self, node: Any, path: Path, indent: str, model: type[Model] | None) -> Iterator[_Line]:
        for at, item in enumerate(node):
            if _is_full(item):
                first, *rest = self.below(item, (*path, at), f"{indent}  ", model)
                yield first._replace(text=f"{indent}- {first.text[len(indent) + 2 :]}")
                yield from rest
            else:
                yield from self._scalar(f"{indent}-", node, (*path, at), indent)

    def _scalar(self, head: str, above: Any, path: Path, indent: str) -> Iterator[_Line]:
        """Yield the lines of a scalar, in its source spelling if that is known."""
        first, *rest = _words(above[path[-1]], getattr(above, "texts", {}).get(path[-1]))
        yield _Line(f"{head} {first}", self._comment(path))
        yield from (_Line(f"{indent}  {line}" if line else "") for line in rest)


def _is_full(value: object) -> bool:
    return bool(value) and isinstance(value, (Mapping, list, tuple))


def _model_in(kind: Any) -> type[Model] | None:
    """Return the model that a type such as ``tuple[ReplicaEntry, ...] | None`` is about."""
    if isinstance(kind, type) and issubclass(kind, Model):
        return kind
    return next(filter(None, map(_model_in, get_args(kind))), None)


def _in_order(keys: Iterable[str], fields: Iterable[str], rest: str) -> list[str]:
    """Return the keys in the order of the fields; all others in the place of ``rest``, else at the end."""
    ranks = {name: rank for rank, name in enumerate(fields)}
    others = ranks.pop(rest, len(ranks))
    return sorted(keys, key=lambda key: ranks.get(key, others))


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _quoted(key)


def _words(value: object, spelt: str | None) -> list[str]:
    """Return the text of a scalar, with further lines for a literal block."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (Mapping, list, tuple)):
        return ["{}" if isinstance(value, Mapping) else "[]"]
    if value is None or isinstance(value, bool):
        plain = {None: "null", True: "true", False: "false"}[value]
    else:
        plain = repr(value).replace("inf", ".inf").replace("nan", ".nan")
    return [spelt if spelt and repr(resolve(spelt)) == repr(value) else plain]


def _text(text: str) -> list[str]:
    if "\n" in text and text.strip() and _BLOCK.fullmatch(text):
        lines = text.removesuffix("\n").split("\n")
        ending = "-" if not text.endswith("\n") else "+" if not lines[-1].strip() else ""
        indentation = "2" if text[0].isspace() else ""
        return [f"|{indentation}{ending}", *lines]
    plain = _PLAIN.fullmatch(text) and not _ENDS_PLAIN.search(text) and not _OF_YAML_1_1.fullmatch(text)
    return [text if plain and isinstance(resolve(text), str) else _quoted(text)]


def _quoted(text: str) -> str:
    """Return the text in quotes: single ones where double ones would need backslashes."""
    if text.isprintable() and "'" not in text and ('"' in text or "\\" in text):
        return f"'{text}'"
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


@functools.cache
def _fields(model: type[Model]) -> Mapping[str, Any]:
    """Return the type of each field: msgspec evaluates all annotations again with each call."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(model)}
