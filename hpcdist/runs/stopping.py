"""The end of a search before its last trial, or of a training before its last attempt: files of the run."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from hpcdist.host.command import Command
from hpcdist.runs.rundir import RunDirectory

FILE: Final = "stop"
_MOST: Final = 4096
_BY_CANCEL: Final = "by hpcdist cancel\n"
_CANCELLED: Final = "cancelled"
"""The file of a run whose user cancelled it: a job that is submitted at this moment begins no attempt."""


def request(directory: RunDirectory, reason: str) -> None:
    """Let no further trial start.

    Raises:
        OSError: if the file cannot be written, or the directory belongs to another user.
    """
    directory.write(FILE, f"{reason}\n")


def is_requested(directory: RunDirectory) -> bool:
    """Return whether no further trial is to start."""
    return (directory.path / FILE).exists()


def reason(directory: RunDirectory) -> str:
    """Return why no further trial is to start, as `request` has it; empty where that cannot be read."""
    try:
        return directory.read(FILE, _MOST).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def mark_cancelled(directory: RunDirectory) -> None:
    """Let no further job of the run be submitted and no attempt begin, as far as the disk permits."""
    with contextlib.suppress(OSError):
        directory.write(_CANCELLED, _BY_CANCEL)


def command_to_mark_cancelled(directories: Sequence[RunDirectory]) -> Command:
    """Return the command that does so on another machine."""
    script = f'for run; do (umask 077 && echo "{_BY_CANCEL.strip()}" >"$run/{_CANCELLED}"); done'
    return Command(("sh", "-c", script, "hpcdist", *(str(one.path) for one in directories)))


def command_to_unmark_cancelled(directories: Sequence[RunDirectory]) -> Command:
    """Return the command that undoes that there: the batch system refused to cancel these runs."""
    return Command(("rm", "-f", "--", *(str(one.path / _CANCELLED) for one in directories)))


def unmark_cancelled(directory: RunDirectory) -> None:
    """Let it go on: the batch system refused to cancel it."""
    with contextlib.suppress(OSError), directory.opened():
        (directory.path / _CANCELLED).unlink(missing_ok=True)


def is_cancelled(directory: RunDirectory) -> bool:
    """Return whether its user has cancelled the run, and not resumed it since."""
    return (directory.path / _CANCELLED).exists()


def withdraw(directory: RunDirectory, *, attempts: bool) -> None:
    """Let trials start again, and with ``attempts`` further ones of a program, which are counted anew.

    Raises:
        OSError: if a file cannot be removed or written, or the directory belongs to another user.
    """
    with directory.opened():
        (directory.path / FILE).unlink(missing_ok=True)
        (directory.path / _CANCELLED).unlink(missing_ok=True)
        for first in directory.path.glob("attempts/**/0") if attempts else ():
            if not first.is_file():  # the attempts of element 0
                continue
            count = sum(file.name.isdecimal() and file.is_file() for file in first.parent.iterdir())
            new = first.parent / "first.new"
            new.write_text(f"{count}\n")
            new.replace(first.parent / "first")
            (first.parent / "over").unlink(missing_ok=True)
