"""The record of a submission, as a value and as the text of its file; whatever stands there is checked."""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState, Status

MAX_BYTES: Final = 1 << 20
_LONGEST: Final = 1 << 16
"""More of a batch system's message is not kept: the record must be read again."""

_WIDEST: Final = 80
"""More of a strange value is not shown."""

_MAY_BE_NULL: Final = frozenset({"job_id", "submitted_at", "missing_since"})
JOB_ID: Final = "[A-Za-z0-9\u0192][A-Za-z0-9\u0192_.;:@+\\[\\]-]{0,254}"
"""What may be a job's id: it becomes a word of commands, several in one, and is printed. (\u0192: Flux.)"""

_FORMS: Final = {"job_id": re.compile(JOB_ID), "token": re.compile(r"[A-Za-z0-9_]{1,64}")}
_TIMES: Final = ("created_at", "submitted_at", "missing_since")


class Phase(str, Enum):
    """How far a submission has come; the members stand in the order in which it may pass through them.

    ``created``: the batch system was not asked yet. ``submitting``: it may have been, and the job may exist.
    ``refused``: the answer was no, with the record's ``message``. ``accepted``: the job is ``job_id``, and no
    `submit` has printed that. ``submitted``: one has.
    """

    CREATED = "created"
    SUBMITTING = "submitting"
    REFUSED = "refused"
    ACCEPTED = "accepted"
    SUBMITTED = "submitted"

    def is_before(self, other: Phase) -> bool:
        """Whether a submission passes through this phase before the other."""
        order = list(Phase)
        return order.index(self) < order.index(other)


class Record(NamedTuple):
    """What became of a submission.

    ``submitted_at`` is when the batch system was asked. ``ended`` is the job's state once it is certain that
    it will not change. ``missing_since`` is when the batch system first did not know the job.
    ``clock`` names the host by whose clock the later of these two times was written.
    """

    name: str
    token: str
    site: str
    scheduler: str
    digest: str
    created_at: str
    phase: Phase = Phase.CREATED
    job_id: str | None = None
    submitted_at: str | None = None
    message: str = ""
    ended: Status | None = None
    missing_since: str | None = None
    clock: str = ""

    def changed(self, **changes: Any) -> Record:
        """Return the record with these changes, or as it is where they would set its phase back."""
        phase: Phase = changes.get("phase", self.phase)
        return self if phase.is_before(self.phase) else self._replace(**changes)


def written(record: Record) -> bytes:
    """Return the text of the record's file."""
    import json  # not for those who have no runs

    ended = record.ended and record.ended._replace(reason=record.ended.reason[:_LONGEST])
    data = record._replace(message=record.message[:_LONGEST])._asdict()
    return f"{json.dumps({**data, 'ended': ended and _plain(ended)}, indent=2)}\n".encode()


def _plain(status: Status) -> dict[str, Any]:
    return {**status._asdict(), "state": status.state.value}


def read(text: bytes) -> Record:
    """Return the record that a file's text is.

    Raises:
        ValueError: when it is none, or one of a batch system that nobody here knows.
        RecursionError: when it is nested too deeply.
    """
    import json

    data = json.loads(text)
    known = set(Record._fields)
    if not isinstance(data, dict) or not known - {*Record._field_defaults} <= {*data} <= known:
        raise ValueError("its keys are others")
    ended = _ended(data.pop("ended", None))
    phase = _phase(data.pop("phase", Phase.CREATED))
    texts = {key: _text(key, value) for key, value in data.items()}
    record = Record(**texts, phase=phase, ended=ended)
    if not phase.is_before(Phase.ACCEPTED) and record.job_id is None:
        raise ValueError(f"it is {phase.value} and has no job_id")
    if record.scheduler not in schedulers:
        raise ValueError(f"there is no scheduler {record.scheduler!r} here")
    return record


def _phase(data: Any) -> Phase:
    try:
        return Phase(data)
    except ValueError:
        raise ValueError(f"phase is {_short(data)}") from None


def _text(key: str, value: Any) -> Any:
    """Return a text of the record, in which every character can be written.

    Raises:
        ValueError: when it is none, or not of the form that the key needs.
    """
    if value is None and key in _MAY_BE_NULL:
        return None
    form = _FORMS.get(key)
    if not isinstance(value, str) or (form and not form.fullmatch(value)):
        raise ValueError(f"{key} is {_short(value)}")
    if key in _TIMES:
        _check_time(key, value)
    return value.encode("utf-8", "backslashreplace").decode()


def _check_time(key: str, value: str) -> None:
    try:
        datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{key} is {_short(value)}") from None


def _ended(data: Any) -> Status | None:
    """Return the final state that these data are, None for none; a ``ValueError`` for others."""
    if data is None:
        return None
    try:
        status = Status(**{**data, "state": JobState(data["state"])})
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"ended is {_short(data)}") from None
    types = [type(value) for value in status[1:]]
    is_code = status.exit_code is None or (type(status.exit_code) is int and abs(status.exit_code) < 1 << 31)
    if not status.state.is_final or not is_code or [*types[:1], *types[2:]] != [str, str, str]:
        raise ValueError(f"ended is {_short(data)}")
    texts = {name: _text(name, getattr(status, name)) for name in ("native", "reason", "source")}
    return status._replace(**texts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
