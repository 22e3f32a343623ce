"""A finding of the doctor: what was checked, the result, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from hpcdist.errors import comma_list
from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import common
from hpcdist.schedulers.surveyors import Answers

Status = Literal["ok", "note", "warning", "error", "unknown"]

Which = Callable[[str], str | None]
"""Returns the path of a program on PATH, None if there is none: ``shutil.which``."""


class Finding(NamedTuple):
    """The result of one check; ``hint`` is what to do about it, empty where nothing needs to be done.

    ``note``: worth knowing; ``warning``: jobs may fail or be slow; ``error``: jobs will fail.
    ``unknown``: it could not be checked, and ``detail`` has the reason. ``numbers``: those of ``detail``.
    """

    group: str
    name: str
    status: Status
    detail: str
    hint: str = ""
    numbers: tuple[tuple[str, float], ...] = ()

    @property
    def needs_action(self) -> bool:
        """Whether it is a warning or an error."""
        return self.status in ("warning", "error")


def run_it_yourself(command: Command | str) -> str:
    """Return the hint for a command that failed or printed nothing readable."""
    return f"run `{command}` yourself; if it fails too, ask the centre"


def result_of(answers: Answers, command: Command) -> Completed:
    """Return the result of a command; one that was not run counts as missing."""
    results = (done for done in answers.completed if done.command == command)
    return next(results, Completed(command, 127, missing=True))


def failure(done: Completed) -> str:
    """Return why a command failed, with the first line of its error output."""
    program = done.command.argv[0]
    if done.missing:
        return f"there is no {program} here"
    lines = (line.strip() for line in done.stderr.splitlines() if line.strip())
    return f"{program} failed: {common.why(done, next(lines, None))}"


def merged_hosts(found: Iterable[tuple[str, Finding]]) -> Iterator[Finding]:
    """Yield the findings of several hosts; equal ones once, with the names of the hosts in front."""
    hosts_of: dict[Finding, dict[str, None]] = {}
    for host, finding in found:
        hosts_of.setdefault(finding, {})[host] = None
    for finding, hosts in hosts_of.items():
        yield finding._replace(detail=f"{comma_list(hosts)}: {finding.detail}")
