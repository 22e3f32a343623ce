"""The JSON Schema (draft 2020-12) of each kind of file, for editors, made from the models.

It has what ``fields.build`` checks: keys, types, fixed values. ``hpcdist check`` and ``hpcdist sites check``
report what types cannot express (an unknown partition, a worker's index).
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import types
from collections.abc import Iterator, Mapping
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec

from hpcdist.base.fields import Model
from hpcdist.base.units import Memory, Walltime
from hpcdist.experiment import remarks
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import frameworks
from hpcdist.loading.preferences import Config
from hpcdist.loading.templates import RENDERED
from hpcdist.site.model import Site

Schema = dict[str, Any]

MODELS: Final[dict[str, type[Model]]] = {"site": Site, "experiment": Experiment, "config": Config}

_TEMPLATE: Final = r"\{\{|\{%"
_WHOLE: Final = r"^-?(0|[1-9][0-9]*)$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_TRUTH: Final = r"^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|0|1)$"
_CLOCK: Final = r"^\s*([0-9]+-)?[0-9]+:[0-5]?[0-9]:[0-5]?[0-9]\s*$"
_SPANS: Final = r"^\s*(?=[0-9])([0-9]+[dD])?([0-9]+[hH])?([0-9]+[mM])?([0-9]+[sS])?\s*$"
_MEMORY: Final = r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGTPkmgtp][iI]?)?[bB]?\s*$"

_LEAVES: Final[dict[Any, Schema]] = {
    Any: {},
    str: {"type": ["string", "number", "boolean"]},  # `account: 007` is read as the text "007"
    int: {"type": ["integer", "string"], "pattern": _WHOLE},
    float: {"type": ["number", "string"], "pattern": _NUMBER},
    bool: {"type": ["boolean", "integer", "string"], "pattern": _TRUTH, "minimum": 0, "maximum": 1},
    Walltime: {"type": ["string"], "pattern": f"{_CLOCK}|{_SPANS}", "examples": ["02:00:00", "90m"]},
    Memory: {"type": ["number", "string"], "minimum": 0, "pattern": _MEMORY, "examples": ["16G", 512]},
}
_JSON: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(name: Literal["site", "experiment", "config"]) -> Schema:
    """Return the schema of a kind of file; of an experiment in its native form only."""
    writer = _SchemaWriter(with_templates=name == "experiment")
    top = writer.section(MODELS[name])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"hpcdist {name}"}
    return head | top | {"$defs": dict(sorted(writer.sections.items()))}


class _SchemaWriter:
    """Writes models as schemas; ``sections`` are those that others refer to."""

    def __init__(self, *, with_templates: bool) -> None:
        self.sections: dict[str, Schema] = {}
        self._with_templates = with_templates

    def section(self, model: type[Model]) -> Schema:
        """Return the schema of a model."""
        fields = [field for field in msgspec.structs.fields(model) if field.name != model.rest]
        properties = {field.encode_name: self._entry(model, field) for field in fields}
        if model.rest:
            properties |= {name: _or_null(self._kind(frameworks.get(name).section))
                           for name in frameworks.names()}  # fmt: skip
        about = {"description": _sentences(text)[0]} if (text := _text(model)) else {}
        required = [field.encode_name for field in fields if field.required]
        found = about | {"type": "object", "properties": properties, "additionalProperties": False}
        return found | ({"required": required} if required else {})

    def _entry(self, model: type[Model], field: msgspec.structs.FieldInfo) -> Schema:
        found = self._kind(field.type)
        if self._with_templates and (model is not Experiment or field.name in RENDERED):
            found = _or_template(found)
        if not field.required:
            found = _or_null(found)
        about = {"description": text} if (text := meaning(model, field.encode_name)) else {}
        has_default = isinstance(field.default, (str, int, float, bool))
        return found | about | ({"default": field.default} if has_default else {})

    def _kind(self, kind: Any) -> Schema:
        """Return the schema of a type; the caller adds null, because a key without a value is absent."""
        if kind in _LEAVES:
            return _LEAVES[kind]
        if isinstance(kind, type) and issubclass(kind, Model):
            return self._reference(kind)
        origin, members = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": [*members]}
        if origin is tuple:
            return {"type": ["array"], "items": self._item(members[0])}
        if origin in (dict, Mapping):
            return {"type": ["object"], "additionalProperties": self._item(members[1])}
        return self._union([member for member in members if member is not types.NoneType])

    def _item(self, kind: Any) -> Schema:
        """Return the schema of an item of a list, or of a value under a key that the user chooses."""
        found = self._kind(kind)
        found = _or_template(found) if self._with_templates else found
        is_union = get_origin(kind) in (Union, types.UnionType)
        return _or_null(found) if is_union and types.NoneType in get_args(kind) else found

    def _union(self, members: list[Any]) -> Schema:
        scalars = [member for member in members if member in _JSON]
        others = [self._kind(member) for member in members if member not in _JSON]
        if not scalars:
            return _any_of(others)
        several = len(scalars) > 1 and len(scalars) < len(_JSON)
        texts: Schema = {"type": [_JSON[member] for member in scalars]} if several else {}
        return _any_of([texts or _LEAVES[str if len(scalars) > 1 else scalars[0]], *others])

    def _reference(self, model: type[Model]) -> Schema:
        home = model.__module__.removeprefix("hpcdist.").removesuffix(".model")
        name = f"{home}.{model.__name__}"
        if name not in self.sections:
            self.sections[name] = {}
            self.sections[name] = self.section(model)
        return {"$ref": f"#/$defs/{name}"}


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _or(found: Schema, other: Schema) -> Schema:
    """Return a schema that also accepts the other."""
    return {"anyOf": [*found["anyOf"], other]} if "anyOf" in found else {"anyOf": [found, other]}


def _or_null(found: Schema) -> Schema:
    for key, null in (("type", "null"), ("enum", None)):
        if key in found:
            return found | {key: [*found[key], null]}
    return _or(found, {"type": "null"}) if found else found


def _or_template(found: Schema) -> Schema:
    if not found or ("string" in found.get("type", ()) and "pattern" not in found):
        return found
    if "pattern" in found:
        return found | {"pattern": f"{found['pattern']}|{_TEMPLATE}"}
    return _or(found, {"type": "string", "pattern": _TEMPLATE})


def meaning(model: type[Model], field: str) -> str:
    """Return a field's description in the model's docstring, else the warning that it has no effect."""
    texts = [_text(base) for base in model.__mro__ if issubclass(base, Model)]
    found = (" ".join(about(field, text)) for about in (_described, _mentioned) for text in texts)
    message, hint = remarks.UNUSED.get(model, {}).get(field, ("", ""))
    return next(filter(None, found), f"{message}; {hint}." if hint else message and f"{message}.")


def _described(field: str, text: str) -> Iterator[str]:
    """Yield the sentence that begins with the field, and those after it up to the next field."""
    is_its = False
    for sentence in _sentences(text):
        is_its = sentence.startswith(f"``{field}``") or (is_its and not sentence.startswith("``"))
        if is_its:
            yield sentence


def _mentioned(field: str, text: str) -> Iterator[str]:
    return (sentence for sentence in _sentences(text) if f"``{field}``" in sentence)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.)\s+", text)


def _text(model: type[Model]) -> str:
    """Return a model's docstring, and the text under each of its fields, in one line."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(model)}
    below = _below_fields(model.__module__).get(model.__name__, {})
    texts = [f"``{names[name]}``: {_lowered(text)}" for name, text in below.items()]
    return " ".join([*cleandoc(vars(model).get("__doc__") or "").split(), *texts])


@functools.cache
def _below_fields(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the text under each field of the classes of a module."""
    classes = [
        node for node in ast.parse(getsource(sys.modules[module])).body if isinstance(node, ast.ClassDef)
    ]
    return {one.name: dict(_texts_in(one)) for one in classes}


def _texts_in(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, " ".join(text.split())


def _lowered(text: str) -> str:
    """Return a sentence as it continues another one: a word of capitals stays."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
