"""An entry of the tables: a variable, its allowed values and the source."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from hpcdist.lint.kinds import TEXT, Kind

GUIDE: Final = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"

Use = Literal["configuration", "debugging", "diagnosis", "undocumented"]
"""What a variable is for. ``debugging``: only a work-around; ``diagnosis``: it makes a program print more."""


class Entry(NamedTuple):
    """One variable.

    ``default``: the documented one, "" where it is unknown or found at run time; ``since``: the version that
    introduced it, "" where unknown. ``gone``: since when it is deprecated or no longer read; ``successor``:
    what to set instead, "" for nothing. ``never``: why it must never be set by hand.
    """

    name: str
    kind: Kind = TEXT
    default: str = ""
    since: str = ""
    use: Use = "configuration"
    gone: str = ""
    successor: str = ""
    never: str = ""
    source: str = ""

    @property
    def where(self) -> str:
        """The source: the NCCL guide unless another is named."""
        return self.source or f"{GUIDE}#{self.name.lower().replace('_', '-')}"
