"""All that a run used: its cost, the use of its GPUs, and advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from hpcdist.errors import bytes_text, comma_list
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Usage, times
from hpcdist.usage import samples
from hpcdist.usage.samples import GpuUse, NodeUse, mean

# --- The cost of a run: how long its jobs waited and ran, the GPUs and CPUs they had, what they used of them
#
# The figures are those of the batch system's accounting, as the site charges them; what it lacks is taken
# from the event log and the plan.


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


# --- Advice from what a job used of what it had: each sentence has its figures, and what to write instead
#
# Nothing is advised from too little: a test of a minute shows neither how much memory a training needs nor
# how well it uses its GPUs. The limits below are chosen so that who follows them is not worse off when the
# next job is somewhat larger; below them the gain is not worth a change.

_SHORTEST: Final = 600
"""Seconds that a start must have run: before that, programs load, compile and warm up."""

_FEWEST: Final = 20
"""Samples of a node: at one each 30 s that is as long."""

_MEMORY_USED: Final = 0.25
"""Below this share of the memory there is advice: twice what is used is a usual reserve."""

_MEMORY_GAIN: Final = 4 << 30
"""Bytes of a job that are worth a change: less does not let another job start."""

_RESERVE: Final = 1.5
"""What is advised is so many times what was used: runs of one program differ by some tens of percent."""

_WALLTIME_USED: Final = 0.25
_WALLTIME_GAIN: Final = 3600
"""Backfill looks for gaps: a limit four times too long, and by an hour, keeps a job out of most of them."""

_UNUSED: Final = 0.95
"""A GPU that is idle for this share of the time is not part of the work: the rest may be a probe at start."""

_LONG_IDLE: Final = 0.25
_LOW_USE: Final = 50.0
_CPU_BOUND: Final = 0.5
"""A quarter of a job, or half of it, is more than what comes from start-up, evaluation and checkpoints."""


class Advice(NamedTuple):
    """What could be better: ``about`` is memory, walltime, gpus or input, ``write`` is for the file."""

    about: str
    text: str
    write: str = ""


def advice(
    costs: Sequence[Consumption], uses: Sequence[NodeUse], plan: StoredPlan, *, is_over: bool
) -> tuple[Advice, ...]:
    """Return what these starts of jobs, and the samples of their nodes, suggest; often nothing.

    ``is_over``: the job ended well. One that runs, or that failed, may not have needed yet what it will.
    """
    long = [cost for cost in costs if (cost.elapsed or 0) >= _SHORTEST]
    found = [*_of_gpus([use for use in uses if _is_enough(use, plan)], plan)]
    if is_over and long and len(long) == len(costs):
        found += [*_memory(long, plan), *_walltime(long, plan)]
    return tuple(found)


def _is_enough(use: NodeUse, plan: StoredPlan) -> bool:
    """Whether a node has samples enough, and of no GPUs of other jobs beside this one's."""
    planned = next((group.gpus for group in plan.groups if 0 <= use.node - group.node < group.nodes), 0)
    return use.samples >= _FEWEST and use.seconds >= _SHORTEST and 0 < len(use.gpus) <= planned


def _memory(costs: Sequence[Consumption], plan: StoredPlan) -> Iterator[Advice]:
    """Advise less memory, by what all processes used; no process is to get less than the largest needed."""
    known = [cost.total_memory for cost in costs if cost.total_memory is not None]
    if len(known) < len(costs) or plan.memory is None:
        return
    asked, used = plan.memory << 20, max(known)
    if used >= _MEMORY_USED * asked or asked - used < _MEMORY_GAIN:
        return
    share = f"{bytes_text(used)} of the {bytes_text(asked)} of memory that it asked for ({used / asked:.0%})"
    own, write = plan.replica_memory, "less memory in the resources of the replicas"
    if own:
        largest = max(cost.max_memory or 0 for cost in costs) * (plan.replica_tasks or 1)
        gibibytes = max(1, math.ceil(_RESERVE * max(used / asked * (own << 20), largest) / (1 << 30)))
        if gibibytes << 10 >= own:
            return
        write = f"memory: {gibibytes}Gi in the resources of each replica"
    yield Advice("memory", f"the job used at most {share}", write)


