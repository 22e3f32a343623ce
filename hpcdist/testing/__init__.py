"""For tests, also those of plug-ins: a runner that starts nothing, and the contract of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hpcdist.host.command import Command, Completed

Rule = Sequence[str] | Callable[[Command], bool]
Answer = str | Completed | Callable[[Command], Completed]


@dataclass
class FakeShell:
    """A ``Runner`` that answers from a list and keeps what it was asked.

    Each rule is the beginning of an argv, or a predicate; its answer is what the program prints, a whole
    ``Completed`` (see ``failed``, ``MISSING``, ``TIMED_OUT``), or a function, which may raise. The first rule
    that fits counts; a command that none fits is an ``AssertionError``.
    """

    rules: Sequence[tuple[Rule, Answer]] = ()
    commands: list[Command] = field(default_factory=list)

    def run(self, command: Command) -> Completed:
        """Answer the command."""
        self.commands.append(command)
        for rule, answer in self.rules:
            if _fits(rule, command):
                return _answered(answer, command)
        raise AssertionError(f"nobody expected this command: {command}")

    @property
    def programs(self) -> list[str]:
        """The programs that were asked for, in order."""
        return [command.argv[0] for command in self.commands]


def failed(returncode: int, stderr: str = "", stdout: str = "") -> Completed:
    """Return an answer: the program ended with this exit code and said this."""
    return Completed(_NONE, returncode, stdout, stderr)


_NONE: Final = Command(())
MISSING: Final = Completed(_NONE, 127, stderr="No such file or directory", missing=True)
TIMED_OUT: Final = Completed(_NONE, 124, timed_out=True)


def _fits(rule: Rule, command: Command) -> bool:
    return rule(command) if callable(rule) else command.argv[: len(rule)] == tuple(rule)


def _answered(answer: Answer, command: Command) -> Completed:
    if isinstance(answer, str):
        return Completed(command, 0, answer)
    if isinstance(answer, Completed):
        return answer._replace(command=command)
    return answer(command)
