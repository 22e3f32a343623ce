"""Where the time of a training went: timelines of Horovod, and traces of PyTorch's profiler."""

from __future__ import annotations

import errno
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

# --- Horovod's timeline: the time in which tensors were negotiated, and the time of each operation
#
# ``HOROVOD_TIMELINE`` is a trace in JSON, which lacks its last bracket while the job runs or if it was killed
# (``horovod/common/timeline.cc`` 0.28): each tensor is a ``pid``, whose activities begin (B) and end (E),
# one inside another: ``NEGOTIATE_ALLREDUCE``; ``ALLREDUCE`` with ``NCCL_ALLREDUCE``,
# ``MEMCPY_IN_FUSION_BUFFER``...

MOST_TIMELINE: Final = 1 << 26
"""The bytes that are read of a file: a million activities; a job of days may write gigabytes."""

_FIRST: Final = b'[\n{"name": "process_name"'
_PIECE: Final = 1 << 20
_LONGEST: Final = 1 << 10
_ACTIVATION: Final = re.compile(
    rb'\{"ph": "(?:B", "name": "(\w{1,64})|E)", "ts": ([0-9]{1,15}), "pid": ([0-9]{1,9})'
)
_NEGOTIATION: Final = "NEGOTIATE_"

_Activity = tuple[str, ...]

_DEPTH: Final = 3
_MOST: Final = 100
"""The most names of activities: Horovod has about twenty; more, in a damaged file, count as one."""

_OTHER: Final[_Activity] = ("other",)


class _Activation(NamedTuple):
    """The begin of an activity, or its end, if ``name`` is empty; ``at`` is in microseconds."""

    name: str
    at: int
    tensor: int


def horovod(stream: BinaryIO) -> dict[str, float]:
    """Return the summary of a timeline as metrics: seconds, and shares of its whole; empty for other files.

    Activities of several tensors at the same time count once. Of a large file, the first part is read.

    Raises:
        OSError: if it cannot be read.
    """
    if stream.read(len(_FIRST)) != _FIRST:
        return {}
    clocks: defaultdict[_Activity, _Clock] = defaultdict(_Clock)
    stacks: defaultdict[int, list[_Activity]] = defaultdict(list)
    first = now = None
    for name, now, tensor in _activations(stream):
        first = now if first is None else first
        stack = stacks[tensor]
        if name:
            activity = _activity(stack[-1] if stack else (), name)
            stack.append(activity if activity in clocks or len(clocks) < _MOST else _OTHER)
            clocks[stack[-1]].begin(now)
        elif stack:
            clocks[stack.pop()].end(now)
    return _timeline_metrics(clocks, first, now) if first is not None and now is not None else {}


def _activity(above: _Activity, name: str) -> _Activity:
    """Return the name of an activity inside another."""
    return (*above, "negotiation" if name.startswith(_NEGOTIATION) else name.lower())[:_DEPTH]


class _Clock:
    """The time in which an activity ran for at least one tensor."""

    def __init__(self) -> None:
        self._running = self._since = self._total = 0

    def begin(self, now: int) -> None:
        if not self._running:
            self._since = now
        self._running += 1

    def end(self, now: int) -> None:
        self._running -= 1
        if not self._running:
            self._total += max(0, now - self._since)

    def seconds(self, now: int) -> float:
        return (self._total + (max(0, now - self._since) if self._running else 0)) / 1e6


def _activations(stream: BinaryIO) -> Iterator[_Activation]:
    rest, left = b"", MOST_TIMELINE
    while left > 0 and (piece := stream.read(min(_PIECE, left))):
        text, end = rest + piece, 0
        left -= len(piece)
        for match in _ACTIVATION.finditer(text):
            name, at, tensor = match.groups(b"")
            yield _Activation(name.decode(), int(at), int(tensor))
            end = match.end()
        rest = text[max(end, len(text) - _LONGEST) :]


def _timeline_metrics(clocks: dict[_Activity, _Clock], first: int, now: int) -> dict[str, float]:
    whole = max(0, now - first) / 1e6
    found = {"horovod/timeline/seconds": whole}
    for activity, clock in sorted(clocks.items()):
        name, seconds = "/".join(("horovod", *activity)), clock.seconds(now)
        found[f"{name}/seconds"] = seconds
        if len(activity) == 1 and whole:
            found[f"{name}/share"] = seconds / whole
    return found


# --- Traces of PyTorch's profiler: the share of communication, and of communication without overlap
#
# A trace is an object of JSON (``export_chrome_trace``, ``tensorboard_trace_handler``; seen of PyTorch 2.13):
# ``distributedInfo`` with the rank, and ``traceEvents``; events with ``ph`` X have ``ts`` and ``dur`` in
# microseconds. Steps are annotations ``ProfilerStep#N``. Collectives are kernels with ``nccl`` in their
# names, also those of RCCL; on CPUs annotations ``gloo:all_reduce``.

