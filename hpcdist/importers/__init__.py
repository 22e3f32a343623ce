"""Importers: a file of a foreign form becomes the data of an experiment.

Each form is one file of this package; further ones come from plug-ins (entry points ``hpcdist.importers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from hpcdist.errors import Path, Problem
from hpcdist.registry import Registry
from hpcdist.tree import Map


class Imported(NamedTuple):
    """The data in the native form, and what is to be said about the file as it was.

    The paths of the remarks are those of the foreign file; every entry of ``data`` keeps its place.
    ``origins`` tells for native keys which key of the foreign file they come from.
    """

    data: Map
    remarks: tuple[Problem, ...] = ()
    origins: Mapping[Path, Path] = MappingProxyType({})


class Importer(Protocol):
    """One foreign form; both methods are pure and leave ``data`` as it is."""

    def recognises(self, data: Map) -> bool:
        """Tell whether the file is of this form, by its keys alone."""
        ...

    def read(self, data: Map) -> Imported:
        """Return the native form; what has no equivalent becomes a remark, an error where it matters.

        Keys that the form does not know stay in place, so that the model names them.
        """
        ...


_BUILTIN: Final = {"polyaxon": "hpcdist.importers.polyaxon:IMPORTER"}
registry: Final[Registry[Importer]] = Registry("importer", _BUILTIN)


def read(data: Map, form: str = "") -> Imported:
    """Return the native form of a file: by the named form, else by the first that recognises it.

    What nobody recognises is read as native, which is Polyaxon's form.

    Raises:
        ConfigError: when no importer has that name.
    """
    if form:
        return registry.get(form).read(data)
    found = (importer for importer in registry.objects() if importer.recognises(data))
    return next(found, registry.get("polyaxon")).read(data)
