"""Commands as values: a scheduler returns a ``Command`` and reads a ``Completed``; it starts no process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from hpcdist.base import words


class Command(NamedTuple):
    """A process to start: its argv (never a string), environment, standard input and timeout.

    ``drop_environment``: prefixes of variables that are removed from the environment, except those in
    ``keep_environment``; ``environment`` is added last; ``timeout`` is in seconds. ``stdin``: text, or the
    file that is read. ``stdout``: the file that is written in place of the result's text. ``most``: the bytes
    that it may print; one that prints more is killed.
    """

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    drop_environment: tuple[str, ...] = ()
    keep_environment: tuple[str, ...] = ()
    stdin: str | Path = ""
    cwd: str = ""
    timeout: float = 60.0
    stdout: Path | None = None
    most: int = 1 << 27

    def __str__(self) -> str:
        return words.join(self.argv)

    def in_folder(self, folder: str) -> Command:
        """Return the command as one that runs in this folder; empty: in the current one.

        Some batch systems take the folder from PWD, which a shell has set.
        """
        if not folder:
            return self
        return self._replace(cwd=folder, environment=(*self.environment, ("PWD", folder)))


def python(program: str, text: str) -> tuple[str, str, str]:
    """Return the words by which this Python runs a text, and finds no module in the current folder.

    Option -P needs Python 3.11; -I would lose PYTHONPATH and what the user has installed.
    """
    return program, "-c", f"import sys; sys.path[:] = filter(None, sys.path); {text}"


class Completed(NamedTuple):
    """The result of a command; ``returncode`` is 124 if it ``timed_out``, 127 if it is ``missing``."""

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
    """Something that runs commands: ``hpcdist.base.shell.Shell``, or a ``FakeShell`` in tests."""

    def run(self, command: Command) -> Completed:
        """Run the command to its end, or to its timeout; a failure of the process raises nothing."""
        ...
