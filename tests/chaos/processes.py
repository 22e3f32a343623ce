"""The processes of jobs on this machine, which can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final, NamedTuple

_KINDS: Final = {
    "program": "bash trial.sh",
    "worker": "bash -c trap hpcdist_ended_by",
    "script": "bash -- ",
    "launcher": "mpirun",
}


class Process(NamedTuple):
    """A process of a job: what it is, and its id."""

    kind: str
    pid: int


def of(place: Path) -> list[Process]:
    """Return the processes of jobs that were started in this folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cwd").readlink() != place:
                continue
            if b"HPCDIST_TOKEN=" not in (folder / "environ").read_bytes():
                continue
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        kind = next((kind for kind, begin in _KINDS.items() if words.startswith(begin)), "other")
        found.append(Process(kind, int(folder.name)))
    return found


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
