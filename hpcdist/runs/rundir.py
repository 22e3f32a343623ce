"""Run directories, which hold all state of submissions; only this module writes them.

`hpcdist.runs.removing` removes them.

RUNS/mnist-3/
    experiment.yml  plan.json   the experiment, as its user wrote it, and its plan
    options.json                the options with which the experiment is read, as command-line words
    job.sh  job.sum  setup.sh   the job script, the digests of these, and the script's setup for steps
    runtime/                    what the script hands over to, by `hpcdist.script.runtime`
    record.json                 the state of the submission
    plan.2.json job.2.sh ...    of the run's second job, where it has several, as a search may; record.2.json
    events                      the event log: ``started ID EPOCH RESTARTS``, ``ended ID EPOCH CODE``,
                                ``restarted ID EPOCH CODE`` where the script runs its program again
    attempts/  cancelled        a file for each run of its program; that its user cancelled it
    accounting.json             what the batch system measured, by `hpcdist.runs.accounting`
    scaling.json                which run of a scaling study it is, by `hpcdist.studies`
    logs/                       the output of the job
    code.json  code.diff  code/ what its program is made of, by `hpcdist.code`
    tracking/                   what its program recorded, read by `hpcdist.tracking`
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import MsgspecError

from hpcdist import words
from hpcdist.errors import ConfigError, Place, Problem
from hpcdist.host import ownership, untrusted
from hpcdist.host.ownership import Trust, trust_none
from hpcdist.runs import events, record, stored_plan
from hpcdist.runs.events import Event
from hpcdist.runs.record import Phase, Record, encode
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import Job, split_id

__all__ = ["Event", "Phase", "Record", "Run", "RunDirectory"]

_PLAN_BYTES: Final = 1 << 26
OPTIONS: Final = "options.json"
REMOVED: Final = ".removed-"
"""How the names of directories begin that are being removed."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_SCRIPT: Final = re.compile(r"job(\.[0-9]+)?\.sh")


class NotOwner(PermissionError):  # noqa: N818 - runs of other users are not an error
    """The run directory belongs to another user, so its content cannot be trusted."""


