"""The hostfile of Gradient in a command, which is hpcdist's own in a job."""

from __future__ import annotations

import re
from typing import Final

HOSTFILE: Final = "/generated/hostfile"
"""Where Gradient puts the hostfile (its documentation, "Distributed Training using Horovod")."""
_QUOTED: Final = re.compile(
    rf"""'[^']*' | "(?:[^"\\]|\\.)*" | \\. | {HOSTFILE}(?![\w.-])""", re.VERBOSE | re.DOTALL
)
_HERE: Final = re.compile(rf"{HOSTFILE}(?![\w.-])")


def with_hostfile(text: str) -> str:
    """Return a command in which ``/generated/hostfile`` is hpcdist's, however it is quoted."""
    return _QUOTED.sub(_with_ours, text)


def _with_ours(match: re.Match[str]) -> str:
    quotation = {"'": "'\"$HPCDIST_HOSTFILE\"'", '"': "$HPCDIST_HOSTFILE"}.get(match[0][0])
    if quotation is None:
        return '"$HPCDIST_HOSTFILE"' if match[0] == HOSTFILE else match[0]
    return _HERE.sub(lambda _: quotation, match[0])
