"""A job: a submitted script, its identity and what is known of its state."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class JobState(Enum):
    """The state of a job in words that all schedulers share; the native word is kept beside it."""

    UNSUBMITTED = "unsubmitted"
    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether the job will not run any more."""
        return self not in _LIVING


_LIVING = frozenset(
    {JobState.UNSUBMITTED, JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN}
)


class Status(NamedTuple):
    """What a scheduler said of one job.

    ``native`` is the scheduler's own word, untouched; ``exit_code`` is what a shell would show
    (128 + signal for a killed program), None while unknown; ``reason`` is free text.
    """

    state: JobState
    native: str = ""
    exit_code: int | None = None
    reason: str = ""
    source: str = ""


class Job(NamedTuple):
    """A submitted script; ``id`` is the scheduler's, ``directory`` the run directory."""

    id: str
    name: str
    directory: str
    token: str
