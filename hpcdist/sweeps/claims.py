"""The claims of packed trials, which workers make (``templates/runtime/supervisor/packed.py``).

They are links ``claims/TRIAL.START``, and files ``again/TRIAL.START`` of returned trials. START is 0, and one
more each time that a trial was returned. ``cancelled_trials/TRIAL`` is there for each trial that its user
cancelled alone: its worker ends its program within a second or two, and none begins it. (``cancelled`` is the
file of a run that was cancelled as a whole: `hpcdist.runs.stopping`.)
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.host.command import Command
from hpcdist.runs.rundir import RunDirectory

_CANCELLED: Final = "cancelled_trials"
_CLAIM: Final = re.compile(r"([1-9][0-9]{0,8})\.([0-9]{1,9})")


def return_trials(directory: RunDirectory, numbers: Collection[int]) -> None:
    """Return these trials, which nobody runs any more, so that a worker takes them again.

    Those that were never claimed need not be returned; none of them is cancelled any more.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened():
        for number in cancelled(directory) & {*numbers}:
            (directory.path / _CANCELLED / str(number)).unlink(missing_ok=True)
        for number, start in _last(directory.path / "claims").items():
            if number in numbers:
                (directory.path / "again").mkdir(mode=0o700, exist_ok=True)
                (directory.path / "again" / f"{number}.{start + 1}").touch(mode=0o600)


def cancel(directory: RunDirectory, number: int) -> None:
    """Cancel a trial alone, whether or not it has begun.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened():
        (directory.path / _CANCELLED).mkdir(mode=0o700, exist_ok=True)
        (directory.path / _CANCELLED / str(number)).touch(mode=0o600)


def command_to_cancel(folder: str, number: int) -> Command:
    """Return the command that does so on another machine, where this is the run directory."""
    script = 'mkdir -p -m 700 "$1" && : >"$1/$2"'
    return Command(("sh", "-c", script, "hpcdist", f"{folder}/{_CANCELLED}", str(number)))


def cancelled(directory: RunDirectory) -> set[int]:
    """Return the trials that were cancelled alone."""
    with suppress(OSError):
        return {int(path.name) for path in (directory.path / _CANCELLED).iterdir() if path.name.isdecimal()}
    return set()


def _last(folder: Path) -> dict[int, int]:
    """Return the number of the last start of each trial that was claimed."""
    found: dict[int, int] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _CLAIM.fullmatch(path.name):
            number, start = int(match[1]), int(match[2])
            found[number] = max(start, found.get(number, 0))
    return found
