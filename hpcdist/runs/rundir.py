"""Run directories, which hold all state of submissions; only this module writes them.

`hpcdist.runs.removing` removes them.

RUNS/mnist-3/
    experiment.yml  plan.json   the experiment and its plan
    job.sh                      the job script
    record.json                 the state of the submission
    events                      the event log: ``started ID EPOCH RESTARTS``, ``ended ID EPOCH CODE``,
                                ``restarted ID EPOCH CODE`` where the script runs its program again
    accounting.json             what the batch system measured, by `hpcdist.runs.accounting`
    logs/                       the output of the job
    code.json  code.diff  code/ what its program is made of, by `hpcdist.code`
    tracking/                   what its program recorded, read by `hpcdist.tracking`
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
from hpcdist.runs import events, record, stored_plan
from hpcdist.runs.events import Event
from hpcdist.runs.record import Phase, Record, encode
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import Job

__all__ = ["Event", "Phase", "Record", "Run", "RunDirectory"]

_PLAN_BYTES: Final = 1 << 26
REMOVED: Final = ".removed-"
"""How the names of directories begin that are being removed."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class NotOwner(PermissionError):  # noqa: N818 - runs of other users are not an error
    """The run directory belongs to another user, so its content cannot be trusted."""


class RunDirectory(NamedTuple):
    """The paths of one run."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name, which is that of its directory."""
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
        """The directory of the job's output."""
        return self.path / "logs"

    @property
    def outputs(self) -> Path:
        """The directory of what its program keeps; each element of an array has a folder in it."""
        return self.path / "outputs"

    def write(self, name: str, text: str) -> None:
        """Write one of the run's files atomically, readable by its owner only.

        Raises:
            OSError: if it cannot be written, or the directory belongs to another user.
        """
        with self.opened() as handle:
            untrusted.write(handle, name, text.encode(), 0o700 if name == self.script.name else 0o600)

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
            return record.decode(self.read("record.json", record.MAX_BYTES, user))
        except NotOwner as error:
            raise self._no_record(str(error.strerror), hint="only its owner can query its job") from error
        except OSError as error:
            raise self._no_record(f"the record cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._no_record(f"invalid record: {error}") from error

    def _no_record(self, message: str, hint: str = "") -> ConfigError:
        hint = hint or f"remove `{self.path}` if its job has ended"
        return ConfigError(Problem(message, hint=hint, place=Place(str(self.record_file), 1, 1)))

    def events(self) -> tuple[Event, ...]:
        """Return the event log; incomplete or invalid lines are skipped."""
        try:
            return events.read(self.read("events", events.MAX_BYTES))
        except OSError:
            return ()

    def plan(self) -> StoredPlan:
        """Return its plan; an empty one if that cannot be read."""
        import json

        try:
            data = json.loads(self.read("plan.json", _PLAN_BYTES))
        except (OSError, ValueError, RecursionError):
            data = None
        return stored_plan.read(data)


class Run(NamedTuple):
    """A run directory and its record as last read."""

    directory: RunDirectory
    record: Record

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.name

    @property
    def job(self) -> Job | None:
        """The job, None while its id is unknown."""
        if self.record.job_id is None:
            return None
        return Job(self.record.job_id, self.name, str(self.directory.path), self.record.token)

    @property
    def event_id(self) -> str:
        """The id of its job as in the event log; empty while it is unknown."""
        return (self.record.job_id or "").partition(";")[0]


def choose(option: str | None, environment: Mapping[str, str]) -> Path:
    """Return the runs directory: ``--runs-dir``, else ``$HPCDIST_RUNS_DIR``, else ``./runs``."""
    return Path(option or environment.get("HPCDIST_RUNS_DIR") or "runs").expanduser().absolute()


def create(runs_dir: Path, name: str, *, trusts: Trust = ownership.trust_none) -> RunDirectory:
    """Make the next free directory ``<name>-<n>``, with mode 0700; concurrent submissions get different ones.

    Raises:
        ConfigError: if other users could replace files of the runs directory (`ownership.check`).
        OSError: if it cannot be made.
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
    """Return the name of the next run, unless another submission comes first."""
    stem, number = _next(runs_dir, name) if runs_dir.is_dir() else (words.slug(name), 1)
    return f"{stem}-{number}"


def _next(runs: int | Path, name: str) -> tuple[str, int]:
    begin = f"{words.slug(name)}-"
    with os.scandir(runs) as entries:
        ends = [entry.name.removeprefix(begin) for entry in entries if entry.name.startswith(begin)]
    return begin[:-1], 1 + max((int(text) for text in ends if _NUMBER.fullmatch(text)), default=0)


def save(directory: RunDirectory, record: Record) -> None:
    """Write the record atomically: readers see either the old or the new one, even after a crash.

    Raises:
        OSError: if it cannot be written, or the directory belongs to another user.
    """
    with directory.opened() as handle:
        untrusted.write(handle, "record.json", encode(record))


def list_runs(runs_dir: Path) -> tuple[tuple[Run, ...], tuple[ConfigError, ...]]:
    """Return all runs, oldest first, and the errors of those that cannot be read."""
    runs, errors = [], []
    for path in runs_dir.iterdir() if runs_dir.is_dir() else ():
        if path.name.startswith(REMOVED):
            continue
        directory = RunDirectory(path.absolute())
        try:
            runs.append(Run(directory, directory.record()))
        except ConfigError as error:
            absent = isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError))
            if not absent or os.path.lexists(directory.record_file):
                errors.append(error)
    return tuple(sorted(runs, key=lambda run: (run.record.created_at, run.name))), tuple(errors)


def find(runs_dir: Path, job: str) -> Run:
    """Return a run by its name, its directory or its job id.

    Raises:
        ConfigError: if there is none, or more than one (batch systems reuse ids).
    """
    for path in (runs_dir / job, Path(job)):
        directory = RunDirectory(path.absolute())
        if os.path.lexists(directory.record_file):
            return Run(directory, directory.record())
    runs, _ = list_runs(runs_dir)
    found = [run for run in runs if run.record.job_id and job in (run.record.job_id, _number(run))]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run.name for run in found)
        raise ConfigError(Problem(f"{job} is the id of several runs", hint=f"use the name of one: {names}"))
    hint = did_you_mean(job, [run.name for run in runs], most=5)
    raise ConfigError(Problem(f"there is no run {job!r} in {runs_dir}", hint=hint))


def find_element(runs_dir: Path, job: str) -> tuple[Run, str]:
    """Return a run as `find` does, and the number of an element of its array, which may stand behind a slash.

    Raises:
        ConfigError: as `find` does.
    """
    run, slash, element = job.rpartition("/")
    if (
        slash
        and _NUMBER.fullmatch(element)
        and not os.path.lexists(runs_dir / job)
        and not Path(job).exists()
    ):
        return find(runs_dir, run), element
    return find(runs_dir, job), ""


def _number(run: Run) -> str:
    return re.split(r"[;.\[]", run.record.job_id or "", maxsplit=1)[0]  # of ``12;cluster``, ``12[].server``


def digest(text: str) -> str:
    """Return a hash of an experiment's text."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
