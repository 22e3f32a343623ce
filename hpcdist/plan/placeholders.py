"""Placeholders: values that are known only in the job or in a task, in a text that is filled in later.

The script leaves them to bash (``Template.bash``); ``hpcdist plan`` shows the value of a task before the job
(``Template.filled``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hpcdist.base.fields import Model
from hpcdist.base.words import in_double_quotes


class Placeholder(Model, frozen=True, tag=True):
    """A variable of the script; the first ``old`` in its value, where one is given, becomes ``new``."""

    name: str
    old: str = ""
    new: str = ""

    def renamed(self, old: str, new: str) -> Placeholder:
        """Return the same, with another word in its value."""
        return Placeholder(self.name, old, new)


class Peers(Model, frozen=True, tag=True):
    """Where the replicas of a role listen, as JSON strings with commas between: the script's ``peers``."""

    role: str


RUN_DIR: Final = Placeholder("HPCDIST_RUN_DIR")
OUTPUTS: Final = Placeholder("HPCDIST_OUTPUTS")
JOB_ID: Final = Placeholder("HPCDIST_JOB_ID")
HEAD_ADDRESS: Final = Placeholder("HPCDIST_HEAD_ADDRESS")
PORT: Final = Placeholder("HPCDIST_PORT")
SIZE: Final = Placeholder("HPCDIST_SIZE")
NODES: Final = Placeholder("HPCDIST_NODES")
RANK: Final = Placeholder("HPCDIST_RANK")
LOCAL_RANK: Final = Placeholder("HPCDIST_LOCAL_RANK")
LOCAL_SIZE: Final = Placeholder("HPCDIST_LOCAL_SIZE")
NODE: Final = Placeholder("HPCDIST_NODE")
ROLE: Final = Placeholder("HPCDIST_ROLE")
INDEX: Final = Placeholder("HPCDIST_INDEX")
ADDRESS: Final = Placeholder("HPCDIST_ADDRESS")
PROCESSES: Final = Placeholder("HPCDIST_PROCESSES")
GPUS: Final = Placeholder("HPCDIST_GPUS")

_GOES_ON: Final = re.compile(r"\w", re.ASCII)


class Template(Model, frozen=True):
    """A text with placeholders."""

    parts: tuple[str | Placeholder | Peers, ...]

    @property
    def bash(self) -> str:
        """The text as it stands between double quotes in a script."""
        return self.text("$(peers {})")

    def text(self, peers: str) -> str:
        """Return it as it stands between double quotes, with this format for the addresses of a role."""
        return "".join(
            peers.format(part.role) if isinstance(part, Peers) else _bash(part, following)
            for part, following in zip(self.parts, (*self.parts[1:], ""), strict=False)
        )

    @property
    def peers(self) -> tuple[str, ...]:
        """The roles whose replicas' addresses are in it."""
        return tuple(part.role for part in self.parts if isinstance(part, Peers))

    def filled(self, value: Callable[[Placeholder | Peers], str]) -> str:
        """Return the text with these values."""
        return "".join(part if isinstance(part, str) else value(part) for part in self.parts)


def template(*parts: str | Placeholder | Peers) -> Template:
    """Return a text of these parts; empty ones are left out, so that each sees what really follows it."""
    return Template(tuple(part for part in parts if part != ""))


def _bash(part: str | Placeholder, following: str | Placeholder | Peers) -> str:
    if isinstance(part, str):
        return in_double_quotes(part)
    if part.old:
        return f"${{{part.name}/{part.old}/{part.new}}}"
    goes_on = isinstance(following, str) and _GOES_ON.match(following)
    return f"${{{part.name}}}" if goes_on else f"${part.name}"
