"""The states of jobs in Flux: ``flux jobs --json``, all at once, or one that has left the listing.

Only what is known stands in the answer: a job that waits has no ``result``, one that runs no ``returncode``.
Source: flux-jobs(1), JOB STATUS and ``--json``; RFC 21 names the states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.flux.ids import plain_id
from hpcdist.schedulers.job import Job, JobState, Status

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


class Listing:
    """The latest jobs of this user, in all states."""

    provisional: Final = False
    one_by_one: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:  # noqa: ARG002 - it names all
        """Yield one command."""
        yield Command(("flux", "jobs", "-a", "--json", "--count=5000"))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that are listed."""
        return _read(completed, jobs)


class ById:
    """A job that the listing does not show any more; Flux may have forgotten it, and says so by an error."""

    provisional: Final = False
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
