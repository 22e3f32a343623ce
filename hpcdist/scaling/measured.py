"""What one run of a study has measured, of the metrics that its ranks recorded."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.scaling.study import Member, Ranks
from hpcdist.schedulers.job import JobState
from hpcdist.tracking import series
from hpcdist.tracking.series import Points

LEAST: Final = 1e-30
MOST: Final = 1e30
"""Between these a value is a throughput: with others, sums and squares of several are no numbers."""

_COMMUNICATION: Final = (
    "horovod/allreduce/share", "pytorch/communication/exposed_share", "pytorch/communication/share"
)  # fmt: skip
"""The first of these that a run has: how much of its time it communicated, and did nothing else if known."""

Recorded = Mapping[str, Mapping[int, Points]]
"""Metrics by their names and the ranks that recorded them, the lowest first."""


class Measured(NamedTuple):
    """What one run has measured, None where it has not: only jobs that completed count.

    ``gpus_had``: with those of whole nodes that it does not use. ``throughput``: the median of the values of
    the metric, which the first steps do not move; where ranks are summed up, the sum of their medians.
    ``step``: the median seconds from one step to the next. ``communication``: a share of the time.
    ``is_recorded``: there are values, which may be no throughput. ``summed``: of how many ranks the
    throughput is the sum, of the ``ranks`` that the job had as far as that is known; ``without`` of them
    recorded no such value.
    """

    run: str
    member: Member
    state: str
    tasks: int | None = None
    gpus: int | None = None
    gpus_had: int | None = None
    throughput: float | None = None
    step: float | None = None
    communication: float | None = None
    is_recorded: bool = False
    summed: int | None = None
    ranks: int | None = None
    without: tuple[int, ...] = ()


def read(run: Run) -> tuple[Recorded, tuple[str, ...]]:
    """Return the metrics of a run, none if they cannot be read; and what was lost of them, as sentences."""
    try:
        found = series.read(run.directory, run.directory.plan())
    except OSError as error:
        return {}, (f"its metrics cannot be read: {error.strerror}",)
    by_name: dict[str, dict[int, Points]] = {}
    for key in sorted(found.series):
        by_name.setdefault(key.name, {}).setdefault(key.rank, found.series[key])
    return by_name, found.warnings


def measured(report: Report, member: Member, recorded: Recorded, metric: str, ranks: Ranks) -> Measured:
    """Return what a run has measured by this metric."""
    run, state = report.run, report.status.state
    plan = run.directory.plan()
    counts = (plan.tasks, plan.gpus, plan.gpus_had)
    bare = Measured(run.name, member, state.value, *counts, is_recorded=metric in recorded)
    if state is not JobState.COMPLETED or metric not in recorded:
        return bare
    if ranks == "sum":
        there = recorded[metric].keys()
        without = tuple(rank for rank in range(plan.processes or 0) if rank not in there)
        bare = bare._replace(summed=len(there), ranks=plan.processes, without=without)
    by_rank = [*recorded[metric].values()]
    shares = next((_first(recorded[name]).values for name in _COMMUNICATION if name in recorded), ())
    return bare._replace(
        throughput=_throughput(by_rank if ranks == "sum" else by_rank[:1]),
        step=_seconds_per_step(_first(recorded[metric])),
        communication=median(share for share in shares if math.isfinite(share)),
    )


def _first(by_rank: Mapping[int, Points]) -> Points:
    return next(iter(by_rank.values()))


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of what is known; None of nothing."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _throughput(ranks: Iterable[Points]) -> float | None:
    """Return the sum over these ranks; None if one of them has no value that is a throughput."""
    medians = [median(value for value in each.values if LEAST <= value <= MOST) for each in ranks]
    known = [each for each in medians if each is not None]
    return sum(known) if len(known) == len(medians) else None


def _seconds_per_step(points: Points) -> float | None:
    """Return the median time between steps; None where the values have no times, or there is one alone."""
    found = [
        (until - since) / (step - before)
        for (before, since), (step, until) in pairwise(zip(points.steps, points.times, strict=True))
        if step > before and until > since > 0
    ]
    return statistics.median(found) if found else None
