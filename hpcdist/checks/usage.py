"""What the jobs of a run cost, how they used their GPUs and CPUs, and advice from that."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from hpcdist.base.errors import bytes_text, comma_list
from hpcdist.runs import attempts
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import JobState, Usage, times

# --- The samples of GPU use that each node of a job wrote next to its tasks
#
# ``jobs/ID/gpu_usage/START.ATTEMPT.NODE`` has a line with the host and the tool, then one for each span of
# time: the node's clock, the seconds, the samples, how busy the CPUs of its first task were in percent, and
# for each GPU ``NUMBER:USE:USED:TOTAL``, in percent and MiB; ``-`` is unknown. Truncated and
# other lines are left out.

_FILE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_LINE: Final = re.compile(
    r"[0-9]{1,12} ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,3}|-)"
    r"((?: [0-9]{1,4}:(?:[0-9]{1,3}|-):(?:[0-9]{1,9}|-):(?:[0-9]{1,9}|-))+)"
)
_HOST: Final = re.compile(r"# ([A-Za-z0-9._-]{1,255}) ")
_MAX_BYTES: Final = 1 << 20
_MOST_NODES: Final = 100
"""The most nodes that are read, evenly spaced, of the last attempt of a job, and again of all attempts before
it: each takes about 20 ms."""

_MOST_FILES: Final = 500
"""The most files of all jobs, such as elements of an array."""

IDLE: Final = 5.0
"""Below this percentage a GPU is idle: drivers show a few percent if it only holds memory."""


class Span(NamedTuple):
    """The samples of one span of time: the use of the CPUs and of each GPU by number, in percent."""

    seconds: int
    samples: int
    cpu: float | None
    gpus: dict[int, float | None]


class GpuUse(NamedTuple):
    """The use of one GPU: the average in percent, the share of the time it was idle, and MiB."""

    number: int
    use: float | None = None
    idle: float | None = None
    memory: int | None = None
    total: int | None = None


class NodeUse(NamedTuple):
    """The use of a node's GPUs and CPUs in one attempt, in percent."""

    job: str
    """The job, or the element of an array."""
    attempt: tuple[int, int]
    """The numbers of the start and of the try."""
    node: int
    """The number of the node in the job."""
    host: str
    """Its name; empty if that is not known."""
    seconds: int
    """For how long it was sampled."""
    samples: int
    """How many samples there are."""
    cpu: float | None
    """The use of the CPUs of its first task."""
    gpus: tuple[GpuUse, ...]
    """The use of each GPU."""
    longest_idle: int
    """The longest time in seconds for which no GPU was used."""
    cpu_bound: float | None
    """The share of the time in which the GPUs waited while the CPUs were full."""

    @property
    def use(self) -> float | None:
        """The use of its GPUs on average, in percent."""
        return mean((each.use, 1) for each in self.gpus)


class Samples(NamedTuple):
    """The use of nodes; ``left_out``: the number of nodes whose samples are not read."""

    nodes: tuple[NodeUse, ...] = ()
    left_out: int = 0


_BUSY_CPUS: Final = 90.0
_WAITING_GPUS: Final = 50.0
"""CPUs at 90 % have no free core for another worker; GPUs below 50 % mostly wait."""


def read_samples(directory: RunDirectory, plan: StoredPlan, jobs: Iterable[str]) -> Samples:
    """Return what the nodes of these jobs, or elements of arrays, wrote."""
    files = [_files(directory, plan, job) for job in jobs]
    chosen = [*islice((file for each in files for file in _chosen(each)), _MOST_FILES)]
    found = sorted(filter(None, (_use(directory, file) for file in chosen)), key=lambda use: use[:3])
    return Samples((*found,), sum(map(len, files)) - len(chosen))


def node_use_of(text: str, job: str, attempt: tuple[int, int], node: int) -> NodeUse | None:
    """Return the samples of a file; None if no line can be read."""
    lines = text.split("\n")
    host = _HOST.match(lines[0])
    rows = [row for row in map(_LINE.fullmatch, lines[:-1]) if row]
    if not rows:
        return None
    spans = [_span(row) for row in rows]
    memory: dict[int, list[tuple[int | None, int | None]]] = {}
    for row in rows:
        for number, _, used, total in _gpus(row):
            memory.setdefault(number, []).append((used, total))
    return NodeUse(
        job,
        attempt,
        node,
        host[1] if host else "",
        sum(span.seconds for span in spans),
        sum(span.samples for span in spans),
        mean((span.cpu, span.seconds) for span in spans),
        tuple(_gpu(number, spans, memory[number]) for number in sorted(memory)),
        _longest_idle(spans),
        _share(spans, _is_cpu_bound),
    )


