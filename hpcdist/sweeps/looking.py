"""How far a search is, once and until its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hpcdist.runs import accounting, standing
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services, renewed
from hpcdist.runs.states import Report, status
from hpcdist.runs.waiting import PollTimer, SilenceTimeout, is_local
from hpcdist.schedulers.job import JobState
from hpcdist.sweeps import trials
from hpcdist.sweeps.remarks import remarks
from hpcdist.sweeps.single import LIVE
from hpcdist.sweeps.trials import Params, Progress, Trial


class Generation(NamedTuple):
    """The number of a generation, of how many at most, and how many trials all of them have at most."""

    number: int
    generations: int
    trials: int


class Look(NamedTuple):
    """The trials of a search at a time, and what they come to.

    ``waits_for``: what keeps the trials from running that have not started, as far as it is known.
    ``generation``: of an adaptive search that may have further ones, that of its last trials.
    ``remarks``: what its user should know or do.
    """

    report: Report
    trials: Sequence[Trial]
    progress: Progress
    waits_for: tuple[str, ...] = ()
    generation: Generation | None = None
    remarks: tuple[str, ...] = ()

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return sum(count for state, count in self.progress.counts.items() if state not in LIVE)


def look(run: Run, services: Services, known: Params | None = None) -> Look:
    """Return how far a search is, by one query for its jobs and one of the accounting of each.

    ``known``: the params of its trials, if they were read.

    Raises:
        ConfigError: if it is no search.
    """
    [report] = status([run], services)
    found = trials.trials(report, accounting.of_jobs(report.run, services), services.now(), known)
    plan = run.directory.plan()
    at_once = plan.workers or (plan.array.at_once if plan.array else None)
    reached = trials.progress(found, at_once)
    waits_for = tuple(_waits_for(report, reached, at_once))
    noted = tuple(remarks(report, found))
    return Look(report, found, reached, waits_for, _generation(report, found), noted)


def _generation(report: Report, found: Sequence[Trial]) -> Generation | None:
    there = standing.of(report.run)
    if there is None:
        return None
    from hpcdist.experiment.search import adaptive  # with what plans, for few searches
    from hpcdist.sweeps import replanning

    search = replanning.search_of(report.run)
    if search is None:
        return None
    number = adaptive.generation(search, [trial.params for trial in found])
    return Generation(number, adaptive.generations(search), there.most)


def follow(run: Run, services: Services, on_look: Callable[[Look], Any]) -> Look:
    """Look at a search until its end, and hand each look on; return the last one.

    It stops, too, when the state of all its jobs has been unknown for long. Pauses are those of `wait`.
    """
    pauses, silence = PollTimer(services, local=is_local([run])), SilenceTimeout()
    while True:
        now = look(run, services)
        on_look(now)
        run = renewed(now.report.run)
        is_over = now.report.is_over and len(run.jobs) == len(now.report.run.jobs)
        if is_over or silence.has_expired([now.report], pauses.slept):
            return now
        pauses.pause([run])


def _waits_for(report: Report, reached: Progress, at_once: int | None) -> Iterator[str]:
    if not reached.counts.get(JobState.PENDING.value):
        return
    running = reached.counts.get(JobState.RUNNING.value, 0)
    if at_once and running >= at_once:
        yield f"one of the {at_once} that may run at once" if at_once > 1 else "the one that may run at once"
    for job in report.jobs:
        state, reason = job.status.state, job.status.reason
        if state in (JobState.PENDING, JobState.SUSPENDED) and reason:
            yield f"job {job.run.record.job_id} is {state.value}: {reason}"
