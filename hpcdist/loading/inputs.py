"""The params of an experiment: checked against ``inputs``, with defaults and options.

The rules are from Polyaxon 0.5 to 0.6: an input without a param must be optional, a default needs
``is_optional``, a flag is a bool that renders as ``--name`` or as nothing, and if there are inputs,
every param must be one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Final

from hpcdist.base import fields
from hpcdist.base.errors import Key, Path, Problem, did_you_mean, unknown
from hpcdist.base.fields import Model
from hpcdist.base.tree import Map, Seq
from hpcdist.base.words import quote

_TEXT: Final = (str,)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (int, float),
    "metric": (int, float),
    "bool": (bool,),
    "str": _TEXT,
    "dict": (dict,),
    "dict_of_dicts": (dict,),
    "list": (list,),
    "metadata": (str, dict),
    "uri": (str, dict),
    "auth": (str, dict),
    **dict.fromkeys(("path", "gcs_path", "s3_path", "azure_path"), _TEXT),
}
_WORDS: Final = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "keys and values",
}


class Input(Model, frozen=True):
    """One declared param.

    ``name``: its name in ``-p`` and templates. ``description``: a text for readers. ``type``: its type:
    ``int``, ``float``, ``bool``, ``str``, ``list`` or another one of Polyaxon. ``default``: its value if no
    param is set; requires ``is_optional``. ``is_optional``: it may have no value. ``is_list``: it is a list
    of such values. ``is_flag``: a ``bool`` that renders as ``--name`` or as nothing. ``options``: the allowed
    values. ``minimum`` and ``maximum``: the range of a number.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "value": "write `default` and `is_optional: true`, or the value under `params`"
    }

    may_be_empty = frozenset({"default"})

    name: str
    type: str | None = None
    description: str | None = None
    default: Any = None
    is_optional: bool = False
    is_list: bool = False
    is_flag: bool = False
    options: tuple[Any, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None


def resolve(
    declared: object, given: Mapping[str, Any], searched: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], list[Problem]]:
    """Return the params with their defaults, the values for templates, and all problems.

    The problems have paths of the experiment file; without inputs every param is accepted. ``searched``:
    params of a search that has no trials, which are not missing.
    """
    problems: list[Problem] = []
    inputs = list(_inputs(declared, problems))
    broken = {problem.path[:2] for problem in problems}
    values = dict(given)
    for index, item in inputs:
        if item.default is not None and values.get(item.name) is None:
            values[item.name] = item.default
        awaits = item.name in searched and values.get(item.name) is None
        if ("inputs", index) not in broken and not awaits:
            problems += _problems(item, values.get(item.name), ("inputs", index), given=item.name in given)
    if isinstance(declared, list) and declared:
        names = {item.name for _, item in inputs}
        problems += [
            Problem(f"there is no input {name!r}", ("params", Key(name)), did_you_mean(name, names))
            for name in given
            if name not in names
        ]
    flags = {item.name for _, item in inputs if item.is_flag}
    optional = {item.name: None for _, item in inputs if item.is_optional}
    texts = given.texts if isinstance(given, Map) else {}
    typed = {item.name for _, item in inputs if item.type}
    spelt = {name: as_spelt(given[name], text) for name, text in texts.items() if name not in typed}
    shown = {
        name: _flag(name, value) if name in flags else value
        for name, value in (optional | values | spelt).items()
    }
    return values, shown, problems


class SpeltInt(int):
    """A whole number that is rendered in its source spelling."""

    text = ""

    def __str__(self) -> str:
        return self.text


class SpeltFloat(float):
    """A number that is rendered in its source spelling: ``1e3``, ``1.10``."""

    text = ""

    def __str__(self) -> str:
        return self.text


def as_spelt(value: object, text: str) -> object:
    """Return a number that templates render in its source spelling; other values unchanged."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or str(value) == text.strip():
        return value
    number = SpeltInt(value) if isinstance(value, int) else SpeltFloat(value)
    number.text = text.strip()
    return number


def put_spelt(node: Map | Seq, key: Any, value: object) -> None:
    """Set an entry; a number with a source spelling as a plain one, and its spelling as its text."""
    if isinstance(value, (SpeltInt, SpeltFloat)):
        node.texts[key] = value.text
        value = int(value) if isinstance(value, int) else float(value)
    node[key] = value


def whole(declared: object, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params with ``16.0`` as ``16`` where the input is an ``int``."""
    kinds = {item.name: item.type for _, item in _inputs(declared, [])}
    return {
        name: int(value)
        if kinds.get(name) == "int" and isinstance(value, float) and value.is_integer()
        else value
        for name, value in given.items()
    }


def required(declared: object, given: Mapping[str, Any]) -> list[str]:
    """Return the names of the required inputs without a param."""
    return [
        item.name
        for _, item in _inputs(declared, [])
        if not item.is_optional and item.default is None and given.get(item.name) is None
    ]


def _flag(name: str, value: object) -> str:
    return f"--{name}" if value else ""


def _inputs(declared: object, problems: list[Problem]) -> Iterator[tuple[int, Input]]:
    for index, data in enumerate(declared if isinstance(declared, list) else ()):
        item, found = fields.build(Input, data)
        problems += [
            Problem(one.message, ("inputs", index, *one.path), one.hint, one.severity) for one in found
        ]
        if item is not None:
            yield index, item


def _problems(item: Input, value: object, path: Path, *, given: bool) -> Iterator[Problem]:
    if item.type is not None and item.type not in _TYPES:
        yield unknown("type", item.type, _TYPES, (*path, "type"))
    if item.is_flag and item.type != "bool":
        yield Problem("a flag must be a bool", (*path, "is_flag"), "write `type: bool`")
    if item.default is not None and not item.is_optional:
        hint = "add `is_optional: true`, as in Polyaxon"
        yield Problem("a default needs an optional input", (*path, "default"), hint)
    if value is None:
        if not item.is_optional:
            example = item.options[0] if item.options else "VALUE"
            hint = f"write it under `params`, or use `-p {quote(f'{item.name}={example}')}`"
            yield Problem(f"the input {item.name!r} is required but has no param", path, hint)
        return
    where: Path = ("params", item.name) if given else (*path, "default")
    for part in value if item.is_list and isinstance(value, list) else [value]:
        if not _fits(item.type, part):
            yield Problem(f"expected {_described(item)}, got {fields.shown_scalar(part)}", where)
        elif item.options and part not in item.options:
            known = ", ".join(map(str, item.options))
            yield Problem(f"{part!r} is not one of the options", where, f"known: {known}")
        else:
            yield from _range_problems(item, part, where)
    if item.is_list and not isinstance(value, list):
        yield Problem(f"expected a list, got {value!r}", where, "write it as [a, b]")


def _range_problems(item: Input, value: object, where: Path) -> Iterator[Problem]:
    """Yield the problem of a number out of range."""
    if not isinstance(value, (int, float)):
        return
    if item.minimum is not None and not value >= item.minimum:
        yield Problem(f"{value} is less than the minimum", where, f"write {item.minimum} or more")
    elif item.maximum is not None and not value <= item.maximum:
        yield Problem(f"{value} is more than the maximum", where, f"write {item.maximum} or less")


def _fits(kind: str | None, value: object) -> bool:
    if kind is None or kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "dict_of_dicts":
        return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())
    return isinstance(value, _TYPES[kind])


def _described(item: Input) -> str:
    kind = _TYPES[item.type or "str"][-1]
    return f"{_WORDS.get(kind, 'a list')} (`type: {item.type}`)"