def mean(values: Iterable[tuple[float | None, float]]) -> float | None:
    """Return the weighted mean of known values; None if there are none."""
    known = [(value, weight) for value, weight in values if value is not None]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


class _File(NamedTuple):
    """The samples of one node in one attempt."""

    attempt: tuple[int, int]
    node: int
    job: str
    path: str


def _files(directory: RunDirectory, plan: StoredPlan, job: str) -> list[_File]:
    """Return the files of a job, in the order of its attempts."""
    folder = f"jobs/{attempts.folder_of(plan, job)}/gpu_usage"
    names: Sequence[str] = ()
    with suppress(OSError):
        names = os.listdir(directory.path / folder)  # noqa: PTH208 - names alone
    found = []
    for match in filter(None, map(_FILE.fullmatch, names)):
        start, attempt, node = map(int, match.groups())
        found.append(_File((start, attempt), node, job, f"{folder}/{match[0]}"))
    return sorted(found)


def _chosen(files: Sequence[_File]) -> list[_File]:
    """Return the files to read; of the last attempt enough to compare its nodes."""
    last = [file for file in files if file.attempt == files[-1].attempt]
    return [*_spaced(files[: len(files) - len(last)]), *_spaced(last)]


def _spaced(files: Sequence[_File]) -> Sequence[_File]:
    return files[:: -(-len(files) // _MOST_NODES) or 1]


def _use(directory: RunDirectory, file: _File) -> NodeUse | None:
    with suppress(OSError):
        text = directory.read(file.path, _MAX_BYTES).decode(errors="replace")
        return node_use_of(text, file.job, file.attempt, file.node)
    return None


def _span(row: re.Match[str]) -> Span:
    gpus = {number: use for number, use, _, _ in _gpus(row)}
    return Span(int(row[1]), int(row[2]), _number(row[3]), gpus)


def _gpus(row: re.Match[str]) -> Iterator[tuple[int, float | None, int | None, int | None]]:
    for word in row[4].split():
        number, use, used, total = word.split(":")
        yield int(number), _number(use), _whole(used), _whole(total)


def _number(text: str) -> float | None:
    return None if text == "-" else min(100.0, float(text))


def _whole(text: str) -> int | None:
    return None if text == "-" else int(text)


def _gpu(number: int, spans: Sequence[Span], memory: Sequence[tuple[int | None, int | None]]) -> GpuUse:
    seen = [(span.gpus.get(number), span.seconds) for span in spans]
    return GpuUse(
        number,
        mean(seen),
        mean((None if use is None else float(use < IDLE), seconds) for use, seconds in seen),
        max((used for used, _ in memory if used is not None), default=None),
        max((total for _, total in memory if total is not None), default=None),
    )


def _share(spans: Sequence[Span], holds: Callable[[Span], bool | None]) -> float | None:
    seen = ((holds(span), span.seconds) for span in spans)
    return mean((None if found is None else float(found), seconds) for found, seconds in seen)


def _is_cpu_bound(span: Span) -> bool | None:
    use = mean((use, 1) for use in span.gpus.values())
    return None if use is None or span.cpu is None else use < _WAITING_GPUS and span.cpu >= _BUSY_CPUS


def _longest_idle(spans: Sequence[Span]) -> int:
    longest = now = 0
    for span in spans:
        uses = [*span.gpus.values()]
        is_idle = all(use is not None and use < IDLE for use in uses)
        now = now + span.seconds if is_idle else 0
        longest = max(longest, now)
    return longest


# --- The cost of a run: how long its jobs waited and ran, their GPUs and CPUs, and the use of these
#
# The figures are from the batch system's accounting, as the site charges them; missing ones are from the
# event log and the plan.


class Consumption(NamedTuple):
    """The cost of one start of a job, or of several; None is unknown."""

    job: str = ""
    """The job, or the element of an array."""
    start: int = 0
    """The number of the start."""
    waited: float | None = None
    """Seconds in the queue."""
    elapsed: float | None = None
    """Seconds for which it ran; for a running job, until now."""
    cpus: int | None = None
    """The CPUs that it had."""
    gpus: int | None = None
    """The GPUs that it had."""
    gpu_seconds: float | None = None
    """GPUs times the elapsed seconds; for a heterogeneous job, the sum over its components."""
    cpu_seconds_had: float | None = None
    """CPUs times the elapsed seconds, likewise."""
    cpu_seconds: float | None = None
    """The CPU time of its processes."""
    max_memory: int | None = None
    """Bytes, as in `Usage`."""
    total_memory: int | None = None
    """Bytes, as in `Usage`."""
    is_measured: bool = False
    """Whether the batch system's accounting has it."""

    @property
    def cpu_share(self) -> float | None:
        """The share of the CPUs' time that was used; measured times may give slightly more than 1."""
        if self.cpu_seconds is None or not self.cpu_seconds_had:
            return None
        return self.cpu_seconds / self.cpu_seconds_had


def hours(seconds: float | None) -> float | None:
    """Return seconds, such as GPU-seconds, as hours; None is unknown."""
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

    If one value is unknown, so is the sum: no sum is too small.
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
    """Return the cost of one start; its times are from the batch system, else the event log."""
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
    elapsed = _seconds_between(began, ended) if usage.elapsed is None else usage.elapsed
    gpus = plan.gpus_had if usage.gpus is None else usage.gpus
    return Consumption(
        last.job,
        last.number[0],
        _seconds_between(queued, began),
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


def _seconds_between(begin: float | None, end: float | None) -> float | None:
    """Return the time between; clocks of two hosts may differ, but no time is below zero."""
    return None if begin is None or end is None else max(0.0, end - begin)


def _sum(values: Iterator[float | None]) -> float | None:
    known = [*values]
    return None if None in known else sum(each for each in known if each is not None)


# --- Advice from what a job used of what it had: each sentence has its figures, and what to write instead
#
# There is no advice from short runs: a test of a minute shows neither how much memory a training needs nor
# how well it uses its GPUs. By these limits a somewhat larger next job still fits after the change; smaller
# gains are not worth a change.

_SHORTEST: Final = 600
"""The least seconds of a start: at first, programs load, compile and warm up."""

_FEWEST: Final = 20
"""The least samples of a node: at one per 30 s, the same time."""

_MEMORY_USED: Final = 0.25
"""Below this used share of the memory there is advice: twice the used amount is usual."""

_MEMORY_GAIN: Final = 4 << 30
"""The least bytes worth a change: fewer do not let another job start."""

_RESERVE: Final = 1.5
"""The advised amount over the used one: runs of one program differ by some tens of percent."""

_WALLTIME_USED: Final = 0.25
_WALLTIME_GAIN: Final = 3600
"""Backfill looks for gaps: a limit four times too long, and by an hour, misses most of them."""

_UNUSED: Final = 0.95
"""A GPU that is idle for this share of the time is unused: the rest may be a probe at start."""

_LONG_IDLE: Final = 0.25
_LOW_USE: Final = 50.0
_CPU_BOUND: Final = 0.5
"""A quarter or half of a job is longer than start-up, evaluation and checkpoints take."""


class Advice(NamedTuple):
    """One improvement: ``about`` is memory, walltime, gpus or input; ``write``: text for the file."""

    about: str
    text: str
    write: str = ""


def advice(
    costs: Sequence[Consumption], uses: Sequence[NodeUse], plan: StoredPlan, *, is_over: bool
) -> tuple[Advice, ...]:
    """Return what these starts of jobs, and the samples of their nodes, suggest; often nothing.

    ``is_over``: the job completed. A running or failed job may still need more.
    """
    long = [cost for cost in costs if (cost.elapsed or 0) >= _SHORTEST]
    found = [*_of_gpus([use for use in uses if _is_enough(use, plan)], plan)]
    if is_over and long and len(long) == len(costs):
        found += [*_memory(long, plan), *_walltime(long, plan)]
    return tuple(found)


def _is_enough(use: NodeUse, plan: StoredPlan) -> bool:
    """Whether a node has enough samples, and its GPUs are all of this job."""
    planned = next((group.gpus for group in plan.groups if 0 <= use.node - group.node < group.nodes), 0)
    return use.samples >= _FEWEST and use.seconds >= _SHORTEST and 0 < len(use.gpus) <= planned


def _memory(costs: Sequence[Consumption], plan: StoredPlan) -> Iterator[Advice]:
    """Advise less memory, by the use of all processes; each must get what the largest needed."""
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
    """Advise CPUs for the input if GPUs wait while the CPUs are full."""
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
    from hpcdist.base.units import Walltime  # imports msgspec

    return str(Walltime(round(seconds)))


# --- All that a run used


class Used(NamedTuple):
    """The cost of the jobs of a run, the use of their nodes' GPUs, and advice.

    ``nodes_left_out``: the number of nodes whose samples are not read.
    """

    costs: tuple[Consumption, ...]
    nodes: tuple[NodeUse, ...]
    advice: tuple[Advice, ...]
    nodes_left_out: int = 0


def of_run(directory: RunDirectory, found: Sequence[Attempt], now: float) -> Used:
    """Return what the jobs of these attempts used."""
    plan = directory.plan()
    costs = starts(found, plan, now)
    nodes, left_out = read_samples(directory, plan, dict.fromkeys(attempt.job for attempt in found))
    is_over = all(attempt.state == JobState.COMPLETED.value for attempt in found)
    return Used(costs, nodes, advice(costs, nodes, plan, is_over=is_over), left_out)
