"""Progress of an adaptive search, by the files of its run."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpcdist.runs import cancelling
from hpcdist.runs.finding import elements_of
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState
from hpcdist.script import trial_table

_RAN: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})
"""Final states of a generation whose trials ran, even if some failed: the next one may follow."""


class SearchProgress(NamedTuple):
    """The trials so far, how many all generations have at most, and ``why`` no generation follows."""

    trials: int
    most: int
    why: str = ""

    @property
    def text(self) -> str:
        """A clause: ``2 of at most 6 trials``."""
        return f"{self.trials} of at most {self.most} trials"


def progress_of(run: Run) -> SearchProgress | None:
    """Return the progress of an adaptive search that may have further generations; None for other runs."""
    plan = run.directory.plan() if (run.directory.path / trial_table.FILE).exists() else None
    if plan is None or not plan.most_trials:
        return None
    there = max((number for job in run.jobs for number in elements_of(job).outside(())), default=0)
    return SearchProgress(there, plan.most_trials, stop_reason(run)) if there < plan.most_trials else None


def awaiting_next(report: Report) -> SearchProgress | None:
    """Return the progress of a search whose generation has ended, if the next one is to be submitted."""
    return expecting_next(report) if report.status.state.is_final else None


def expecting_next(report: Report) -> SearchProgress | None:
    """Return the progress of a search whose next generation is still to be submitted, also while one runs."""
    if report.status.state.is_final and report.status.state not in _RAN:
        return None  # it is to be resumed first
    found = progress_of(report.run)
    return found if found and not found.why else None


def stop_reason(run: Run) -> str:
    """Return why no generation follows, if the search was stopped or its end is recorded; else nothing."""
    if not cancelling.is_requested(run.directory):
        return ""
    said = cancelling.reason(run.directory)
    return said.removeprefix("as ") if said.startswith("as ") else f"it was stopped {said}".rstrip()


def next_step_hint(run: Run) -> str:
    """Return the command that submits the next generation, as a clause."""
    return f"`hpcdist sweep advance {run.name} --wait` continues"
