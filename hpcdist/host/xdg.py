"""The user's own folders, by the XDG Base Directory Specification, and homes in paths."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hpcdist.errors import ConfigError, Problem


def user_folder(variable: str, default: str, environment: Mapping[str, str]) -> Path | None:
    """Return ``hpcdist`` in the folder that the variable names, else in the default one of the user's home.

    None for a user without a home, as in containers that run under an unknown user id.
    """
    if named := environment.get(variable):
        return Path(named) / "hpcdist"
    with suppress(RuntimeError):
        return Path.home() / default / "hpcdist"
    return None


def expanded(path: str) -> Path:
    """Return a path whose leading ``~`` or ``~user`` is that home.

    Raises:
        ConfigError: if this machine does not know whose home it is.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        message = f"{path!r} is of a user that this machine does not know"
        raise ConfigError(Problem(message, hint="write an absolute path")) from None
