"""The cost of a run: how long its jobs waited and ran, the GPUs and CPUs they had, what they used of them.

The figures are those of the batch system's accounting, as the site charges them; what it lacks is taken from
the event log and the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hpcdist.runs.state import Attempt
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.accounting import Usage, times
from hpcdist.schedulers.job import JobState


class Consumption(NamedTuple):
    """The cost of one start of a job, or of several; None is unknown.

    ``waited`` and ``elapsed`` are in seconds, of a running job up to now. ``cpus`` and ``gpus`` are those
    that it had; ``gpu_seconds`` and ``cpu_seconds_had`` are these times the elapsed seconds, of a
    heterogeneous job those of each component times its own, ``cpu_seconds`` the time that its processes
    computed. ``max_memory`` and ``total_memory`` in bytes are as in `Usage`. ``is_measured``: the accounting
    has it.
    """

    job: str = ""
    start: int = 0
    waited: float | None = None
    elapsed: float | None = None
    cpus: int | None = None
    gpus: int | None = None
    gpu_seconds: float | None = None
    cpu_seconds_had: float | None = None
    cpu_seconds: float | None = None
    max_memory: int | None = None
    total_memory: int | None = None
    is_measured: bool = False

    @property
    def cpu_share(self) -> float | None:
        """How much of the CPUs' time was used, 1 for all of it; measured times may be a little above."""
        if self.cpu_seconds is None or not self.cpu_seconds_had:
            return None
        return self.cpu_seconds / self.cpu_seconds_had


def hours(seconds: float | None) -> float | None:
    """Return seconds, such as those of GPUs, as hours; None is unknown."""
    return None if seconds is None else seconds / 3600


def hours_text(seconds: float | None) -> str | None:
    """Return seconds as hours for people: ``12.50``; None is unknown."""
    return None if seconds is None else f"{seconds / 3600:.2f}"


def starts(found: Sequence[Attempt], plan: StoredPlan, now: float) -> tuple[Consumption, ...]:
    """Return the cost of each start of a job, or of an element of an array, that these attempts belong to."""
    groups: dict[tuple[str, int], list[Attempt]] = {}
    for attempt in found:
        groups.setdefault((attempt.job, attempt.number[0]), []).append(attempt)
    return tuple(_of_start(group, plan, now) for group in groups.values())


def total(costs: Iterable[Consumption]) -> Consumption:
    """Return the cost of all: times and hours are sums, queue time and memory the most of any.

    What one of them lacks is unknown of all, so that no sum is too small.
    """
    every = [*costs]
    if not every:
        return Consumption()
    return Consumption(
        waited=max((each.waited for each in every if each.waited is not None), default=None),
        elapsed=_sum(each.elapsed for each in every),
        gpu_seconds=_sum(each.gpu_seconds for each in every),
        cpu_seconds_had=_sum(each.cpu_seconds_had for each in every),
        cpu_seconds=_sum(each.cpu_seconds for each in every),
        max_memory=max((each.max_memory for each in every if each.max_memory is not None), default=None),
        total_memory=max(
            (each.total_memory for each in every if each.total_memory is not None), default=None
        ),
        is_measured=any(each.is_measured for each in every),
    )


def _of_start(group: Sequence[Attempt], plan: StoredPlan, now: float) -> Consumption:
    """Return the cost of one start; its times are the batch system's, else the event log's."""
    first, last = group[0], group[-1]
    usage = last.usage or Usage()
    began, ended = first.started, last.ended
    if usage.started is not None:
        began, ended = usage.started, ended if usage.ended is None else usage.ended
    elif usage.elapsed == 0:  # it waited until it was cancelled
        began = ended = usage.ended
    if ended is None and last.state == JobState.RUNNING.value:
        ended = now
    queued = first.queued if usage.queued is None else usage.queued
    elapsed = _span(began, ended) if usage.elapsed is None else usage.elapsed
    gpus = plan.gpus_had if usage.gpus is None else usage.gpus
    return Consumption(
        last.job,
        last.number[0],
        _span(queued, began),
        elapsed,
        usage.cpus,
        gpus,
        times(gpus, elapsed) if usage.gpu_seconds is None else usage.gpu_seconds,
        times(usage.cpus, elapsed) if usage.cpu_seconds_had is None else usage.cpu_seconds_had,
        usage.cpu_seconds,
        usage.max_memory,
        usage.total_memory,
        last.usage is not None,
    )


def _span(begin: float | None, end: float | None) -> float | None:
    """Return the time between; clocks of two hosts may differ, but no time is below zero."""
    return None if begin is None or end is None else max(0.0, end - begin)


def _sum(values: Iterator[float | None]) -> float | None:
    known = [*values]
    return None if None in known else sum(each for each in known if each is not None)
