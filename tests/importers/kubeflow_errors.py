"""The errors of a file of Kubeflow."""

from __future__ import annotations

from hpcdist import importers, source
from hpcdist.errors import ConfigError, errors_in


def errors(text: str) -> list[str]:
    """Return what makes the file be refused, nothing for one that is taken."""
    document = source.parse(text, "k.yml")
    try:
        found = importers.read(document.data).remarks
    except ConfigError as error:
        found = error.problems
    return [str(problem) for problem in errors_in(found)]
