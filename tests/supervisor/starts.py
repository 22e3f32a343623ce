"""Starts of jobs in a run directory, as the supervisor's modules get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from supervisor.job import Job, Policy
from supervisor.start import Start

_ENDS = ("timeout", "preempt", "node_failure", "failure")
POLICY = Policy("requeue", _ENDS, 10, 300, "USR1", 3, (), None, 0, exclude_bad_nodes=True, rehearsal="")


def start(run: Path, job_id: str = "7", element: str = "", policy: Policy | None = POLICY) -> Start:
    """Return a start of a job with these restarts, with the folders that it opens."""
    values: dict[str, Any] = {**dict.fromkeys(Job._fields), "run": str(run), "policy": policy}
    own = Start(Job(**values), job_id, element)
    own.open()
    return own
