"""What becomes one run elsewhere: a run, or an element of its array; all attempts of it are one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from hpcdist.errors import Problem, warning
from hpcdist.runs import attempts, packed
from hpcdist.runs.rundir import Run
from hpcdist.runs.state import Attempt
from hpcdist.runs.states import Report
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import LATEST, JobState, Status, split_id
from hpcdist.tracking import outputs, series, trial_params
from hpcdist.tracking.files import Artifact, Entry
from hpcdist.tracking.series import Metrics, Points

_EXACT: Final = 1 << 53
"""Up to here every whole number is a float."""


class Name(NamedTuple):
    """A metric, and the rank that recorded it."""

    metric: str
    rank: int


class Item(NamedTuple):
    """A run, or an element of its array.

    ``job``: the job id, with that of the element; of several jobs the last. ``attempts``: of all these jobs,
    and of an array those of all elements. ``params``: an element of a search has those of its trial.
    ``artifacts``: by their paths below the outputs of the run.
    """

    run: Run
    plan: StoredPlan
    element: str
    job: str
    state: JobState
    attempts: tuple[Attempt, ...]
    params: Mapping[str, Any]
    tags: tuple[str, ...]
    series: Mapping[Name, Points]
    artifacts: Mapping[str, Artifact]

    @property
    def name(self) -> str:
        """The name of the run, with that of the element: ``train-1/3``."""
        return f"{self.run.name}/{self.element}" if self.element else self.run.name

    @property
    def key(self) -> str:
        """What identifies it wherever it is sent: the token of its submission, with the element."""
        token = self.run.record.token
        return f"{token}/{self.element}" if self.element else token

    @property
    def started(self) -> float | None:
        """When its first attempt started; seconds since 1970."""
        return min((each.started for each in self.attempts if each.started is not None), default=None)

    @property
    def ended(self) -> float | None:
        """When its last attempt ended; None if that is unknown, or it has not ended."""
        starts = [each.started for each in self.attempts if each.started is not None]
        ends = [each.ended for each in self.attempts if each.ended is not None]
        is_known = self.state.is_final and ends and max(ends) >= max(starts, default=0.0)
        return max(ends) if is_known else None

    @property
    def begin(self) -> float:
        """When it started, else when it was submitted or made; seconds since 1970."""
        record = self.run.record
        return self.started or datetime.fromisoformat(record.submitted_at or record.created_at).timestamp()

    def points(self) -> Iterator[tuple[Name, float, float, float]]:
        """Yield each value: of what, its step, its time in seconds since 1970, the number.

        The time is 0 where it is unknown, and where a damaged line or a clock gives none of this era.
        """
        for name, points in self.series.items():
            for step, value, at in zip(*points, strict=True):
                yield name, step, at if 0 < at < LATEST else 0.0, value


def read(report: Report, now: float) -> tuple[list[Item], list[Problem]]:
    """Return a run, followed by the elements of its array that started, and warnings.

    Raises:
        OSError: if its files cannot be read.
    """
    run, status = report.run, report.status
    plan = run.directory.plan()
    found = series.read(run.directory, plan)
    started = attempts.read(report, now)
    if plan.workers:
        started = packed.attempts(run.directory, plan, started, now)
    jobs = _jobs(started, found)
    ids = _by_element(jobs)
    item = _item(run, plan, ids.pop("", []), jobs, status.state)
    trials = trial_params.of(run) if ids else {}
    elements = []
    for element in sorted(ids, key=int):
        own = plan._replace(params=trials.get(element, plan.params))
        last = [attempt.state for job in ids[element] for attempt in jobs[job].attempts][-1:]
        elements.append(_item(run, own, ids[element], jobs, _state(last, status), element))
    return [item, *elements], [warning(f"{run.name}: {text}") for text in found.warnings]


class _Job(NamedTuple):
    """What is known of a job, or of an element of an array."""

    attempts: list[Attempt]
    series: dict[Name, Points]
    others: list[Entry]


def _jobs(found: Iterable[Attempt], recorded: Metrics) -> dict[str, _Job]:
    """Return what is known of each job that started or recorded something, in the order of their starts."""
    jobs: defaultdict[str, _Job] = defaultdict(lambda: _Job([], {}, []))
    for attempt in found:
        if attempt.started is not None:
            jobs[attempt.job].attempts.append(attempt)
    for key, points in sorted(recorded.series.items()):
        jobs[key.job].series[Name(key.name, key.rank)] = points
    for job, entry in recorded.others:
        jobs[job].others.append(entry)
    return jobs


def _by_element(jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of the jobs of each element; those of no element under ``""``."""
    ids: dict[str, list[str]] = {}
    for job in jobs:
        ids.setdefault(split_id(job)[1], []).append(job)
    return ids


def _state(last: Sequence[str], whole: Status) -> JobState:
    """Return the state of an element by that of its last attempt; an end that is not known is not made up."""
    ended = [state for state in JobState if state.value in last and state.is_final]
    if ended:
        return ended[0]
    return JobState.UNKNOWN if whole.state.is_final else whole.state


def _item(  # noqa: PLR0913, PLR0917 - what an item is made of
    run: Run, plan: StoredPlan, ids: list[str], found: Mapping[str, _Job], state: JobState, element: str = ""
) -> Item:
    jobs = [found[job] for job in ids]
    params, tags, artifacts = dict(plan.params), dict.fromkeys(plan.tags), dict[str, Artifact]()
    merged: dict[Name, Points] = {}
    for name, job in zip(ids, jobs, strict=True):
        for entry in job.others:
            params |= entry.params
            tags |= dict.fromkeys(entry.tags)
            if entry.artifact and (path := outputs.place(name, entry.artifact)):
                artifacts[path] = entry.artifact
        for metric, points in job.series.items():
            merged[metric] = series.continued(merged.get(metric), points)
    return Item(
        run=run,
        plan=plan,
        element=element,
        job=ids[-1] if ids else run.record.job_id or "",
        state=state,
        attempts=tuple(attempt for job in jobs or found.values() for attempt in job.attempts),
        params=params,
        tags=(*tags,),
        series=merged,
        artifacts=artifacts,
    )


def whole(step: float) -> int:
    """Return the whole number below a step, which is what MLflow and TensorBoard take."""
    return int(max(-_EXACT, min(_EXACT, step)) // 1)


def fractional(item: Item) -> list[str]:
    """Return the metrics with steps that `whole` changes."""
    changed = (name.metric for name, points in item.series.items() if any(map(_is_changed, points.steps)))
    return [*dict.fromkeys(changed)]


def _is_changed(step: float) -> bool:
    return whole(step) != step
