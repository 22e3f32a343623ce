"""How many of its trials an adaptive search has so far, and whether it goes on, by the files of its run."""

from __future__ import annotations

from typing import Final, NamedTuple

from hpcdist.runs import stopping
from hpcdist.runs.finding import elements_of
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState
from hpcdist.script import trial_table

_RAN: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})
"""The ends of a generation whose trials ran, be it not well: those that did well go on."""


class Standing(NamedTuple):
    """How many trials there are, and how many all generations have at most; ``why``: it goes no further."""

    trials: int
    most: int
    why: str = ""

    @property
    def text(self) -> str:
        """It as a clause: ``2 of at most 6 trials``."""
        return f"{self.trials} of at most {self.most} trials"


def of(run: Run) -> Standing | None:
    """Return how far an adaptive search is that may have further generations; None for other runs."""
    plan = run.directory.plan() if (run.directory.path / trial_table.FILE).exists() else None
    if plan is None or not plan.most_trials:
        return None
    there = max((number for job in run.jobs for number in elements_of(job).outside(())), default=0)
    return Standing(there, plan.most_trials, reason(run)) if there < plan.most_trials else None


def awaited(report: Report) -> Standing | None:
    """Return how far a search is whose generation has ended, if the next one is to be submitted."""
    return expected(report) if report.status.state.is_final else None


def expected(report: Report) -> Standing | None:
    """Return how far a search is whose next generation is still to be submitted, also while one runs."""
    if report.status.state.is_final and report.status.state not in _RAN:
        return None  # it is to be resumed first
    found = of(report.run)
    return found if found and not found.why else None


def reason(run: Run) -> str:
    """Return why a search goes no further, if it was stopped or its end is recorded; or nothing."""
    if not stopping.is_requested(run.directory):
        return ""
    said = stopping.reason(run.directory)
    return said.removeprefix("as ") if said.startswith("as ") else f"it was stopped {said}".rstrip()


def go_on(run: Run) -> str:
    """Return how such a search goes on, as a clause."""
    return f"`hpcdist sweep advance {run.name} --wait` goes on"
