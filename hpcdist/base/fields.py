"""The base of models that are read from YAML: frozen structs, built with all problems at once."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin

import msgspec

from hpcdist.base.errors import Key, Path, Problem, did_you_mean
from hpcdist.base.yaml_errors import quoted


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every model that is read from YAML.

    ``rest``: the field that collects unknown keys; without one they are errors. ``main``: the key that is
    meant if a single value is written instead of the section. ``elsewhere``: hints for keys that users expect
    in the section. ``may_be_empty``: the optional texts that have a meaning when they are empty; for all
    others an empty text is an error, because it would be used as a name.
    """

    may_be_empty: ClassVar[frozenset[str]] = frozenset()
    rest: ClassVar[str] = ""
    main: ClassVar[str] = ""
    elsewhere: ClassVar[Mapping[str, str]] = types.MappingProxyType({})


M = TypeVar("M", bound=Model)

_INVALID: Final = object()
_SHORT: Final = 100
"""The longest text that is shown within a message."""
_ONE_WORD: Final = re.compile(r"[\w.]+", re.ASCII)
_TYPE_NAMES: Final = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def build(model: type[M], data: object) -> tuple[M | None, list[Problem]]:
    """Make a model from plain data; return it and all problems found.

    Unlike ``msgspec.convert``, which stops at the first error, every field is read. An invalid field has its
    default in the model, so that the others can be checked too; the model is None if a required field is
    invalid. A key whose value is null counts as absent. Types with a ``parse`` class method (``Walltime``,
    ``Memory``) read themselves.
    """
    problems: list[Problem] = []
    built = _struct(model, data, (), problems)
    return (None if built is _INVALID else built), problems


Builder = Callable[[str, type[Model]], tuple[Model | None, list[Problem]]]


def builder(sections: Mapping[str, Any]) -> Builder:
    """Return a function that builds the section of a name as a model, each once."""
    return functools.cache(lambda name, model: build(model, sections.get(name) or {}))


def _struct(model: type[Model], data: object, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(data, Mapping):
        hint = _section_hint(model, data, path)
        problems.append(Problem(f"expected keys and values, got {_shown(data)}", path, hint))
        return _INVALID
    fields = _fields(model)
    values: dict[str, Any] = {}
    if model.rest:
        values[model.rest] = {str(key): value for key, value in data.items() if key not in fields}
    else:
        problems += [unknown_key(key, path, fields, model.elsewhere) for key in data if key not in fields]
    for name, field in fields.items():
        if data.get(name) is not None:
            kind = _type(model, field.name)
            values[field.name] = _value(kind, _source_value(kind, data, name), (*path, name), problems)
            if values[field.name] == "" and _must_not_be_empty(model, field):
                problems.append(
                    Problem("the value is empty", (*path, name), "write a value, or remove the key")
                )
        elif field.required and name in data:
            problems.append(Problem("the value is empty", (*path, name), "a value is required"))
        elif field.required:
            main = next((kind.main for kind in _models_in(_type(model, field.name))), "")
            hint = f"write `{name}: {{{main}: ...}}`" if main else ""
            problems.append(Problem(f"{name!r} is missing", path, hint))
    valid = {name: value for name, value in values.items() if value is not _INVALID}
    complete = all(field.name in valid for field in fields.values() if field.required)
    return model(**valid) if complete else _INVALID


def _must_not_be_empty(model: type[Model], field: _Field) -> bool:
    """Whether an empty text is an error in this field: it is optional, or required text."""
    return (field.default is None and field.name not in model.may_be_empty) or (
        field.required and _type(model, field.name) is str
    )


def _section_hint(model: type[Model], data: object, path: Path) -> str:
    """Return the hint to write this value as the main key of a section."""
    value = data if _ONE_WORD.fullmatch(str(data)) else quoted(data) if _is_short(data) else "..."
    if model.main and _is_list(_type(model, model.main)):
        value = f"[{value}]"
    return f"write `{path[-1]}: {{{model.main}: {value}}}`" if path and model.main else ""


def _is_list(kind: Any) -> bool:
    """Whether a value of this type is a list, and no text alone."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return str not in members and any(get_origin(one) is tuple for one in members)


def _is_short(data: object) -> TypeGuard[str]:
    return isinstance(data, str) and len(data) <= _SHORT and "\n" not in data


def key_names(model: type[Model]) -> list[str]:
    """Return the keys that a model reads."""
    return [*_fields(model)]


def sections_of(model: type[Model]) -> Mapping[str, Path]:
    """Return each key below the top level of a model, with the outermost section that has it."""
    found: dict[str, Path] = {}
    level: list[tuple[Path, type[Model]]] = [((), model)]
    while level:
        inner = [
            ((*path, key), kind)
            for path, outer in level
            for key, field in _fields(outer).items()
            for kind in _models_in(_type(outer, field.name))
        ]
        for path, kind in inner:
            for key in _fields(kind):
                found.setdefault(key, path)
        level = inner
    return found


def _models_in(kind: Any) -> list[type[Model]]:
    """Return the model that a section has, an empty list for other values and for lists."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return [one for one in members if isinstance(one, type) and issubclass(one, Model)]


class _Field(NamedTuple):
    """A field of a model; unlike msgspec's ``FieldInfo`` without its type, which is evaluated when needed."""

    name: str
    default: object

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT


@functools.cache
def _fields(model: type[Model]) -> Mapping[str, _Field]:
    """Return the fields of a model by key, without its ``rest``."""
    names, defaults = model.__struct_fields__, model.__struct_defaults__
    values = (*[msgspec.NODEFAULT] * (len(names) - len(defaults)), *defaults)
    found = zip(model.__struct_encode_fields__, map(_Field, names, values), strict=True)
    return types.MappingProxyType({key: field for key, field in found if field.name != model.rest})


@functools.cache
def _type(model: type[Model], name: str) -> Any:
    """Return the type of one field: evaluating all types takes half the time of a build."""
    owner = next(base for base in model.__mro__ if name in inspect.get_annotations(base))
    annotation = inspect.get_annotations(owner)[name]
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, vars(sys.modules[owner.__module__]))  # noqa: S307 - the text of a class


