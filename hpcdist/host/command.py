"""Saying is not doing: a scheduler returns a ``Command`` and reads a ``Completed``."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hpcdist import words


class Command(NamedTuple):
    """A process to start: its argv (never a string), and what it may take.

    ``drop_environment`` names prefixes of variables that must not reach the process, but for those in
    ``keep_environment``; ``environment`` is added on top; ``timeout`` is in seconds.
    """

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    drop_environment: tuple[str, ...] = ()
    keep_environment: tuple[str, ...] = ()
    stdin: str = ""
    cwd: str = ""
    timeout: float = 60.0

    def __str__(self) -> str:
        return words.join(self.argv)


class Completed(NamedTuple):
    """What came of a command; ``returncode`` is 124 where ``timed_out``, 127 where ``missing``."""

    command: Command
    returncode: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether the process ended with exit code 0."""
        return self.returncode == 0


class Runner(Protocol):
    """Something that runs commands: ``hpcdist.host.shell.Shell``, or a ``FakeShell`` in tests."""

    def run(self, command: Command) -> Completed:
        """Run the command to its end, or to its timeout; never raises for what the process does."""
        ...
