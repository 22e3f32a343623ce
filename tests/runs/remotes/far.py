"""A remote that answers what a test wants, in place of ssh: the kept connection counts as open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hpcdist.base.command import Command, Completed
from hpcdist.runs import rundir
from hpcdist.runs.remotes.channel import Channel, RemoteRunner
from hpcdist.runs.remotes.connection import Connection
from hpcdist.runs.rundir import Phase, Record, Run

At = tuple[str, bytes]
"""A section: its head and its contents."""


class Far:
    """Runs requests as ssh does: each answer has these sections, or those of the next one of ``answers``."""

    def __init__(self, *answers: Sequence[At]) -> None:
        self.answers = [*answers]
        self.requests: list[str] = []

    def run(self, command: Command) -> Completed:
        """Answer a request; all else is as it should be."""
        if isinstance(command.stdin, Path) and command.stdout:
            self.requests.append(command.stdin.read_text(errors="replace"))
            found = re.search("hpcdist_mark=(hpcdist-[0-9a-f]+)", self.requests[-1])
            assert found
            own = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            sections = [("begin", b""), *own, ("end", b"")]
            command.stdout.write_bytes(
                b"".join(f"\n{found[1]} {head}\n".encode() + data for head, data in sections)
            )
        return Completed(command, int(command.argv[0] == "rsync"))  # there is none

    def attach(self, command: Command) -> int:
        """Do as `run`."""
        return self.run(command).returncode


def channel(far: Far, folder: Path) -> Channel:
    """Return one whose socket is there."""
    made = Connection("box", "far", far, folder, sleep=lambda _: None)
    made.socket.touch()
    return Channel(made)


def runner(folder: Path, *answers: Sequence[At]) -> RemoteRunner:
    """Return the runner of a remote with these answers."""
    return RemoteRunner(channel(Far(*answers), folder))


def runs(folder: Path, count: int = 2, phase: Phase = Phase.SUBMITTED) -> list[Run]:
    """Return runs on that remote."""
    record = Record(
        "train",
        "t0",
        "box",
        "slurm",
        "",
        "2026-01-01T00:00:00+00:00",
        phase,
        remote="box",
        there="/far/train",
    )
    return [Run(rundir.create(folder / "runs", "train"), record) for _ in range(count)]
