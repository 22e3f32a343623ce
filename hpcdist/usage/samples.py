"""The samples of GPU use that each node of a job wrote beside its tasks, and what they add up to.

``jobs/ID/gpu_usage/START.ATTEMPT.NODE`` has a line with the host and the tool, then one for each span of
time: the node's clock, the seconds, the samples, how busy the CPUs of the node's first task were in percent,
and for each GPU ``NUMBER:USE:USED:TOTAL``, in percent and MiB; ``-`` is unknown. A line that was cut short,
or that is none of these, is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from hpcdist.runs import attempts
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan

_FILE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_LINE: Final = re.compile(
    r"[0-9]{1,12} ([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,3}|-)"
    r"((?: [0-9]{1,4}:(?:[0-9]{1,3}|-):(?:[0-9]{1,9}|-):(?:[0-9]{1,9}|-))+)"
)
_HOST: Final = re.compile(r"# ([A-Za-z0-9._-]{1,255}) ")
_MAX_BYTES: Final = 1 << 20
_MOST_NODES: Final = 100
"""Of more nodes in the last attempt of a job, so many evenly spaced ones are read, and as many of those of
the attempts before it: each takes some 20 ms."""

_MOST_FILES: Final = 500
"""Of all jobs, such as the elements of an array."""

IDLE: Final = 5.0
"""Below so many percent a GPU is idle: drivers show a few for a GPU that only holds memory."""


class Span(NamedTuple):
    """What was seen in some seconds: the use of the CPUs and of each GPU by its number, in percent."""

    seconds: int
    samples: int
    cpu: float | None
    gpus: dict[int, float | None]


class GpuUse(NamedTuple):
    """How one GPU was used: on average in percent, for which share of the time it was idle, and MiB."""

    number: int
    use: float | None = None
    idle: float | None = None
    memory: int | None = None
    total: int | None = None


class NodeUse(NamedTuple):
    """How the GPUs of a node were used in one attempt, and its CPUs, in percent.

    ``longest_idle``: for how many seconds at a stretch no GPU was used. ``cpu_bound``: the share of the time
    in which the GPUs waited while the CPUs had no time left.
    """

    job: str
    attempt: tuple[int, int]
    node: int
    host: str
    seconds: int
    samples: int
    cpu: float | None
    gpus: tuple[GpuUse, ...]
    longest_idle: int
    cpu_bound: float | None

    @property
    def use(self) -> float | None:
        """The use of its GPUs on average, in percent."""
        return mean((each.use, 1) for each in self.gpus)


class Samples(NamedTuple):
    """How nodes were used; ``left_out``: how many more have samples, which are not read."""

    nodes: tuple[NodeUse, ...] = ()
    left_out: int = 0


_BUSY_CPUS: Final = 90.0
_WAITING_GPUS: Final = 50.0
"""CPUs at 90 % have no core left for another worker; GPUs below 50 % wait more than they compute."""


def read(directory: RunDirectory, plan: StoredPlan, jobs: Iterable[str]) -> Samples:
    """Return what the nodes of these jobs, or elements of arrays, wrote; nothing where there is none."""
    files = [_files(directory, plan, job) for job in jobs]
    chosen = [*islice((file for each in files for file in _chosen(each)), _MOST_FILES)]
    found = sorted(filter(None, (_use(directory, file) for file in chosen)), key=lambda use: use[:3])
    return Samples((*found,), sum(map(len, files)) - len(chosen))


def of_text(text: str, job: str, attempt: tuple[int, int], node: int) -> NodeUse | None:
    """Return what a file has; None without a line that can be read."""
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
    """Return the mean of what is known, each value with its weight; None of nothing."""
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
    """Return those that are read; of the last attempt enough to compare its nodes."""
    last = [file for file in files if file.attempt == files[-1].attempt]
    return [*_spaced(files[: len(files) - len(last)]), *_spaced(last)]


def _spaced(files: Sequence[_File]) -> Sequence[_File]:
    return files[:: -(-len(files) // _MOST_NODES) or 1]


def _use(directory: RunDirectory, file: _File) -> NodeUse | None:
    with suppress(OSError):
        text = directory.read(file.path, _MAX_BYTES).decode(errors="replace")
        return of_text(text, file.job, file.attempt, file.node)
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
