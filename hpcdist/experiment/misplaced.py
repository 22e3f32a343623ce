"""Keys that are written outside their section, as where a file lost its indentation."""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

from hpcdist.documents import fields
from hpcdist.errors import Path
from hpcdist.experiment.model import Experiment

_sections = cache(lambda: fields.sections_of(Experiment))


def is_below(section: str, key: str) -> bool:
    """Whether an experiment has this key in a section of this name at its top."""
    return _sections().get(key, ())[:1] == (section,)


def section_for(key: str, value: object) -> Path | None:
    """Return the section of an experiment that takes this key with this value, None if no section does."""
    section = _sections().get(key)
    if section is None or value is None:
        return None
    nested: dict[str, Any] = reduce(lambda below, step: {str(step): below}, reversed(section), {key: value})
    _, problems = fields.build(Experiment, {"run": {"cmd": "true"}} | nested)
    whole = (*section, key)
    return None if any(problem.path[: len(whole)] == whole for problem in problems) else section