MOST_BYTES: Final = 1 << 28
"""The bytes that are read of a trace; a few steps on a GPU take about 100 MB."""

_HEAD: Final = b'"schemaVersion"'
_HEAD_WITHIN: Final = 64
_GZIP: Final = b"\x1f\x8b"
_STEP: Final = "ProfilerStep#"
_ON_CPU: Final = ("gloo:", "mpi:")
_NO_WORK: Final = frozenset({"Trace", "overhead"})

Spans = list[tuple[float, float]]


class Profile(NamedTuple):
    """The content of a trace: its rank, its last step, and metrics."""

    rank: int
    step: float | None
    metrics: dict[str, float]


class _Event(msgspec.Struct):
    name: Any = ""
    cat: Any = ""
    ts: Any = None
    dur: Any = None

    @property
    def span(self) -> tuple[float, float] | None:
        if isinstance(self.ts, int | float) and isinstance(self.dur, int | float) and self.dur >= 0:
            return self.ts, self.ts + self.dur
        return None


class _Trace(msgspec.Struct):
    trace_events: list[_Event] = msgspec.field(name="traceEvents")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")

    @property
    def rank(self) -> int:
        rank = self.distributed.get("rank") if isinstance(self.distributed, dict) else None
        return rank if isinstance(rank, int) and rank >= 0 else 0


def is_packed(name: str) -> bool:
    """Return whether a file of this name is a compressed trace."""
    return name.endswith(".pt.trace.json.gz")


def pytorch(stream: BinaryIO) -> Profile | None:
    """Return the summary of a trace; None for other files, a damaged one, or one without communication.

    ``pytorch/communication/share``: the share of the time in which a collective ran. With GPUs,
    ``pytorch/communication/exposed_share``: the share in which nothing else ran on the rank's GPUs.

    Raises:
        OSError: if it cannot be read, or is too large.
    """
    text = _text(stream)
    if _HEAD not in text[:_HEAD_WITHIN]:
        return None
    try:
        trace = msgspec.json.decode(text, type=_Trace)
    except (msgspec.DecodeError, RecursionError):
        return None
    metrics = _metrics(trace.trace_events)
    return Profile(trace.rank, _last_step(trace.trace_events), metrics) if metrics else None


def _text(stream: BinaryIO) -> bytes:
    """Return the trace, or enough of its beginning to see that it is another file."""
    head = stream.read(_HEAD_WITHIN)
    is_compressed = head.startswith(_GZIP)
    if not is_compressed and _HEAD not in head:
        return head
    text = head + stream.read(MOST_BYTES - len(head) + 1)
    try:
        text = zlib.decompressobj(wbits=31).decompress(text, MOST_BYTES + 1) if is_compressed else text
    except zlib.error:
        return b""
    if len(text) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MOST_BYTES >> 20} MiB")
    return text


def _metrics(events: Iterable[_Event]) -> dict[str, float]:
    """Return the metrics; empty without a collective."""
    collectives: dict[bool, Spans] = {True: [], False: []}
    kernels: Spans = []
    first, last = float("inf"), 0.0
    for event in events:
        span, name, kind = event.span, str(event.name), event.cat
        if span is None or kind in _NO_WORK:
            continue
        first, last = min(first, span[0]), max(last, span[1])
        if kind == "kernel":
            (collectives[True] if "nccl" in name.lower() else kernels).append(span)
        elif name.startswith(_ON_CPU):
            collectives[False].append(span)
    found, whole = collectives[True] or collectives[False], (last - first) / 1e6
    if not found or whole <= 0:
        return {}
    seconds = _seconds(found)
    metrics = {
        "pytorch/profile/seconds": whole,
        "pytorch/communication/seconds": seconds,
        "pytorch/communication/share": seconds / whole,
    }
    if collectives[True]:
        metrics["pytorch/communication/exposed_share"] = (
            _seconds([*found, *kernels]) - _seconds(kernels)
        ) / whole
    return metrics


def _seconds(spans: Sequence[tuple[float, float]]) -> float:
    """Return the time in which at least one of these ran."""
    total, end = 0.0, float("-inf")
    for begin, until in sorted(spans):
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total / 1e6


def _last_step(events: Iterable[_Event]) -> float | None:
    names = (str(event.name) for event in events)
    numbers = (name.removeprefix(_STEP) for name in names if name.startswith(_STEP))
    return max((float(number) for number in numbers if number.isdecimal() and number.isascii()), default=None)
