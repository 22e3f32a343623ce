"""Outputs of Azure ML, which are kept below the directory of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.importers.azure.command import Output
from hpcdist.importers.azure.inputs import FILES, HIDDEN, TYPES, is_section
from hpcdist.importers.reading import Reading

_KEPT: Final = "outputs are kept in the directory of the run, below $HPCDIST_OUTPUTS"
_OUTPUT_IGNORED: Final = {
    **dict.fromkeys(
        ("path", "mode", "name", "version", "datastore", "datastore_mode", "is_control", "early_available",
         "data", "optional", "is_link_mode", "display_name", "description"), _KEPT,
    ),
    "intellectual_property": HIDDEN,
}  # fmt: skip


def own_name(output: str) -> str:
    """Return the name of an output's file or folder below the outputs of the run."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", output).lstrip(".-") or "output"


def read_outputs(read: Reading) -> dict[str, Output]:
    """Take the outputs: names below the directory of the run."""
    found: dict[str, Output] = {}
    if not is_section(read, "outputs"):
        return found
    for name in read.keys("outputs"):
        value = read.peek("outputs", name)
        kind = read.peek("outputs", name, "type") if isinstance(value, Mapping) else None
        found[name] = Output(
            own_name(name), is_file=str(kind).lower() in FILES | TYPES.keys()
        )  # a value is a file
        if isinstance(value, Mapping) and value:
            read.get("outputs", name, "type")
            read.ignore_all(_OUTPUT_IGNORED, "outputs", name)
        elif value is None or value == {}:
            read.get("outputs", name)
        else:
            read.ignore("outputs", name, why=_KEPT)
    return found
