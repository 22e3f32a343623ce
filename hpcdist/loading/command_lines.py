"""Command lines of other tools, in place of a job file."""

from __future__ import annotations

from collections.abc import Sequence

from hpcdist import importers
from hpcdist.base.tree import Document
from hpcdist.experiment.writing import write


def read(words: Sequence[str], form: str) -> Document:
    """Return a command line of the tool of that form as a document, whose text is its options as YAML.

    Raises:
        ConfigError: when no importer has that name, or it reads files only, or not these words.
    """
    data = importers.from_command_line(words, form)
    return Document(data, f"a command line of {form}", write(data))


def formats() -> str:
    """Return the forms whose command lines are read, with commas between them."""
    registry, none = importers.registry, importers.Form.from_command_line
    forms = {name: type(registry.get(name)) for name in registry.names()}
    return ", ".join(name for name, kind in forms.items() if getattr(kind, none.__name__, none) is not none)
