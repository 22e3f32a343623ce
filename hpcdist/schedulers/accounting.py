"""What batch systems keep of each start of a job: times, hosts, end, and what they measure of its use."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from hpcdist.schedulers.job import LATEST, NODE, JobState

_SPAN: Final = re.compile(r"(?:([0-9]{1,6})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,2}(?:\.[0-9]{1,9})?)")
_SECONDS: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *(?:s|second\(s\))?")
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) *([KMGTPE]?)(?:i?b|bytes)?", re.IGNORECASE)


Moment = Annotated[float, Meta(ge=0, lt=LATEST)]
Seconds = Annotated[float, Meta(ge=0, lt=1 << 53)]
Bytes = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
Host = Annotated[str, Meta(pattern=rf"\A{NODE.pattern}\Z")]


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
    """One start of a job, or of an element of an array; times are in seconds since 1970, None is unknown.

    ``max_memory`` in bytes is that of the whole job where the batch system adds it up, else of a process;
    ``total_memory`` in bytes is what all processes together can have used at most. ``cpu_seconds`` is the
    time that they computed, user and system. ``cpus`` and ``gpus`` are those that the job had and is charged
    for, which are more than it asked for where it had whole nodes. ``elapsed``: for how many seconds it ran,
    where the batch system counts them itself, without the time for which the job was suspended; 0 of one that
    never started. ``gpu_seconds`` and ``cpu_seconds_had`` are these numbers times ``elapsed``, given only
    where it had parts of which each ran for a time of its own.
    """

    element: Count | None = None
    state: JobState = JobState.UNKNOWN
    queued: Moment | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_code: Count | None = None
    hosts: tuple[Host, ...] = ()
    max_memory: Bytes | None = None
    total_memory: Bytes | None = None
    cpu_seconds: Seconds | None = None
    cpus: Count | None = None
    gpus: Count | None = None
    elapsed: Moment | None = None
    gpu_seconds: Seconds | None = None
    cpu_seconds_had: Seconds | None = None


def size(text: str) -> int | None:
    """Return the bytes of ``14568K``, ``187336kb`` or ``1.5 Gbytes``; None for 0, which was not measured."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return None
    return int(float(match[1]) * 1024 ** " KMGTPE".index(match[2].upper() or " ")) or None


def seconds(text: str) -> float | None:
    """Return the seconds of ``1-02:03:04``, ``02:03.5`` or ``0.3 second(s)``; None for 0, as of `size`."""
    if match := _SPAN.fullmatch(text.strip()):
        days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
        return ((days * 24 + hours) * 60 + minutes) * 60 + float(match[4]) or None
    found = _SECONDS.fullmatch(text.strip())
    return float(found[1]) or None if found else None


def count(text: str) -> int | None:
    """Return a number of CPUs or GPUs; None for a text that is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004 - digits


def times(number: int | None, elapsed: float | None) -> float | None:
    """Return the seconds that so many CPUs or GPUs had in so many."""
    return None if number is None or elapsed is None else number * elapsed


def moment(text: str) -> float | None:
    """Return the time of ``Sat Nov 21 08:17:13 2026``, as PBS and Grid Engine write it; None for others."""
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timestamp()  # noqa: DTZ007 - local, as written
    except (ValueError, OverflowError):
        return None
