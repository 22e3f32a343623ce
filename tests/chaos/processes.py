"""The processes of jobs on this machine, which can be killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Final, NamedTuple

_KINDS: Final = {
    "program": re.compile(r"bash trial\.sh|\S*python\S* training\.py "),
    "worker": re.compile(r"\S*bash -c task ?\(\)"),
    "script": re.compile(  # or what supervises it, in its place
        r"bash -- |\S+ -l \S+/SC $|bash \S+\.script $|\S*bash \S+/job(\.\d+)?\.sh "
        r"|\S*python\S* -ISB \S+/runtime "
    ),
    "attempt": re.compile(r"\S*bash \S+/supervisor/attempt\.sh "),
    "launcher": re.compile(r"mpirun"),
}
_MARKS: Final = re.compile(rb"(?:^|\0)(HPCDIST_TOKEN|PBS_JOBID|LSB_JOBID)=([^\0]*)")
"""What the environment of a job has, here or under a stand-in of a batch system."""


class Process(NamedTuple):
    """A process of a job: what it is, its id, and that of its job, or its token without a batch system."""

    kind: str
    pid: int
    job: str = ""

    @property
    def leads(self) -> bool:
        """Whether it is the first process of its session, as a job's script is and no shell below it."""
        with contextlib.suppress(ProcessLookupError):
            return os.getsid(self.pid) == self.pid
        return False


def of(place: Path) -> list[Process]:
    """Return the processes of jobs that were started in this folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cwd").readlink() != place:
                continue
            marks = dict(_MARKS.findall((folder / "environ").read_bytes()))
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marks:
            kind = next((kind for kind, begin in _KINDS.items() if begin.match(words)), "other")
            own = marks.get(b"PBS_JOBID") or marks.get(b"LSB_JOBID") or marks[b"HPCDIST_TOKEN"]
            found.append(Process(kind, int(folder.name), own.decode()))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a process a signal, by default one that ends it at once, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