def _walltime(costs: Sequence[Consumption], plan: StoredPlan) -> Iterator[Advice]:
    longest, asked = max(cost.elapsed or 0 for cost in costs), plan.walltime
    if not asked or longest >= _WALLTIME_USED * asked or asked - longest < _WALLTIME_GAIN:
        return
    text = (
        f"the job ran for {_clock(longest)}, and its walltime is {_clock(asked)}; shorter ones start sooner"
    )
    rounded = math.ceil(longest * _RESERVE / 600) * 600
    yield Advice("walltime", text, f"batch.walltime: '{_clock(rounded)}'")


def _of_gpus(uses: Sequence[NodeUse], plan: StoredPlan) -> Iterator[Advice]:
    gpus = [(use, gpu) for use in uses for gpu in use.gpus if gpu.idle is not None]
    unused = [(use, gpu) for use, gpu in gpus if (gpu.idle or 0) >= _UNUSED]
    idle = f"idle for {_UNUSED:.0%} of the time or more"
    if gpus and len(unused) == len(gpus):
        text = f"all {len(gpus)} GPUs that were sampled were {idle}: the program computes on CPUs"
        yield Advice("gpus", text, "no gpu in the resources, or let the program use them")
        return
    if unused:
        others = mean((gpu.use, 1) for use, gpu in gpus if (use, gpu) not in unused)
        text = f"{len(unused)} of {len(gpus)} GPUs were {idle} ({_names(unused)})"
        text += f", the others used {_percent(others)}"
        yield Advice("gpus", text, "fewer GPUs, or let each task take its own, which HPCDIST_GPUS names")
    yield from _stretch(uses)
    yield from _input(uses, plan)


def _stretch(uses: Sequence[NodeUse]) -> Iterator[Advice]:
    worst = max(uses, key=lambda use: use.longest_idle, default=None)
    if worst is None or worst.longest_idle < max(_SHORTEST, _LONG_IDLE * worst.seconds):
        return
    share = (
        f"{_clock(worst.longest_idle)} at a stretch ({worst.longest_idle / worst.seconds:.0%} of the time)"
    )
    text = f"no GPU of {worst.host or f'node {worst.node}'} was used for {share}"
    yield Advice(
        "gpus", text, "what needs no GPU, such as preparing data, as a job of its own before this one"
    )


def _input(uses: Sequence[NodeUse], plan: StoredPlan) -> Iterator[Advice]:
    """Advise CPUs for the input where GPUs wait and, at the same time, the CPUs are full."""
    use, cpu, bound = (
        mean((value(each), each.seconds) for each in uses)
        for value in (attrgetter("use"), attrgetter("cpu"), attrgetter("cpu_bound"))
    )
    if use is None or cpu is None or bound is None or use >= _LOW_USE or bound < _CPU_BOUND:
        return
    busy = f"the GPUs were used {_percent(use)}, and the CPUs of their tasks were busy for {_percent(cpu)}"
    text = f"{busy}: for {bound:.0%} of the time GPUs waited for CPUs, as for input that is decoded there"
    cpus = f"cpu: {2 * plan.replica_cpus}" if plan.replica_cpus else "more CPUs"
    more = f"{cpus} in the resources of each replica"
    yield Advice(
        "input", text, f"{more}, with as many workers that load data, or input that is decoded before"
    )


def _names(gpus: Sequence[tuple[NodeUse, GpuUse]]) -> str:
    return comma_list([f"{gpu.number} of {use.host or f'node {use.node}'}" for use, gpu in gpus])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _clock(seconds: float) -> str:
    from hpcdist.units import Walltime  # imports msgspec

    return str(Walltime(round(seconds)))


# --- All that a run used


class Used(NamedTuple):
    """What the jobs of a run cost, how the GPUs of their nodes were used, and what that suggests.

    ``nodes_left_out``: how many more nodes have samples, which are not read.
    """

    costs: tuple[Consumption, ...]
    nodes: tuple[NodeUse, ...]
    advice: tuple[Advice, ...]
    nodes_left_out: int = 0


def of_run(directory: RunDirectory, found: Sequence[Attempt], now: float) -> Used:
    """Return what the jobs of these attempts used."""
    plan = directory.plan()
    costs = starts(found, plan, now)
    nodes, left_out = samples.read(directory, plan, dict.fromkeys(attempt.job for attempt in found))
    is_over = all(attempt.state == JobState.COMPLETED.value for attempt in found)
    return Used(costs, nodes, advice(costs, nodes, plan, is_over=is_over), left_out)
