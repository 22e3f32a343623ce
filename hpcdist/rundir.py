"""Run directories: the truth about what was submitted, and the one module that writes it.

RUNS/mnist-3/
    experiment.yml  plan.json   what was asked and decided
    job.sh  task.sh             what runs
    record.json                 what became of the submission
    events                      what happened: ``started ID EPOCH RESTARTS``, ``ended ID EPOCH CODE``
    logs/
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from hpcdist import words
from hpcdist.errors import ConfigError, Place, Problem, did_you_mean
from hpcdist.job import Job, JobState, Status

EXECUTABLE = frozenset({"job.sh", "task.sh"})

_EVENT: Final = re.compile(r"([a-z]+) (\S+) ([0-9]+) (\S+)")
_MAY_BE_NULL: Final = frozenset({"job_id", "submitted_at", "missing_since"})

Phase = Literal["created", "submitting", "submitted", "refused"]


class Record(NamedTuple):
    """What became of a submission.

    ``created``: the batch system was not asked yet. ``submitting``: it may have been asked, and the job may
    exist. ``submitted``: it gave ``job_id``. ``refused``: it said no, with ``message``. ``submitted_at``:
    when asking began. ``ended``: the state once certain. ``missing_since``: when first the job was unknown.
    """

    name: str
    token: str
    site: str
    scheduler: str
    digest: str
    created_at: str
    phase: Phase = "created"
    job_id: str | None = None
    submitted_at: str | None = None
    message: str = ""
    ended: Status | None = None
    missing_since: str | None = None


def _record(data: Any) -> Record:
    """Return the record that these data are.

    Raises:
        ValueError: when they are none.
    """
    known = set(Record._fields)
    if not isinstance(data, dict) or not known - {*Record._field_defaults} <= {*data} <= known:
        raise ValueError("its keys are others")
    ended = _ended(data.get("ended"))
    for key, value in data.items():
        if key != "ended" and not isinstance(value, str) and not (value is None and key in _MAY_BE_NULL):
            raise ValueError(f"{key} is {value!r}")
    record = Record(**{**data, "ended": ended})
    if record.phase not in get_args(Phase):
        raise ValueError(f"phase is {record.phase!r}")
    return record


def _ended(data: Any) -> Status | None:
    """Return the final state that these data are, None for none; a ``ValueError`` for others."""
    if data is None:
        return None
    try:
        status = Status(**{**data, "state": JobState(data["state"])})
    except (TypeError, KeyError):
        raise ValueError(f"ended is {data!r}") from None
    types = [type(value) for value in status[1:]]
    if not status.state.is_final or types not in ([str, int, str, str], [str, type(None), str, str]):
        raise ValueError(f"ended is {data!r}")
    return status


class Event(NamedTuple):
    """One line that a job left in its run directory; ``at`` is in seconds since 1970."""

    what: str
    job_id: str
    at: int
    value: str


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
        """Write one of the run's files, readable by its owner only."""
        mode = 0o700 if name in EXECUTABLE else 0o600
        handle = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def record(self) -> Record:
        """Return the record.

        Raises:
            ConfigError: when it cannot be read, or is none; it names the file.
        """
        import json  # not for those who have no runs

        try:
            return _record(json.loads(self.record_file.read_bytes()))
        except OSError as error:
            raise self._no_record(f"the record cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._no_record(f"this is no record: {error}") from error

    def _no_record(self, message: str) -> ConfigError:
        hint = f"`{self.path}` may be removed if its job is over"
        return ConfigError(Problem(message, hint=hint, place=Place(str(self.record_file), 1, 1)))

    def events(self) -> tuple[Event, ...]:
        """Return what the job wrote; lines that are torn or strange are left out."""
        try:
            text = (self.path / "events").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        rows = filter(None, map(_EVENT.fullmatch, text.splitlines()))
        return tuple(Event(row[1], row[2], int(row[3]), row[4]) for row in rows)

    def plan(self) -> dict[str, Any]:
        """Return the plan as its file has it; empty where it cannot be read."""
        import json

        try:
            data = json.loads((self.path / "plan.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}


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


def create(runs_dir: Path, name: str) -> RunDirectory:
    """Make the next free directory ``<name>-<n>``, for its owner only; no other submitter gets the same."""
    runs_dir.mkdir(parents=True, exist_ok=True)
    stem, number = _next(runs_dir, name)
    while True:
        path = runs_dir.absolute() / f"{stem}-{number}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            (path / "logs").mkdir(mode=0o700)
            return RunDirectory(path)
        number += 1


def next_name(runs_dir: Path, name: str) -> str:
    """Return what the next run will be called, should nobody else submit before."""
    return "{}-{}".format(*_next(runs_dir, name))


def _next(runs_dir: Path, name: str) -> tuple[str, int]:
    stem = words.slug(name)
    numbers = (path.name.removeprefix(f"{stem}-") for path in runs_dir.glob(f"{stem}-*"))
    return stem, 1 + max((int(text) for text in numbers if text.isascii() and text.isdigit()), default=0)


def remove(directory: RunDirectory) -> None:
    """Remove a run that has no job."""
    import shutil

    shutil.rmtree(directory.path)


def save(directory: RunDirectory, record: Record) -> None:
    """Write the record so that a reader, or a crash, sees the old one or the new one, whole."""
    import json
    import tempfile

    ended = record.ended and {**record.ended._asdict(), "state": record.ended.state.value}
    data = f"{json.dumps({**record._asdict(), 'ended': ended}, indent=2)}\n".encode()
    handle, temporary = tempfile.mkstemp(prefix=".record-", dir=directory.path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        Path(temporary).replace(directory.record_file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(directory.path)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
