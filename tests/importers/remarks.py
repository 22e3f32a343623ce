"""The remarks and errors of the importers for a file."""

from __future__ import annotations

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError


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
