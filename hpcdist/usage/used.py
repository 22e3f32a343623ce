"""All that a run used: its cost, the use of its GPUs, and advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from hpcdist.errors import bytes_text, comma_list
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.state import Attempt
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState
from hpcdist.usage import samples
from hpcdist.usage.cost import Consumption, starts
from hpcdist.usage.samples import GpuUse, NodeUse, mean

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
