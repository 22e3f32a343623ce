"""The user's own folders, by the XDG Base Directory Specification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def own_folder(variable: str, usual: str, environment: Mapping[str, str]) -> Path | None:
    """Return ``hpcdist`` in the folder that the variable names, else in the usual one of the user's home.

    None for a user without a home, as in containers that run under a number that no one has.
    """
    if named := environment.get(variable):
        return Path(named) / "hpcdist"
    with suppress(RuntimeError):
        return Path.home() / usual / "hpcdist"
    return None
