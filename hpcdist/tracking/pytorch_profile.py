"""Traces of PyTorch's profiler: how much of the time communication took, and how much nothing else hid.

A trace is an object of JSON (``export_chrome_trace``, ``tensorboard_trace_handler``; seen of PyTorch 2.13):
``distributedInfo`` with the rank, and ``traceEvents``, of which those with ``ph`` X have ``ts`` and ``dur``
in microseconds. Steps are annotations ``ProfilerStep#N``. Collectives are kernels with ``nccl`` in their
names, also those of RCCL; on CPUs annotations ``gloo:all_reduce``.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

MOST_BYTES: Final = 1 << 28
"""What is read of a trace; one of a few steps on a GPU has some 100 MB."""

_HEAD: Final = b'"schemaVersion"'
_HEAD_WITHIN: Final = 64
_GZIP: Final = b"\x1f\x8b"
_STEP: Final = "ProfilerStep#"
_ON_CPU: Final = ("gloo:", "mpi:")
_NO_WORK: Final = frozenset({"Trace", "overhead"})

Spans = list[tuple[float, float]]


class Profile(NamedTuple):
    """What one trace has: its rank, its last step, and metrics."""

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


def read(stream: BinaryIO) -> Profile | None:
    """Return the summary of a trace; None if it is none, if it is damaged, or if it has no communication.

    ``pytorch/communication/share``: the share of the time in which a collective ran. With GPUs,
    ``pytorch/communication/exposed_share``: that in which nothing else ran on any of the rank's GPUs.

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
    """Return the trace, or so much of its beginning as shows that it is none."""
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
    """Return the metrics; none without a collective."""
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
    """Return the time in which at least one of these went on."""
    total, end = 0.0, float("-inf")
    for begin, until in sorted(spans):
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total / 1e6


def _last_step(events: Iterable[_Event]) -> float | None:
    names = (str(event.name) for event in events)
    numbers = (name.removeprefix(_STEP) for name in names if name.startswith(_STEP))
    return max((float(number) for number in numbers if number.isdecimal() and number.isascii()), default=None)
