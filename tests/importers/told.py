"""What is told of a file of another system."""

from __future__ import annotations

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError


def said(text: str, form: str = "") -> list[str]:
    """Return all that is said of a file ``f.yml``, whether it is refused or not."""
    document = source.parse(text, "f.yml")
    try:
        found = importers.read(document.data, form).remarks
    except ConfigError as error:
        found = error.problems
    return [f"{problem.severity}: {document.locate(problem)}" for problem in found]


def errors(text: str, form: str = "") -> list[str]:
    """Return what makes the file be refused, nothing for one that is taken."""
    return [line.removeprefix("error: ") for line in said(text, form) if line.startswith("error: ")]
