"""The record of a submission, and reading and writing its file; its content is validated."""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from hpcdist.runs import elements
from hpcdist.runs.events import JOB_ID
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState, Status

MAX_BYTES: Final = 1 << 20
_MAX_MESSAGE: Final = 1 << 16
"""Characters of a batch system's message that are stored, so that the record stays below ``MAX_BYTES``."""

_MAX_SHOWN: Final = 80
"""Characters of an invalid value that are shown."""

_NULLABLE: Final = frozenset({"job_id", "submitted_at", "missing_since"})
_FORMS: Final = {
    "job_id": re.compile(JOB_ID),
    "token": re.compile(r"[A-Za-z0-9_]{1,64}"),
    "trials": elements.NUMBERS,
}
_MOST_JOBS: Final = 10_000
"""The most jobs of one run."""

_TIMES: Final = ("created_at", "submitted_at", "missing_since")


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


class Record(NamedTuple):
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
    jobs: int = 1
    trials: str = ""
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
        return own._replace(remote=self.remote, there=self.there)

    def changed(self, **changes: Any) -> Record:
        """Return the record with these changes, or unchanged if they would set back its phase."""
        phase: Phase = changes.get("phase", self.phase)
        return self if phase.is_before(self.phase) else self._replace(**changes)


def encode(record: Record) -> bytes:
    """Return the record as the text of its file."""
    import json  # not needed without runs

    ended = record.ended and record.ended._replace(reason=record.ended.reason[:_MAX_MESSAGE])
    data = record._replace(message=record.message[:_MAX_MESSAGE])._asdict()
    return f"{json.dumps({**data, 'ended': ended and _plain(ended)}, indent=2)}\n".encode()


def _plain(status: Status) -> dict[str, Any]:
    return {**status._asdict(), "state": status.state.value}


def decode(text: bytes) -> Record:
    """Return the record of a file's text.

    Raises:
        ValueError: if it is invalid, or its scheduler is unknown here.
        RecursionError: if it is nested too deeply.
    """
    import json

    data = json.loads(text)
    known = set(Record._fields)
    if not isinstance(data, dict) or not known - {*Record._field_defaults} <= {*data} <= known:
        raise ValueError("its keys are not those of a record")
    ended = _ended(data.pop("ended", None))
    phase = _phase(data.pop("phase", Phase.CREATED))
    jobs, goes_on = data.pop("jobs", 1), data.pop("goes_on", False)
    if type(jobs) is not int or not 0 < jobs <= _MOST_JOBS or type(goes_on) is not bool:
        raise ValueError(f"invalid jobs {_short(jobs)}, or goes_on {_short(goes_on)}")
    texts = {key: _text(key, value) for key, value in data.items()}
    record = Record(**texts, phase=phase, ended=ended, jobs=jobs, goes_on=goes_on)
    if not phase.is_before(Phase.ACCEPTED) and record.job_id is None:
        raise ValueError(f"phase is {phase.value}, but job_id is missing")
    if record.scheduler not in schedulers:
        raise ValueError(f"unknown scheduler {record.scheduler!r}")
    return record


def _phase(data: Any) -> Phase:
    try:
        return Phase(data)
    except ValueError:
        raise ValueError(f"invalid phase {_short(data)}") from None


def _text(key: str, value: Any) -> Any:
    """Return a text field, with characters escaped that UTF-8 cannot encode.

    Raises:
        ValueError: if it is no text, or not of the key's format.
    """
    if value is None and key in _NULLABLE:
        return None
    form = _FORMS.get(key)
    if not isinstance(value, str) or (form and not form.fullmatch(value)):
        raise ValueError(f"invalid {key} {_short(value)}")
    if key in _TIMES:
        _check_time(key, value)
    return value.encode("utf-8", "backslashreplace").decode()


def _check_time(key: str, value: str) -> None:
    try:
        datetime.fromisoformat(value).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"invalid {key} {_short(value)}") from None


def _ended(data: Any) -> Status | None:
    """Return the final state of these data, None for null; raise ``ValueError`` if they are invalid."""
    if data is None:
        return None
    try:
        status = Status(**{**data, "state": JobState(data["state"])})
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"invalid ended {_short(data)}") from None
    types = [type(value) for value in status[1:]]
    is_code = status.exit_code is None or (type(status.exit_code) is int and abs(status.exit_code) < 1 << 31)
    if not status.state.is_final or not is_code or [*types[:1], *types[2:]] != [str, str, str]:
        raise ValueError(f"invalid ended {_short(data)}")
    texts = {name: _text(name, getattr(status, name)) for name in ("native", "reason", "source")}
    return status._replace(**texts)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
