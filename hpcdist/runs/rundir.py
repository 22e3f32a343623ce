"""Run directories: the truth about what was submitted, and the one module that writes it.

RUNS/mnist-3/
    experiment.yml  plan.json   what was asked and decided
    job.sh                      what runs
    record.json                 what became of the submission
    events                      what happened: ``started ID EPOCH RESTARTS``, ``ended ID EPOCH CODE``
    logs/
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist import words
from hpcdist.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.host import ownership, untrusted
from hpcdist.host.ownership import Trust
from hpcdist.runs import events, kept_plan, record
from hpcdist.runs.events import Event
from hpcdist.runs.kept_plan import KeptPlan
from hpcdist.runs.record import Phase, Record, written
from hpcdist.schedulers.job import Job

__all__ = ["Event", "Phase", "Record", "Run", "RunDirectory"]

_PLAN_BYTES: Final = 1 << 26
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class NotYours(PermissionError):  # noqa: N818 - it is no error that there are runs of others
    """The run directory belongs to somebody else, who may have put anything there."""


class RunDirectory(NamedTuple):
    """The paths of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name: that of its directory."""
        return self.path.name

    @property
    def script(self) -> Path:
        """The job script."""
        return self.path / "job.sh"

    @property
    def record_file(self) -> Path:
        """The record."""
        return self.path / "record.json"

    @property
    def logs(self) -> Path:
        """The folder of the job's output."""
        return self.path / "logs"

    def write(self, name: str, text: str) -> None:
        """Write one of the run's files, whole, readable by its owner only.

        Raises:
            OSError: when it cannot be written, or the directory belongs to somebody else.
        """
        with self.opened() as handle:
            untrusted.write(handle, name, text.encode(), 0o700 if name == self.script.name else 0o600)

    def append_event(self, event: Event) -> None:
        """Add a line to the event log.

        Raises:
            OSError: when it cannot be written, or the directory belongs to somebody else.
        """
        with self.opened() as handle:
            line = f"{event.what} {event.job_id} {event.at} {event.value}\n"
            untrusted.append(handle, "events", line.encode())

    @contextlib.contextmanager
    def opened(self, user: int | None = None) -> Iterator[int]:
        """Open the directory, so that what is done in it is done in this one, whatever has its name later.

        Raises:
            OSError: when that is not possible, or it belongs to somebody else.
        """
        with untrusted.folder(self.path) as handle:
            owner = os.fstat(handle).st_uid
            if owner != (os.geteuid() if user is None else user):
                raise NotYours(errno.EPERM, f"it belongs to {ownership.name_of(owner)}", str(self.path))
            yield handle

    def read(self, name: str, limit: int, user: int | None = None) -> bytes:
        """Return what one of the run's files holds.

        Raises:
            OSError: when it cannot be read, is no regular file or too large, or the run is somebody else's.
        """
        with self.opened(user) as handle:
            return untrusted.read(name, limit, at=handle)

    def record(self, user: int | None = None) -> Record:
        """Return the record.

        Raises:
            ConfigError: when it cannot be read, or is none; it names the file.
        """
        try:
            return record.read(self.read("record.json", record.MAX_BYTES, user))
        except NotYours as error:
            raise self._no_record(str(error.strerror), hint="its owner alone can ask for its job") from error
        except OSError as error:
            raise self._no_record(f"the record cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._no_record(f"this is no record: {error}") from error

    def _no_record(self, message: str, hint: str = "") -> ConfigError:
        hint = hint or f"`{self.path}` may be removed if its job is over"
        return ConfigError(Problem(message, hint=hint, place=Place(str(self.record_file), 1, 1)))

    def events(self) -> tuple[Event, ...]:
        """Return what the job wrote; lines that are torn or strange are left out."""
        try:
            return events.read(self.read("events", events.MAX_BYTES))
        except OSError:
            return ()

    def plan(self) -> KeptPlan:
        """Return what its plan says; nothing where that cannot be read."""
        import json

        try:
            data = json.loads(self.read("plan.json", _PLAN_BYTES))
        except (OSError, ValueError, RecursionError):
            data = None
        return kept_plan.read(data)


class Run(NamedTuple):
    """A run directory and what its record said when it was read."""

    directory: RunDirectory
    record: Record

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.name

    @property
    def job(self) -> Job | None:
        """The job, None while its id is not known."""
        if self.record.job_id is None:
            return None
        return Job(self.record.job_id, self.name, str(self.directory.path), self.record.token)


def choose(option: str | None, environment: Mapping[str, str]) -> Path:
    """Return where runs are kept: ``--runs-dir``, else ``$HPCDIST_RUNS_DIR``, else ``./runs``."""
    return Path(option or environment.get("HPCDIST_RUNS_DIR") or "runs").expanduser().absolute()


def create(runs_dir: Path, name: str, *, trusts: Trust = ownership.nobody) -> RunDirectory:
    """Make the next free directory ``<name>-<n>``, for its owner only; no other submitter gets the same.

    Raises:
        ConfigError: where somebody else could exchange what lies in the runs directory (`ownership.check`).
        OSError: when it cannot be made.
    """
    ownership.make(runs_dir)
    with untrusted.folder(runs_dir) as runs:
        ownership.check(runs_dir, runs, trusts=trusts)
        stem, number = _next(runs, name)
        while True:
            run = f"{stem}-{number}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(run, 0o700, dir_fd=runs)
                os.mkdir(f"{run}/logs", 0o700, dir_fd=runs)
                return RunDirectory(runs_dir.absolute() / run)
            number += 1


def next_name(runs_dir: Path, name: str) -> str:
    """Return what the next run will be called, should nobody else submit before."""
    stem, number = _next(runs_dir, name) if runs_dir.is_dir() else (words.slug(name), 1)
    return f"{stem}-{number}"


def _next(runs: int | Path, name: str) -> tuple[str, int]:
    begin = f"{words.slug(name)}-"
    with os.scandir(runs) as entries:
        ends = [entry.name.removeprefix(begin) for entry in entries if entry.name.startswith(begin)]
    return begin[:-1], 1 + max((int(text) for text in ends if _NUMBER.fullmatch(text)), default=0)


def remove(directory: RunDirectory) -> None:
    """Remove a run that has no job."""
    import shutil

    shutil.rmtree(directory.path)


def save(directory: RunDirectory, record: Record) -> None:
    """Write the record so that a reader, or a crash, sees the old one or the new one, whole.

    Raises:
        OSError: when it cannot be written, or the directory belongs to somebody else.
    """
    with directory.opened() as handle:
        untrusted.write(handle, "record.json", written(record))


def listing(runs_dir: Path) -> tuple[tuple[Run, ...], tuple[ConfigError, ...]]:
    """Return all runs, oldest first, and what is wrong with those that cannot be read or looked at."""
    runs, errors = [], []
    for path in runs_dir.iterdir() if runs_dir.is_dir() else ():
        directory = RunDirectory(path.absolute())
        try:
            runs.append(Run(directory, directory.record()))
        except ConfigError as error:
            absent = isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError))
            if not absent or os.path.lexists(directory.record_file):
                errors.append(error)
    return tuple(sorted(runs, key=lambda run: (run.record.created_at, run.name))), tuple(errors)


def find(runs_dir: Path, job: str) -> Run:
    """Return a run by its name, its directory or the batch system's id.

    Raises:
        ConfigError: when there is none, or more than one (batch systems count anew some day).
    """
    for path in (runs_dir / job, Path(job)):
        directory = RunDirectory(path.absolute())
        if os.path.lexists(directory.record_file):
            return Run(directory, directory.record())
    runs, _ = listing(runs_dir)
    found = [run for run in runs if run.record.job_id and job in (run.record.job_id, _number(run))]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run.name for run in found)
        raise ConfigError(Problem(f"{job} is the id of several runs", hint=f"say which: {names}"))
    hint = did_you_mean(job, [run.name for run in runs], most=5)
    raise ConfigError(Problem(f"there is no run {job!r} in {runs_dir}", hint=hint))


def _number(run: Run) -> str:
    return re.split(r"[;.\[]", run.record.job_id or "", maxsplit=1)[0]  # of ``12;cluster``, ``12[].server``


def digest(text: str) -> str:
    """Return what tells one experiment's text from another's."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def timestamp(seconds: float) -> str:
    """Write seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
