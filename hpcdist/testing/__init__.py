"""For tests of hpcdist and its plug-ins: a runner that starts no process, and the contract of schedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hpcdist.base.command import Command, Completed

Rule = Sequence[str] | Callable[[Command], bool]
Answer = str | Completed | Callable[[Command], Completed]


@dataclass
class FakeShell:
    """A ``Runner`` that answers from a list of rules and records the commands.

    Each rule is the beginning of an argv, or a predicate; its answer is the program's output, a whole
    ``Completed`` (see ``failed``, ``MISSING``, ``TIMED_OUT``), or a function, which may raise. The first rule
    that matches applies; a command that matches none is an ``AssertionError``.
    """

    rules: Sequence[tuple[Rule, Answer]] = ()
    commands: list[Command] = field(default_factory=list)

    def run(self, command: Command) -> Completed:
        """Return the answer of the first rule that matches the command."""
        self.commands.append(command)
        for rule, answer in self.rules:
            if _matches(rule, command):
                return _completed(answer, command)
        raise AssertionError(f"unexpected command: {command}")

    @property
    def programs(self) -> list[str]:
        """The programs that were run, in order."""
        return [command.argv[0] for command in self.commands]


def failed(returncode: int, stderr: str = "", stdout: str = "") -> Completed:
    """Return the answer of a program that ended with this exit code and output."""
    return Completed(_NONE, returncode, stdout, stderr)


_NONE: Final = Command(())
MISSING: Final = Completed(_NONE, 127, stderr="No such file or directory", missing=True)
TIMED_OUT: Final = Completed(_NONE, 124, timed_out=True)


def _matches(rule: Rule, command: Command) -> bool:
    return rule(command) if callable(rule) else command.argv[: len(rule)] == tuple(rule)


def _completed(answer: Answer, command: Command) -> Completed:
    if isinstance(answer, str):
        return Completed(command, 0, answer)
    if isinstance(answer, Completed):
        return answer._replace(command=command)
    return answer(command)
