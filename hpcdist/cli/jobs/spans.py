"""Times and sizes as people write and read them: ``30d``, ``2026-11-01``, ``1.5 MiB``."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import click

from hpcdist.base.errors import bytes_text, span_text


def moment(text: str, now: Callable[[], float] = time.time) -> float:
    """Read a time in the past, in seconds since 1970: ``30d`` or ``12h`` ago, or a day or time of ISO 8601.

    A time without a zone is local.

    Raises:
        BadParameter: if it is neither.
    """
    from hpcdist.base.units import Walltime  # imports msgspec, which `list` needs for nothing else

    try:
        return now() - Walltime.parse(text).seconds
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"{text!r} is no time; write a span such as 30d or 12h, or a day such as 2026-11-01."
        raise click.BadParameter(message) from None


def span(seconds: float) -> str:
    """Return a duration in its largest unit: ``3d``; of a time in the future ``0s``."""
    return span_text(seconds)


@lru_cache(4096)  # trials of a search take times of the same few seconds
def clock(seconds: float) -> str:
    """Return a duration as Slurm writes it: ``00:01:30``, ``2-00:00:00``."""
    from hpcdist.base.units import Walltime  # as in `moment`

    return str(Walltime(round(seconds)))


def age(at: float, now: Callable[[], float] = time.time) -> str:
    """Return how long ago it was, in seconds since 1970."""
    return span(now() - at)


def size(count: int) -> str:
    """Return a number of bytes: ``512 B``, ``1.5 MiB``."""
    return bytes_text(count, "B")
