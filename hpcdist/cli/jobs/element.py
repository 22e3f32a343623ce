"""One trial of a search, or element of an array, as the verbs of jobs show it."""

from __future__ import annotations

import time
from typing import Any, Final

from hpcdist.cli.jobs import runs
from hpcdist.runs import accounting, failures
from hpcdist.runs.job_states import Report
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState
from hpcdist.searches import trials
from hpcdist.searches.trials import OneTrial

_FAILED: Final = frozenset(state.value for state in JobState if state.is_final) - {JobState.COMPLETED.value}


def find(report: Report, element: str, services: Services) -> OneTrial:
    """Return an element of a run, by one query of the accounting of each job.

    Raises:
        ConfigError: if the run has no such element.
    """
    return trials.find(report, int(element), accounting.of_jobs(report.run, services), time.time())


def state_of(found: OneTrial) -> dict[str, Any]:
    """Return its state for JSON, with the keys of a run's and its number; the job id is its own."""
    attempt = found.trial.attempt
    return {
        **runs.record_of(found.job.run),
        "name": found.name,
        "job_id": found.event_id or None,
        "trial": found.trial.number,
        "state": found.trial.state,
        "exit_code": attempt and attempt.exit_code,
        "reason": _reason(found),
    }


def _reason(found: OneTrial) -> str:
    """Return why it failed by its output, or why it is in the state of its job."""
    if found.trial.state in _FAILED:
        return failures.failure_reason(found.job.run.directory, str(found.trial.number))
    status = found.job.status
    return status.reason if found.trial.state == status.state.value else ""
