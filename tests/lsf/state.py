"""What the stand-in of LSF remembers: a folder with a file for each job, named by ``FAKE_LSF``."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Config:
    """The cluster. ``version`` 7 knows no columns of one's own, 9 no JSON; ``minute`` is how long one is.

    ``launch_host``: where scripts of a CSM machine run; empty: on the first host. ``remote``: other hosts are
    reached by ssh; else all of it is this machine. ``backwards``: jsrun numbers hosts from the last one.
    """

    hosts: tuple[str, ...]
    launch_host: str = ""
    csm: bool = False
    remote: bool = False
    backwards: bool = False
    version: int = 10
    minute: float = 60.0
    grace: float = 1.0
    slots: int = 42
    gpus: int = 6


@dataclass(frozen=True)
class Job:
    """One job, or one element of an array."""

    id: int
    index: int
    name: str
    description: str
    queue: str
    hosts: tuple[str, ...]
    slots: int
    cwd: str
    output: str
    minutes: int | None
    warning: tuple[str, int] | None = None
    waits_for: str = ""
    stat: str = "PEND"
    exit_code: str = ""
    exit_reason: str = ""
    pend_reason: str = "New job is waiting for scheduling;"
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.id}.{self.index}"

    @property
    def shown(self) -> str:
        return f"{self.id}[{self.index}]" if self.index else str(self.id)

    @property
    def is_over(self) -> bool:
        return self.stat in ("DONE", "EXIT")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def complain(text: object) -> None:
    sys.stderr.write(f"{text}\n")


def folder() -> Path:
    return Path(os.environ["FAKE_LSF"])


def config() -> Config:
    raw = json.loads((folder() / "config.json").read_text())
    return Config(**raw | {"hosts": tuple(raw["hosts"])})


def make(where: Path, settings: Config) -> Path:
    """Make a cluster without jobs."""
    (where / "jobs").mkdir(parents=True, exist_ok=True)
    (where / "config.json").write_text(json.dumps(asdict(settings)))
    (where / "next").write_text("101")
    return where


@contextmanager
def locked() -> Iterator[None]:
    with (folder() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def next_id() -> int:
    with locked():
        number = int((folder() / "next").read_text())
        (folder() / "next.new").write_text(str(number + 1))  # bsub may be killed at any moment
        (folder() / "next.new").rename(folder() / "next")
    return number


def submitted(key: str) -> Path:
    """Return the file of a job that is none until an sbatchd has it: bsub may be killed before."""
    return folder() / "jobs" / f"{key}.submitted"


def submit(job: Job) -> None:
    submitted(job.key).write_text(json.dumps(asdict(job)))


def accept(key: str) -> None:
    submitted(key).rename(folder() / "jobs" / f"{key}.json")


def save(job: Job) -> None:
    path = folder() / "jobs" / f"{job.key}.json"
    path.with_suffix(".new").write_text(json.dumps(asdict(job)))
    path.with_suffix(".new").rename(path)


def load(key: str) -> Job:
    raw: dict[str, Any] = json.loads((folder() / "jobs" / f"{key}.json").read_text())
    return Job(**raw | {"hosts": tuple(raw["hosts"]), "warning": tuple(raw["warning"] or ()) or None})


def jobs() -> list[Job]:
    keys = [path.stem for path in (folder() / "jobs").glob("*.json")]
    return sorted(map(load, keys), key=lambda job: (job.id, job.index))


def update(key: str, **changes: Any) -> Job:
    """Change a job that is not over."""
    with locked():
        job = load(key)
        if not job.is_over:
            save(job := replace(job, **changes))
    return job