def unknown_key(
    key: object, path: Path, known: Iterable[str], elsewhere: Mapping[str, str] = types.MappingProxyType({})
) -> Problem:
    """Return the problem of an unknown key; ``elsewhere``: the hints of its section."""
    hint = elsewhere.get(str(key)) or did_you_mean(str(key), known)
    return Problem(f"unknown key {key!r}", (*path, Key(key)), hint)


def _value(kind: Any, data: object, path: Path, problems: list[Problem]) -> Any:
    if isinstance(kind, type) and issubclass(kind, Model):
        return _struct(kind, data, path, problems)
    if get_origin(kind) in (Union, types.UnionType):
        if data is None and type(None) in get_args(kind):
            return None
        member = _member(kind, data)
        one = member in _TYPE_NAMES or get_origin(member) in (Union, types.UnionType)
        return _leaf(member, data, path, problems, kind) if one else _value(member, data, path, problems)
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return _items(get_args(kind)[0], data, path, problems)
    if get_origin(kind) in (dict, Mapping):
        return _entries(get_args(kind)[1], data, path, problems)
    return _leaf(kind, data, path, problems)


def _member(union: Any, data: object) -> Any:
    """Choose the member of a union that fits the data; msgspec chooses between scalars."""
    members = [kind for kind in get_args(union) if kind is not type(None)]
    if len(members) == 1:
        return members[0]
    for kind in members:
        shape = get_origin(kind) or kind
        is_section = shape is dict or (isinstance(shape, type) and issubclass(shape, Model))
        if isinstance(data, Mapping) and is_section:
            return kind
        if isinstance(data, list) and shape is tuple:
            return kind
        if shape is Literal and data in get_args(kind):
            return kind
    scalars = tuple(kind for kind in members if kind in _TYPE_NAMES)
    return functools.reduce(operator.or_, scalars or members[:1])


def _items(kind: Any, data: object, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(data, Sequence) or isinstance(data, str):
        problems.append(Problem(f"expected a list, got {_shown(data)}", path, "write it as [a, b]"))
        return _INVALID
    values = [_value(kind, _source_value(kind, data, at), (*path, at), problems) for at in range(len(data))]
    return _INVALID if _INVALID in values else tuple(values)


def _entries(kind: Any, data: object, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(data, Mapping):
        problems.append(Problem(f"expected keys and values, got {_shown(data)}", path))
        return _INVALID
    values = {str(key): _value(kind, _source_value(kind, data, key), (*path, key), problems) for key in data}
    return _INVALID if _INVALID in values.values() else values


def _leaf(kind: Any, data: object, path: Path, problems: list[Problem], union: Any = None) -> Any:
    """Read one value; ``union``: the union that its kind is a member of."""
    try:
        if hasattr(kind, "parse"):
            return kind.parse(data)
        if not (isinstance(data, bool) and kind in (int, float)):
            return msgspec.convert(data, kind, strict=False)
        message = ""
    except (msgspec.ValidationError, ValueError) as error:
        message = str(error)
    hint = ""
    if get_origin(kind) is Literal:
        message, hint = f"{_shown(data)} is not a valid value", did_you_mean(str(data), get_args(kind))
    elif _is_plain(kind):
        kinds, words = _described(union or kind)
        message = f"expected {' or '.join([*kinds, *words])}, got {_shown(data)}"
        hint = did_you_mean(str(data), words, otherwise="")
    problems.append(Problem(message, path, hint))
    return _INVALID


def _source_value(kind: Any, data: Any, key: Any) -> object:
    """Return an entry, as its source text where text is expected: ``name: 2024``, ``account: 007``.

    Only data from a file (``hpcdist.base.tree``) has its source text.
    """
    text = getattr(data, "texts", {}).get(key)
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    scalars = _TYPE_NAMES.keys() & {*members}
    wants_text = scalars == {str} or scalars >= {str, int, float, bool}
    return data[key] if text is None or data[key] is None or not wants_text else text


def _is_plain(kind: Any) -> bool:
    return kind in _TYPE_NAMES or get_origin(kind) in (Union, types.UnionType)


def _described(kind: Any) -> tuple[list[str], list[str]]:
    """Return the names of the scalar types and the fixed words (``share``) that are valid."""
    kinds = get_args(kind) or (kind,)
    words = [str(word) for part in kinds if get_origin(part) is Literal for word in get_args(part)]
    scalars = [part for part in kinds if part in _TYPE_NAMES]
    if {*scalars} == {*_TYPE_NAMES}:
        scalars = [str, float]  # whole numbers and booleans are valid text
    return [_TYPE_NAMES[part] for part in scalars], words


def _shown(data: object) -> str:
    if isinstance(data, Mapping):
        return f"keys and values ({', '.join(map(str, data)) or 'none'})"
    if isinstance(data, list):
        return f"a list of {len(data)}"
    return "nothing" if data is None else shown_scalar(data)


def shown_scalar(data: object) -> str:
    """Return a scalar as the file has it, text in quotes."""
    return str(data).lower() if isinstance(data, bool) else repr(data)
