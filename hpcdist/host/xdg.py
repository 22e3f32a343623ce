"""The user's own folders, by the XDG Base Directory Specification."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def user_folder(variable: str, default: str, environment: Mapping[str, str]) -> Path | None:
    """Return ``hpcdist`` in the folder that the variable names, else in the default one of the user's home.

    None for a user without a home, as in containers that run under an unknown user id.
    """
    if named := environment.get(variable):
        return Path(named) / "hpcdist"
    with suppress(RuntimeError):
        return Path.home() / default / "hpcdist"
    return None
