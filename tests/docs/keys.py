"""Every key of a file, as the models have it: type, unit, default and meaning."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from hpcdist.base.fields import Model
from hpcdist.base.units import Memory, Walltime
from hpcdist.loading.schema import meaning

Section = tuple[tuple[str, ...], type[Model]]
"""A place of a file, and what may stand there."""
Scalar: Final = {str, int, float, bool}

_WORDS: Final[dict[Any, str]] = {
    Any: "anything",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Walltime: "time (`02:00:00`, `90m`)",
    Memory: "memory (MiB, or `4Gi`)",
}
_UNITS: Final = {
    "cpu": "CPUs",
    "cpus": "CPUs",
    "gpu": "GPUs",
    "gpus": "GPUs",
    "nodes": "nodes",
    "n_workers": "workers",
    "n_ps": "parameter servers",
    "mb": "MiB",
    "ms": "milliseconds",
    "seconds": "seconds",
    "np": "processes",
}
"""Units live in names or in types: what the end of a name counts in."""


class Entry(NamedTuple):
    """One key of a file; ``path`` is as in messages, with ``NAME`` for a name that the user chooses."""

    path: tuple[str, ...]
    type: Any
    kind: str
    default: str
    meaning: str


class Reference:
    """The entries of a file, each section's keys once."""

    def __init__(self) -> None:
        self._places: dict[type[Model], str] = {}

    def entries(self, model: type[Model], path: tuple[str, ...] = ()) -> Iterator[Entry]:
        """Yield the entries of a section that stands at this path, each before those below it.

        A section of several keys stands at the first of them that is not below another key of this section.
        """
        found = [field for field in msgspec.structs.fields(model) if field.name != model.rest]
        sections_of = {field.name: [*_sections(field.type, (*path, field.encode_name))] for field in found}
        new_of = {field.name: [*self._placed(sections_of[field.name])] for field in found}
        for field in found:
            own, sections, new = (*path, field.encode_name), sections_of[field.name], new_of[field.name]
            places = [self._places[kind] for place, kind in sections if (place, kind) not in new]
            about = f"{_counted(field.type, own)}{''.join(f' as `{place}`' for place in places)}"
            said = _plain(meaning(model, field.encode_name), field.encode_name)
            yield Entry(own, field.type, about, _default(field), said)
            for place, kind in new:
                yield from self.entries(kind, place)

    def _placed(self, sections: Iterable[Section]) -> Iterator[Section]:
        """Yield those that have no place yet, and note it."""
        for place, kind in sections:
            if kind not in self._places:
                self._places[kind] = ".".join(place)
                yield place, kind


def _counted(kind: Any, path: tuple[str, ...]) -> str:
    """Return a type with its unit, which is that of the section where a key has none of its own."""
    words, unit = _words(kind), _unit(path[-1]) or _unit(path[-2] if path[1:] else "")
    return words.replace("number", f"number of {unit}") if unit and "number" in words else words


def _unit(word: str) -> str:
    """Return what the end of a name counts in; ``cpus_per_gpu`` are CPUs."""
    name = word.partition("_per_")[0]
    return _UNITS.get(name) or _UNITS.get(name.rpartition("_")[2], "")


def _words(kind: Any) -> str:
    """Say what may stand there."""
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, Model):
        return "section"
    members = [member for member in get_args(kind) if member is not types.NoneType]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{member}`" for member in members)
    if get_origin(kind) is tuple:
        return f"list of {_words(members[0])}"
    if get_origin(kind) in (dict, Mapping):
        return "keys and values" if members[1] is Any else f"by name: {_words(members[1])}"
    scalars = ["text or number"] if {*members} >= Scalar else []
    covered = Scalar if scalars else {int} if float in members else set()
    rest = [member for member in members if member not in covered]
    return " or ".join([*scalars, *map(_words, rest)])


def _sections(kind: Any, path: tuple[str, ...]) -> Iterator[Section]:
    """Yield the models in a type, with the path at which their keys stand."""
    if isinstance(kind, type) and issubclass(kind, Model):
        yield path, kind
    elif get_origin(kind) is tuple:
        yield from _sections(get_args(kind)[0], (*path[:-1], f"{path[-1]}[]"))
    elif get_origin(kind) in (dict, Mapping):
        yield from _sections(get_args(kind)[1], (*path, "NAME"))
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _sections(member, path)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "needed"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple) and value:
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`" if isinstance(value, (str, int, float)) and value != "" else ""


def _plain(text: str, name: str) -> str:
    """Return a description as Markdown, without the name that it begins with."""
    lead = rf"^(?:``\w+``(?:, | and ))*``{name}``(?:(?:, | and )``\w+``)*(?:: | is | are )"
    return re.sub(lead, "", text).replace("``", "`")
