"""Horovod's timeline: the time in which tensors were negotiated, and that of each operation.

``HOROVOD_TIMELINE`` is a trace in JSON, without its last bracket while the job runs or if it was killed
(``horovod/common/timeline.cc`` 0.28): each tensor is a ``pid``, whose activities begin (B) and end (E), one
inside another: ``NEGOTIATE_ALLREDUCE``; ``ALLREDUCE`` with ``NCCL_ALLREDUCE``, ``MEMCPY_IN_FUSION_BUFFER``...
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

MOST_BYTES: Final = 1 << 26
"""What is read of a file: a million activities; that of a job of days may have gigabytes."""

_FIRST: Final = b'[\n{"name": "process_name"'
_PIECE: Final = 1 << 20
_LONGEST: Final = 1 << 10
_EVENT: Final = re.compile(
    rb'\{"ph": "(?:B", "name": "(\w{1,64})|E)", "ts": ([0-9]{1,15}), "pid": ([0-9]{1,9})'
)
_NEGOTIATION: Final = "NEGOTIATE_"

_Activity = tuple[str, ...]

_DEPTH: Final = 3
_MOST: Final = 100
"""Activities by name, of which Horovod has about twenty; the others of a damaged file are one."""

_OTHER: Final[_Activity] = ("other",)


class _Event(NamedTuple):
    """``name`` is empty where an activity ends; ``at`` is in microseconds."""

    name: str
    at: int
    tensor: int


def read(stream: BinaryIO) -> dict[str, float]:
    """Return the summary of a timeline as metrics: seconds, and shares of its whole; empty if it is none.

    Activities of several tensors at the same time count once. Of a large file, the first part is read.

    Raises:
        OSError: if it cannot be read.
    """
    if stream.read(len(_FIRST)) != _FIRST:
        return {}
    clocks: defaultdict[_Activity, _Clock] = defaultdict(_Clock)
    stacks: defaultdict[int, list[_Activity]] = defaultdict(list)
    first = now = None
    for name, now, tensor in _events(stream):
        first = now if first is None else first
        stack = stacks[tensor]
        if name:
            activity = _activity(stack[-1] if stack else (), name)
            stack.append(activity if activity in clocks or len(clocks) < _MOST else _OTHER)
            clocks[stack[-1]].begin(now)
        elif stack:
            clocks[stack.pop()].end(now)
    return _metrics(clocks, first, now) if first is not None and now is not None else {}


def _activity(above: _Activity, name: str) -> _Activity:
    """Return the name of an activity inside another."""
    return (*above, "negotiation" if name.startswith(_NEGOTIATION) else name.lower())[:_DEPTH]


class _Clock:
    """The time in which an activity went on for at least one tensor."""

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


def _events(stream: BinaryIO) -> Iterator[_Event]:
    rest, left = b"", MOST_BYTES
    while left > 0 and (piece := stream.read(min(_PIECE, left))):
        text, end = rest + piece, 0
        left -= len(piece)
        for match in _EVENT.finditer(text):
            name, at, tensor = match.groups(b"")
            yield _Event(name.decode(), int(at), int(tensor))
            end = match.end()
        rest = text[max(end, len(text) - _LONGEST) :]


def _metrics(clocks: dict[_Activity, _Clock], first: int, now: int) -> dict[str, float]:
    whole = max(0, now - first) / 1e6
    found = {"horovod/timeline/seconds": whole}
    for activity, clock in sorted(clocks.items()):
        name, seconds = "/".join(("horovod", *activity)), clock.seconds(now)
        found[f"{name}/seconds"] = seconds
        if len(activity) == 1 and whole:
            found[f"{name}/share"] = seconds / whole
    return found
