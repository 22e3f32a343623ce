"""Inputs and params of Polyaxon 1 and 2 (``V1IO`` and ``V1Param``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hpcdist.documents.tree import texts_in
from hpcdist.errors import Path
from hpcdist.importers.container import ignore_set_keys
from hpcdist.importers.polyaxon import contexts
from hpcdist.importers.polyaxon_v1.roles import put_variable
from hpcdist.importers.polyaxon_v1.text import Input, plain_type
from hpcdist.importers.reading import Reading

_SAME: Final = frozenset(
    (
        "int",
        "float",
        "bool",
        "str",
        "dict",
        "dict_of_dicts",
        "list",
        "uri",
        "auth",
        "path",
        "metric",
        "metadata",
    )
)
_TYPES: Final = {
    "gcs": "gcs_path", "s3": "s3_path", "wasb": "azure_path", "image": "str", "date": "str",
    "datetime": "str", "uuid": "str",     "any": None,
}  # fmt: skip
_UNTYPED: Final = frozenset(("git", "dockerfile", "event", "artifacts", "file", "tensorboard"))
_STRUCTURED: Final = frozenset(("dict", "dict_of_dicts", "list"))
_FLAGS: Final = {"isOptional": "is_optional", "isList": "is_list"}
_VALUES: Final = {
    "description": "description",
    "options": "options",
    "default": "default",
    "value": "default",
}
"""``default`` is the name of ``value`` in the previews of Polyaxon 1."""
_IGNORED: Final = {
    "validation": "values are checked by type and options only",
    "delayValidation": "values are checked before the job is submitted",
    "connection": "connections are a server's; write the path itself",
    "labels": "it is for a server of Polyaxon",
}


def inputs_of(read: Reading, bases: tuple[Path, ...], searched: Mapping[str, Input]) -> dict[str, Input]:
    """Take ``inputs``, ``outputs`` and ``params``; return the type of each param for texts.

    ``searched``: the params of a search, which need not be declared.
    """
    found: dict[str, Input] = {}
    declared: list[dict[str, Any]] = []
    for base in bases:
        for index, item in read.items(*base, "inputs"):
            if entry := _input(read, item, (*base, "inputs", index), found):
                declared.append(entry)
        _misplaced(read, (*base, "inputs"), list, "write `- {name: NAME, type: TYPE}`")
        read.move("outputs", *base, "outputs")
    for base in bases:
        params = _params(read, (*base, "params"), found, declared)
        if params:
            read.put("params", params, *base, "params")
    for base in bases:
        _refuse_templates(read, base, found)
    if declared:
        declared += [
            {"name": name, "is_optional": not one.required}
            for name, one in searched.items()
            if name not in found
        ]
        place = next(base for base in bases if read.peek(*base, "inputs"))
        read.put("inputs", declared, *place, "inputs")
    return {**searched, **found}


def _refuse_templates(read: Reading, base: Path, found: Mapping[str, Input]) -> None:
    """Refuse values with templates, which hpcdist does not fill in."""
    values: list[Path] = [(*base, "params", name) for name in read.keys(*base, "params")]
    values += [(*base, "inputs", index, "value") for index, _ in read.items(*base, "inputs")]
    for above in values:
        for path, text in texts_in(read.peek(*above), above):
            names = [*contexts.unknown_names(text, found.keys(), in_param=True)]
            if not names and "{{" in text:
                names = [contexts.unfilled(text)]
            for name in names:
                if not name.of_run:
                    read.refuse(*path, why=name.why, hint=name.hint)


def _misplaced(read: Reading, path: Path, kind: type, hint: str) -> None:
    node = read.peek(*path)
    if node and not isinstance(node, kind):
        read.refuse(*path, why=f"expected {'a list' if kind is list else 'keys and values'}", hint=hint)


def _input(read: Reading, item: object, path: Path, found: dict[str, Input]) -> dict[str, Any] | None:
    name = read.get(*path, "name")
    if not isinstance(item, Mapping) or not isinstance(name, str) or not name.isidentifier():
        read.refuse(
            *path, why="this is not an input that a template can use", hint="write `{name: NAME, type: TYPE}`"
        )
        return None
    entry: dict[str, Any] = {"name": name}
    kind = _type(read, (*path, "type"))
    if kind:
        entry["type"] = kind
    for key, native in _FLAGS.items():
        if read.get(*path, key) is not None:
            entry[native] = read.peek(*path, key)
    for key, native in _VALUES.items():
        if read.get(*path, key) is not None:
            entry[native] = read.peek(*path, key)
    if "default" in entry:
        entry["is_optional"] = True
    ignore_set_keys(read, _IGNORED, *path)
    structured = kind in _STRUCTURED or entry.get("is_list") is True or _is_structured(entry.get("default"))
    _destinations(read, name, path, structured=structured)
    form = read.get(*path, "argFormat")
    if read.get(*path, "isFlag") is True:
        entry["is_flag"] = True
    flag = kind == "bool" or "is_flag" in entry
    plain = plain_type(kind) and entry.get("is_list") is not True
    found[name] = Input(plain, flag, form if isinstance(form, str) else None)
    return entry


def _type(read: Reading, path: Path) -> str | None:
    kind = read.get(*path)
    if kind is None or (isinstance(kind, str) and kind in _SAME):
        return str(kind) if kind else None
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if not (isinstance(kind, str) and kind in _UNTYPED):
        read.warn(*path, why=f"values of type {kind!r} are not checked")
    return None


def _is_structured(value: object) -> bool:
    return isinstance(value, (dict, list))


def _destinations(read: Reading, name: str, path: Path, *, structured: bool) -> None:
    """Take ``toEnv``, which is a variable, and ``toInit``, which is an init step of Polyaxon.

    Polyaxon converts sections and lists to JSON for a variable (``get_env_var`` of
    https://github.com/polyaxon/polyaxon, core/polyaxon/polypod/common/env_vars.py).
    """
    variable = read.get(*path, "toEnv")
    if isinstance(variable, str) and variable:
        expression = f"{name}|tojson" if structured else name
        put_variable(read, variable, f"{{{{ {expression} }}}}", *path, "toEnv")
    elif variable not in (None, ""):
        read.refuse(
            *path, "toEnv", why=f"{variable!r} is not a variable name", hint="write the name of a variable"
        )
    if read.get(*path, "toInit"):
        hint = "get it before the job is submitted"
        read.refuse(*path, "toInit", why=f"Polyaxon would fetch {name} before the program starts", hint=hint)


def _is_from_run(param: object) -> bool:
    """Return whether a param has the value of another run."""
    value = param.get("value") if isinstance(param, Mapping) else param
    if isinstance(param, Mapping) and (param.get("ref") or "value" not in param):
        return True
    names = (name for _, text in texts_in(value, ()) for name in contexts.unknown_names(text))
    return any(name.of_run for name in names)


def _params(
    read: Reading, path: Path, found: dict[str, Input], declared: list[dict[str, Any]]
) -> dict[str, object]:
    _misplaced(read, path, Mapping, "write `NAME: {value: VALUE}`")
    params: dict[str, object] = {}
    for name in read.keys(*path):
        item = read.peek(*path, name)
        where = (*path, name, "value") if isinstance(item, Mapping) else (*path, name)
        if _is_from_run(item):
            read.get(*path, name)
            why = f"{name} comes from another run, which is not read"
            read.warn(*path, name, why=why, hint=f"give it with `-p {name}=VALUE`")
            for entry in declared:
                if entry["name"] == name:
                    entry.pop("default", None)
                    entry.pop("is_optional", None)
            continue
        params[name] = read.get(*where)
        read.get(*path, name, "ref")
        hidden = read.get(*path, name, "contextOnly") is True
        ignore_set_keys(read, {"connection": _IGNORED["connection"]}, *path, name)
        _destinations(read, name, (*path, name), structured=_is_structured(params[name]))
        if name not in found:
            found[name] = Input(isinstance(params[name], (int, float)))
            declared += [{"name": name, "is_optional": True}] if hidden and declared else []
    return params
