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
    code.json  code.diff  code/ what its program is made of, by `hpcdist.runs.code_copy`
    tracking/                   what its program recorded, read by `hpcdist.tracking`
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, MsgspecError, Struct
from msgspec.structs import asdict, replace

from hpcdist.base import ownership, words
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.base.ownership import Trust, trust_none
from hpcdist.runs import elements, events, stored_plan
from hpcdist.runs.events import JOB_ID, Event
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import Job, Status, split_id

__all__ = ["Event", "Phase", "Record", "Run", "RunDirectory"]

_PLAN_BYTES: Final = 1 << 26
OPTIONS: Final = "options.json"
REMOVED: Final = ".removed-"
"""The name prefix of directories that are being removed."""

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
        """The run's name: the name of its directory."""
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
        with self.opened() as handle, ownership.below(handle, folders) as folder:
            ownership.write(folder, own, text.encode(), 0o700 if _SCRIPT.fullmatch(name) else 0o600)

    def append_event(self, event: Event) -> None:
        """Add a line to the event log.

        Raises:
            OSError: if it cannot be written, or the directory belongs to another user.
        """
        with self.opened() as handle:
            line = f"{event.what} {event.job_id} {event.at} {event.value}\n"
            ownership.append(handle, "events", line.encode())

    @contextlib.contextmanager
    def opened(self, user: int | None = None) -> Iterator[int]:
        """Open the directory, so that files are accessed in this one even if it is renamed.

        Raises:
            OSError: if it cannot be opened, or belongs to another user.
        """
        with ownership.folder(self.path) as handle:
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
            return ownership.read(name, limit, at=handle)

    def record(self, user: int | None = None) -> Record:
        """Return the record.

        Raises:
            ConfigError: if the file cannot be read or is invalid.
        """
        try:
            return decode(self.read(self.record_file.name, MAX_BYTES, user))
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

    ``later``: its other jobs, each as a run; ``record`` belongs to the first job.
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
        """How many of its first jobs a later one continues or repeats; their ends do not count."""
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
        """Return the events of each of its jobs; events of unknown jobs go to its first job."""
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
    with ownership.folder(runs_dir) as runs:
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
        ownership.write(handle, directory.record_file.name, encode(record))


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


# --- The record of a submission, and reading and writing its file; its content is validated


Stored = TypeVar("Stored", bound=Struct)

MAX_BYTES: Final = 1 << 20
_MAX_MESSAGE: Final = 1 << 16
"""Characters of a batch system's message that are stored, so that the record stays below ``MAX_BYTES``."""

_MOST_JOBS: Final = 10_000
"""The most jobs of one run."""

JobId = Annotated[str, Meta(pattern=rf"\A{JOB_ID}\Z")]
Token = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_]{1,64}\Z")]
Trials = Annotated[str, Meta(pattern=rf"\A(?:{elements.NUMBERS.pattern})\Z")]


class Phase(str, Enum):
    """The progress of a submission, in the order of its phases.

    ``created``: the batch system was not called yet. ``submitting``: it may have been, and the job may exist.
    ``refused``: it refused, with the record's ``message``. ``accepted``: the job is ``job_id``, which no
    `submit` has printed yet. ``submitted``: it was printed.
    """

    CREATED = "created"
    SUBMITTING = "submitting"
    REFUSED = "refused"
    ACCEPTED = "accepted"
    SUBMITTED = "submitted"

    def is_before(self, other: Phase) -> bool:
        """Whether this phase comes before the other."""
        order = list(Phase)
        return order.index(self) < order.index(other)


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the submission of one job of a run.

    ``submitted_at`` is the time of the call to the batch system. ``ended`` is the job's final state, once it
    cannot change any more. ``missing_since`` is when the batch system first did not list the job. ``clock``
    is the host whose clock gave the later of these two times. ``jobs``: how many jobs the run has, in the
    record of its first one. ``trials``: the trials of the elements, as in `Job`. ``goes_on``: this job and
    later ones repeat what earlier ones did not complete, so that the earlier ends do not end the run.
    ``restart_of``: the run whose experiment it was made from; ``copy_of``: the same, if with its outputs.
    ``operation``: its operation in a pipeline: ``diamond-1/prep``. ``file``: the user's file, if its text
    alone is the experiment. ``remote``: the name of the remote that has its jobs, and ``there`` its directory
    there; empty for this machine.
    """

    name: str
    token: Token
    site: str
    scheduler: str
    digest: str
    created_at: str
    phase: Phase = Phase.CREATED
    job_id: JobId | None = None
    submitted_at: str | None = None
    message: str = ""
    ended: Status | None = None
    missing_since: str | None = None
    clock: str = ""
    jobs: Annotated[int, Meta(gt=0, le=_MOST_JOBS)] = 1
    trials: Trials = ""
    goes_on: bool = False
    restart_of: str = ""
    copy_of: str = ""
    operation: str = ""
    remote: str = ""
    there: str = ""
    file: str = ""

    def further(self, token: str, created_at: str, trials: str) -> Record:
        """Return the record of a further job of its run."""
        own = Record(self.name, token, self.site, self.scheduler, self.digest, created_at, trials=trials)
        return replace(own, remote=self.remote, there=self.there)

    def changed(self, **changes: Any) -> Record:
        """Return the record with these changes, or unchanged if they would set back its phase."""
        phase: Phase = changes.get("phase", self.phase)
        return self if phase.is_before(self.phase) else replace(self, **changes)


def encode(record: Record) -> bytes:
    """Return the record as the text of its file."""
    ended = record.ended and _encodable(replace(record.ended, reason=record.ended.reason[:_MAX_MESSAGE]))
    short = _encodable(replace(record, message=record.message[:_MAX_MESSAGE], ended=ended))
    return msgspec.json.format(msgspec.json.encode(short)) + b"\n"


def _encodable(data: Stored) -> Stored:
    """Escape characters that UTF-8 cannot encode, as in file names of another encoding."""
    texts = ((name, text) for name, text in asdict(data).items() if type(text) is str)
    return replace(data, **{name: text.encode("utf-8", "backslashreplace").decode() for name, text in texts})


def decode(text: bytes) -> Record:
    """Return the record of a file's text.

    Raises:
        ValueError: if it is invalid, or its scheduler is unknown here.
    """
    try:
        record = msgspec.json.decode(text, type=Record)
    except msgspec.ValidationError as error:
        words, _, field = str(error).partition(" matching regex ")
        raise ValueError(f"invalid {field.rpartition('$.')[2].strip('`')}" if field else words) from error
    except msgspec.DecodeError as error:  # before msgspec 0.21 no ValueError
        raise ValueError(str(error)) from error
    if not record.phase.is_before(Phase.ACCEPTED) and record.job_id is None:
        raise ValueError(f"phase is {record.phase.value}, but job_id is missing")
    if record.scheduler not in schedulers:
        raise ValueError(f"unknown scheduler {record.scheduler!r}")
    if (end := record.ended) and not (end.state.is_final and abs(end.exit_code or 0) < 1 << 31):
        raise ValueError(f"invalid ended, {end.state.value} {end.exit_code or ''}".strip())
    for name in ("created_at", "submitted_at", "missing_since"):
        if (text := getattr(record, name)) is not None:
            _check_time(name, text)
    return record


def _check_time(key: str, text: str) -> None:
    try:
        datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"invalid {key} {reprlib.repr(text)}") from None
