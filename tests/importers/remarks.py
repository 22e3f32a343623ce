"""The remarks and errors of the importers for a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError

LONGEST: Final = 90
"""A name of a case that is longer is cut."""


def remarks_of(text: str, form: str = "") -> list[str]:
    """Return all remarks about a file ``f.yml``, whether it is refused or not."""
    document = source.parse(text, "f.yml")
    try:
        found = importers.read(document.data, form).remarks
    except ConfigError as error:
        found = error.problems
    return [f"{problem.severity}: {document.locate(problem)}" for problem in found]


def errors_of(text: str, form: str = "") -> list[str]:
    """Return the errors of a file, an empty list for an accepted one."""
    return [line.removeprefix("error: ") for line in remarks_of(text, form) if line.startswith("error: ")]


def cases(*templates: str) -> Callable[[object], str]:
    """Return what names a case of a test by the lines of its texts that no template has, or by their end."""
    known = {line for template in templates for line in template.splitlines()}

    def name_of(value: object) -> str:
        texts = value if isinstance(value, list | tuple) else [value]
        lines = [line for text in texts if isinstance(text, str | int) for line in str(text).splitlines()]
        name = " ".join(line.strip() for line in lines if line not in known)
        return name if len(name) <= LONGEST else "..." + name[-LONGEST:].partition(" ")[2]

    return name_of
