"""Keys that are written outside their section, as where a file lost its indentation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from typing import Any, Final

from hpcdist.documents import fields
from hpcdist.documents.tree import value_at
from hpcdist.errors import ALL_KNOWN, Key, Path, Problem, dotted
from hpcdist.experiment.model import Experiment

_UNMISTAKABLE: Final = ((), ("run",), ("build",), ("batch",), ("environment",))
"""Sections whose keys mean the same everywhere; `seed` or `name` of an inner one may be meant otherwise."""

_sections = cache(lambda: fields.sections_of(Experiment))


def is_below(section: str, key: str) -> bool:
    """Whether an experiment has this key in a section of this name at its top."""
    return _sections().get(key, ())[:1] == (section,)


def section_for(key: str, value: object) -> Path | None:
    """Return the section of an experiment that takes this key with this value, None if no section does.

    That of the keys at the top of the file is empty.
    """
    section = () if key in fields.key_names(Experiment) else _sections().get(key)
    if section is None or value is None:
        return None
    nested: dict[str, Any] = reduce(lambda below, step: {str(step): below}, reversed(section), {key: value})
    _, problems = fields.build(Experiment, {"run": {"cmd": "true"}} | nested)
    whole = (*section, key)
    return None if any(problem.path[: len(whole)] == whole for problem in problems) else section


def with_section(problem: Problem, data: Mapping[str, Any]) -> Problem:
    """Return the problem of an unknown key with where it belongs, if that is clear and no key here is close.

    ``data``: that of the file, in which the key stands.
    """
    key = problem.path[-1] if problem.path else None
    if not isinstance(key, Key) or not problem.hint.startswith(ALL_KNOWN):
        return problem
    section = section_for(key, value_at(data, problem.path))
    if section not in _UNMISTAKABLE:
        return problem
    home = f"`{dotted((*section, key))}`" if section else f"`{key}` at the top of the file"
    return problem._replace(hint=f"write {home}")