class RunDirectory(NamedTuple):
    """The paths of one run, and of one of its jobs: the first, or the one with this ``number``."""

    path: Path
    number: int = 1

    @property
    def name(self) -> str:
        """The run's name, which is that of its directory."""
        return self.path.name

    def own(self, name: str) -> str:
        """Return the name of a file that each job has: ``job.sh``, of the second job ``job.2.sh``."""
        return words.numbered(name, self.number)

    @property
    def script(self) -> Path:
        """The job script."""
        return self.path / self.own("job.sh")

    @property
    def record_file(self) -> Path:
        """The record."""
        return self.path / self.own("record.json")

    @property
    def logs(self) -> Path:
        """The directory of the job's output."""
        return self.path / "logs"

    @property
    def outputs(self) -> Path:
        """The directory of what its program keeps; each element of an array has a folder in it."""
        return self.path / "outputs"

    def write(self, name: str, text: str) -> None:
        """Write one of the run's files atomically, readable by its owner only; its folders are made.

        Raises:
            OSError: if it cannot be written, or the directory belongs to another user.
        """
        *folders, own = name.split("/")
        with self.opened() as handle, untrusted.below(handle, folders) as folder:
            untrusted.write(folder, own, text.encode(), 0o700 if _SCRIPT.fullmatch(name) else 0o600)

    def append_event(self, event: Event) -> None:
        """Add a line to the event log.

        Raises:
            OSError: if it cannot be written, or the directory belongs to another user.
        """
        with self.opened() as handle:
            line = f"{event.what} {event.job_id} {event.at} {event.value}\n"
            untrusted.append(handle, "events", line.encode())

    @contextlib.contextmanager
    def opened(self, user: int | None = None) -> Iterator[int]:
        """Open the directory, so that files are accessed in this one even if it is renamed.

        Raises:
            OSError: if it cannot be opened, or belongs to another user.
        """
        with untrusted.folder(self.path) as handle:
            owner = os.fstat(handle).st_uid
            if owner != (os.geteuid() if user is None else user):
                raise NotOwner(errno.EPERM, f"it belongs to {ownership.name_of(owner)}", str(self.path))
            yield handle

    def read(self, name: str, limit: int, user: int | None = None) -> bytes:
        """Return the content of one of the run's files.

        Raises:
            OSError: if it cannot be read, is no regular file or too large, or the run is another user's.
        """
        with self.opened(user) as handle:
            return untrusted.read(name, limit, at=handle)

    def record(self, user: int | None = None) -> Record:
        """Return the record.

        Raises:
            ConfigError: if the file cannot be read or is invalid.
        """
        try:
            return record.decode(self.read(self.record_file.name, record.MAX_BYTES, user))
        except NotOwner as error:
            raise self._no_record(str(error.strerror), hint="only its owner can query its job") from error
        except OSError as error:
            raise self._no_record(f"the record cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._no_record(f"invalid record: {error}") from error

    def _no_record(self, message: str, hint: str = "") -> ConfigError:
        alone = f"remove `{self.path}` if its job has ended"
        hint = hint or (alone if self.number == 1 else "restore it: without it the run's jobs are not known")
        return ConfigError(Problem(message, hint=hint, place=Place(str(self.record_file), 1, 1)))

    def events(self) -> tuple[Event, ...]:
        """Return the event log; incomplete or invalid lines are skipped."""
        try:
            return events.read(self.read("events", events.MAX_BYTES))
        except OSError:
            return ()

    def plan(self) -> StoredPlan:
        """Return its plan; an empty one if that cannot be read."""
        try:
            return stored_plan.decode(self.read(self.own("plan.json"), _PLAN_BYTES))
        except (OSError, ValueError, MsgspecError, RecursionError):
            return StoredPlan()


class Run(NamedTuple):
    """A run directory and its record as last read.

    ``later``: its other jobs, each as a run of its own; the record is that of the first one.
    """

    directory: RunDirectory
    record: Record
    later: tuple[Run, ...] = ()

    @property
    def jobs(self) -> tuple[Run, ...]:
        """Each of its jobs as a run, in their order."""
        return (self, *self.later)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.name

    @property
    def continued(self) -> int:
        """How many of its jobs, from the first one on, a later one does again; their ends do not count."""
        return max((place for place, job in enumerate(self.jobs) if job.record.goes_on), default=0)

    @property
    def job(self) -> Job | None:
        """The job, None while its id is unknown."""
        if self.record.job_id is None:
            return None
        path, number = self.directory
        return Job(self.record.job_id, self.name, str(path), self.record.token, number, self.record.trials)

    @property
    def event_id(self) -> str:
        """The id of its job as in the event log; empty while it is unknown."""
        return (self.record.job_id or "").partition(";")[0]

    @property
    def is_followed(self) -> bool:
        """Whether its jobs are attempts of one training, each after the one before."""
        return any(job.record.goes_on and not job.record.trials for job in self.later)

    def by_job(self, events: Iterable[Event]) -> list[list[Event]]:
        """Return the events of each of its jobs; those of jobs that are none of it are its first job's."""
        logs: list[list[Event]] = [[] for _ in self.jobs]
        known = {job.event_id: log for job, log in zip(self.jobs, logs, strict=True)}
        rest = logs[0] if self.directory.number == 1 else []
        for event in events:
            known.get(event.job_id, known.get(split_id(event.job_id)[0], rest)).append(event)
        return logs


def choose(option: str | None, environment: Mapping[str, str]) -> Path:
    """Return the folder of ``--runs-dir``, else $HPCDIST_RUNS_DIR, else ``./runs``; raise as `expanded`."""
    return ownership.expanded(option or environment.get("HPCDIST_RUNS_DIR") or "runs").absolute()


def create(runs_dir: Path, name: str, *, above: int = 0, trusts: Trust = trust_none) -> RunDirectory:
    """Make the next free directory ``<name>-<n>`` above a number, with mode 0700; concurrent calls differ.

    Raises:
        ConfigError: if other users could replace files of the runs directory (`ownership.check`).
        OSError: if it cannot be made.
    """
    ownership.make(runs_dir)
    with untrusted.folder(runs_dir) as runs:
        ownership.check(runs_dir, runs, trusts=trusts)
        stem, number = _next(runs, name, above)
        while True:
            run = f"{stem}-{number}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(run, 0o700, dir_fd=runs)
                os.mkdir(f"{run}/logs", 0o700, dir_fd=runs)
                return RunDirectory(runs_dir.absolute() / run)
            number += 1


def next_name(runs_dir: Path, name: str) -> str:
    """Return the name of the next run, unless another submission comes first."""
    stem, number = _next(runs_dir, name) if runs_dir.is_dir() else (words.slug(name), 1)
    return f"{stem}-{number}"


def _next(runs: int | Path, name: str, above: int = 0) -> tuple[str, int]:
    begin = f"{words.slug(name)}-"
    with os.scandir(runs) as entries:
        ends = [entry.name.removeprefix(begin) for entry in entries if entry.name.startswith(begin)]
    return begin[:-1], 1 + max([above, *(int(text) for text in ends if _NUMBER.fullmatch(text))])


def save(directory: RunDirectory, record: Record) -> None:
    """Write the record atomically: readers see either the old or the new one, even after a crash.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened() as handle:
        untrusted.write(handle, directory.record_file.name, encode(record))


def read(directory: RunDirectory) -> Run:
    """Return the run in this directory, with all its jobs.

    Raises:
        ConfigError: if a record cannot be read or is invalid.
    """
    first = directory.record()
    numbers = range(2, first.jobs + 1)
    others = (directory._replace(number=number) for number in numbers)
    return Run(directory, first, tuple(Run(other, other.record()) for other in others))


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
