"""The states of jobs in Flux: ``flux jobs --json``, all at once, or one that has left the listing.

Only what is known stands in the answer: a job that waits has no ``result``, one that runs no ``returncode``.
Source: flux-jobs(1), JOB STATUS and ``--json``; RFC 21 names the states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.base import Accounting, Query
from hpcdist.schedulers.job import Job, JobState, Status, Usage

# --- Ids: 64-bit numbers, which Flux writes in base 58 behind U+0192, or an ``f`` where that cannot be
#
# Here they are written with the ``f``, which Flux takes everywhere and any locale can spell as a folder.
# Source: RFC 19 of Flux (https://flux-framework.readthedocs.io/projects/flux-rfc/en/latest/spec_19.html).

_DIGITS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_F58: Final = re.compile(rf"(?:\u0192|f)([{_DIGITS}]{{1,11}})")
_DECIMAL: Final = re.compile(r"[0-9]{1,20}")


def plain_id(text: str) -> str:
    """Return an id in any of the forms that Flux prints as ``f...``; empty for anything else."""
    if match := _F58.fullmatch(text):
        return f"f{match[1]}"
    number = int(text) if _DECIMAL.fullmatch(text) else 1 << 64
    return f58(number) if number < 1 << 64 else ""


def f58(number: int) -> str:
    """Return a number as an id."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return f"f{digits}"


STATES: Final = {
    "NEW": JobState.PENDING,
    "DEPEND": JobState.PENDING,
    "PRIORITY": JobState.PENDING,
    "SCHED": JobState.PENDING,
    "RUN": JobState.RUNNING,
    "CLEANUP": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
}
"""What the states mean, and the results of INACTIVE jobs."""

LOST_NODE: Final = re.compile(r"node failure on (\S+) \(")
"""What is noted of a lost node: type node-failure, or exec if it was the first one (bulkexec.c)."""

_NEVER_RAN: Final = -128
_HELD: Final = 0


class Listing(Query):
    """The latest jobs of this user, in all states."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:  # noqa: ARG002 - it names all
        """Yield one command."""
        yield Command(("flux", "jobs", "-a", "--json", "--count=5000"))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that are listed."""
        return _read(completed, jobs)


class ById(Query):
    """A job that the listing does not show any more; Flux may have forgotten it, and says so by an error."""

    one_by_one: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield Command(("flux", "jobs", "--json", job.id))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the state of that job."""
        return _read(completed, jobs)


def _read(completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
    wanted = {job.id for job in jobs}
    found = {}
    for job_id, record in jobs_of(completed.stdout):
        if job_id in wanted:
            found[job_id] = status(record)
    return found


def jobs_of(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the jobs of an answer with their ids: an array of them, or a single one."""
    yield from ((plain_id(str(record.get("id", ""))), record) for record in _records(text))


def _records(text: str) -> Iterator[dict[str, Any]]:
    try:
        answer = json.loads(text[text.find("{") :]) if "{" in text else None
    except (ValueError, RecursionError):
        return
    if isinstance(answer, dict):
        listed = answer.get("jobs", [answer])
        yield from (
            (record for record in listed if isinstance(record, dict)) if isinstance(listed, list) else ()
        )


def status(record: Mapping[str, Any]) -> Status:
    """Return what Flux says of a job; an unknown state is ``UNKNOWN``, never a guess."""
    word = str(record.get("state", ""))
    if word == "INACTIVE":
        word = str(record.get("result", word))
    state = STATES.get(word, JobState.UNKNOWN)
    exception = _section(record, "exception")
    lost = exception.get("type") == "node-failure" or LOST_NODE.match(str(exception.get("note")))
    if state is JobState.FAILED and lost:
        state = JobState.NODE_FAIL
    code = _exit_code(record, exception) if state.is_final else None
    return Status(state, word, code, _reason(record, state, exception), "flux jobs")


def _section(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = record.get(name)
    return section if isinstance(section, dict) else {}


def _exit_code(record: Mapping[str, Any], exception: Mapping[str, Any]) -> int | None:
    """Return the code as a shell shows it; a job that never ran has a made-up one (-128, or 1)."""
    code = record.get("returncode")
    if not isinstance(code, int) or code == _NEVER_RAN or (exception and "waitstatus" not in record):
        return None
    return 128 - code if code < 0 else code


def _reason(record: Mapping[str, Any], state: JobState, exception: Mapping[str, Any]) -> str:
    if exception.get("type") or exception.get("note"):
        return ": ".join(str(exception[key]) for key in ("type", "note") if exception.get(key))
    if state is not JobState.PENDING:
        return ""
    if record.get("urgency") == _HELD:
        return "held (urgency 0)"
    waits = record.get("dependencies")
    if isinstance(waits, list) and waits:
        return f"waits for {', '.join(map(str, waits))}"
    schedule = _section(_section(record, "annotations"), "sched")
    return str(schedule.get("reason_pending", ""))


# --- The start of a job: Flux starts none again, and measures neither memory nor CPU time
#
# Sources: flux-jobs(1); answers of flux-core 0.88.


class Times(Accounting):
    """The job by its id."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        yield from ById().commands(jobs)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield its start."""
        for job_id, record in jobs_of(completed.stdout):
            if job_id == job.id:
                yield _usage(record)


def _usage(record: Mapping[str, Any]) -> Usage:
    said = status(record)
    queued, started, ended = (_time(record.get(name)) for name in ("t_submit", "t_run", "t_cleanup"))
    try:
        hosts = tuple(hostlist.expand(str(record.get("nodelist", ""))))
    except ValueError:
        hosts = ()
    cpus = record.get("ncores")
    usage = Usage(None, said.state, queued, started, ended, said.exit_code, hosts)
    return replace(usage, cpus=cpus if type(cpus) is int else None)


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
