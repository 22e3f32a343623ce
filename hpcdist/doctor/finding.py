"""A finding of the doctor: what was looked at, how it is, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from hpcdist.errors import listed
from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import answers
from hpcdist.schedulers.surveyors import Answers

Status = Literal["ok", "note", "warning", "error", "unknown"]

Which = Callable[[str], str | None]
"""Where a program is found on PATH."""


class Finding(NamedTuple):
    """One thing that was looked at; ``do`` is what to do about it, empty where all is well.

    ``note``: as it may well be; ``warning``: jobs may fail of it, or be slow; ``error``: they will fail.
    ``unknown``: it could not be looked at, and ``seen`` tells why.
    """

    group: str
    name: str
    status: Status
    seen: str
    do: str = ""

    @property
    def is_odd(self) -> bool:
        """Whether somebody has to do something about it."""
        return self.status in ("warning", "error")


def by_hand(command: Command | str) -> str:
    """Return what to do where a command gave no answer that can be read."""
    return f"run `{command}` yourself; where it fails for you too, ask the centre"


def said(heard: Answers, command: Command) -> Completed:
    """Return how a command ended; one that was not run is missing."""
    found = (done for done in heard.completed if done.command == command)
    return next(found, Completed(command, 127, missing=True))


def failure(done: Completed) -> str:
    """Return why a command gave no answer, with the first line that it said."""
    program = done.command.argv[0]
    if done.missing:
        return f"there is no {program} here"
    lines = (line.strip() for line in done.stderr.splitlines() if line.strip())
    return f"{program} gives no answer: {answers.why(done, next(lines, None))}"


def folded(found: Iterable[tuple[str, Finding]]) -> Iterator[Finding]:
    """Yield the findings of several hosts, those that are alike once, with the hosts in front."""
    alike: dict[Finding, dict[str, None]] = {}
    for host, finding in found:
        alike.setdefault(finding, {})[host] = None
    for finding, hosts in alike.items():
        yield finding._replace(seen=f"{listed(hosts)}: {finding.seen}")
