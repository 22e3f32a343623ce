"""Quantities whose unit is part of their type: ``Walltime`` in seconds, ``Memory`` in MiB."""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>[0-5]?\d):(?P<seconds>[0-5]?\d)")
_SPANS = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_MEMORY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGTP]i?)?B?", re.IGNORECASE)
_MIB_IN_UNIT: Final = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}

WALLTIME_FORMS: Final = "write HH:MM:SS, D-HH:MM:SS or a number with d, h, m or s, such as 90m"


class Walltime(msgspec.Struct, frozen=True, order=True):
    """How long a job may run, in whole seconds."""

    seconds: int

    @classmethod
    def parse(cls, value: object) -> Walltime:
        """Read ``12:00:00``, ``2-00:00:00``, ``90m``, ``1h30m``.

        A bare number is refused: Slurm reads it as minutes, PBS as seconds, LSF as minutes again.

        Raises:
            ValueError: with the forms to write.
        """
        if isinstance(value, Walltime):
            return value
        text = value.strip() if isinstance(value, str) else ""
        seconds = _clock_seconds(text) or _span_seconds(text)
        if seconds <= 0:
            raise ValueError(f"{value!r} is not a walltime; {WALLTIME_FORMS}")
        return cls(seconds)

    def __str__(self) -> str:
        """Write it as ``HH:MM:SS``, with days in front from 24 hours on, as Slurm does."""
        days, rest = divmod(self.seconds, 86400)
        return f"{days}-{Walltime(rest).clock}" if days else self.clock

    @property
    def clock(self) -> str:
        """The time as ``HH:MM:SS`` without days, as PBS and Grid Engine expect it."""
        return f"{self.seconds // 3600:02}:{self.seconds % 3600 // 60:02}:{self.seconds % 60:02}"


def _clock_seconds(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if not match:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _span_seconds(text: str) -> int:
    match = _SPANS.fullmatch(text.lower())
    if not match:
        return 0
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), (86400, 3600, 60, 1), strict=True))


class Memory(msgspec.Struct, frozen=True, order=True):
    """An amount of memory in whole MiB, never less than what was written."""

    mib: int

    @classmethod
    def parse(cls, value: object) -> Memory:
        """Read MiB as a number, or ``512M``, ``4Gi``, ``16G``, ``1.5T``.

        ``G`` and ``Gi`` are the same 1024 MiB here, as Slurm and PBS read them (sbatch(1), ``--mem``).

        Raises:
            ValueError: with the forms to write.
        """
        if isinstance(value, Memory):
            return value
        mib = _mib(value)
        if mib is None or not math.isfinite(mib):
            raise ValueError(f"{value!r} is not an amount of memory; write MiB as a number, or 4Gi, 16G")
        if mib < 0:
            raise ValueError(f"memory cannot be negative: {value!r}")
        return cls(math.ceil(mib))

    def __str__(self) -> str:
        """Write it as Slurm's ``--mem`` expects it: ``512M``."""
        return f"{self.mib}M"


def _mib(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    return float(match["number"]) * _MIB_IN_UNIT[(match["unit"] or "m")[0].lower()]
