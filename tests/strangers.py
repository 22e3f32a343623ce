"""Files of somebody else: given away where the tests run as root, else looked at as if by another user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hpcdist.base import ownership

STRANGER: Final = 4711
USER: Final = 4712
"""As whom to look."""


def given(path: Path) -> str:
    """Let the path (a link itself) be another's than that of ``USER``, and return whose."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    return ownership.name_of(path.lstat().st_uid)
