"""The record of a submission, and reading and writing its file; its content is validated."""

from __future__ import annotations

import reprlib
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from hpcdist.runs import elements
from hpcdist.runs.events import JOB_ID
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import Status

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
    record of its first one. ``trials``: those of the elements, as in `Job`. ``goes_on``: this job and
    later ones do again what those before it did not complete, so that their ends are not that of the run.
    ``restart_of``, ``copy_of``: the run whose experiment it was made from, of a copy with its outputs.
    ``operation``: which one of a pipeline it is: ``diamond-1/prep``.
    ``file``: the user's file of which it was made, if that is its experiment alone.
    ``remote``: the name of the remote that has its jobs, and ``there`` its directory there; empty for this
    machine.
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
    """Return it with characters escaped that UTF-8 cannot encode, as those of file names in other codes."""
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
