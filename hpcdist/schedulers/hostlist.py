"""Host lists as Slurm writes them: ``n[001-003,7],gpu5`` is five names.

Order and duplicates are kept: the first name is the first node. Unlike ``scontrol show hostnames`` this takes
a suffix after the last bracket, and refuses what that silently drops or repairs (``n[3-1]``, ``n[1-2``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

LIMIT: Final = 100_000
"""More hosts than any machine has; a longer list is a mistake or an attack."""

_Ranges = list[tuple[range, int]]
"""Numbers, and to how many digits each is filled with zeros."""

_BALANCED: Final = re.compile(r"[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*")
_COMMA: Final = re.compile(r",(?![^\[]*\])")
_BRACKET: Final = re.compile(r"\[([^\]]*)\]")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"(.*?)(\d+)(\D*)", re.ASCII)
_LETTERS: Final = re.compile(r"[^\s,\[\]]+")


def expand(text: str) -> list[str]:
    """Return the hosts of a list, in its order.

    Raises:
        ValueError: with a sentence, for an invalid list, or more than ``LIMIT`` hosts.
    """
    if not _BALANCED.fullmatch(text):
        raise ValueError(f"{_short(text)}: a bracket has no partner")
    names = [_parts(name) for name in _COMMA.split(text)] if text else []
    if sum(math.prod(map(_count, parts)) for parts in names) > LIMIT:
        raise ValueError(f"{_short(text)}: more than {LIMIT} hosts")
    return ["".join(host) for parts in names for host in itertools.product(*map(_texts, parts))]


def compress(hosts: Iterable[str]) -> str:
    """Return the list that ``expand`` turns into these hosts; numbers that ascend by one become ranges.

    Raises:
        ValueError: for an invalid name of a host.
    """
    groups = itertools.groupby(map(_split, hosts), key=lambda host: (host[0], bool(host[1]), host[2]))
    return ",".join(
        _joined(before, [number for _, number, _ in members], after) for (before, _, after), members in groups
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")  # noqa: PLR2004 - as much as one reads


def _parts(name: str) -> list[str | _Ranges]:
    """Cut a name at its brackets."""
    pieces = _BRACKET.split(name)
    if not all(_LETTERS.fullmatch(piece) for piece in pieces[::2] if piece) or not name:
        raise ValueError(f"{_short(name)} cannot be the name of a host")
    return [_ranges(piece, name) if at % 2 else piece for at, piece in enumerate(pieces)]


def _ranges(text: str, name: str) -> _Ranges:
    return [_range(part, name) for part in text.split(",")]


def _range(text: str, name: str) -> tuple[range, int]:
    match = _RANGE.fullmatch(text)
    if not match:
        raise ValueError(f"{_short(name)}: {_short(text)} is neither a number nor a range such as 01-16")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"{_short(name)}: the range {text} goes down")
    return range(first, last + 1), len(match[1])


def _count(part: str | _Ranges) -> int:
    return 1 if isinstance(part, str) else sum(len(numbers) for numbers, _ in part)


def _texts(part: str | _Ranges) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    else:
        yield from (f"{number:0{width}}" for numbers, width in part for number in numbers)


def _split(host: str) -> tuple[str, str, str]:
    """Cut a host at its last number; without one, or if it is too long, all is prefix."""
    if not _LETTERS.fullmatch(host):
        raise ValueError(f"{_short(host)} cannot be the name of a host")
    match = _LAST_NUMBER.fullmatch(host)
    if not match or not _RANGE.fullmatch(match[2]):
        return host, "", ""
    return match[1], match[2], match[3]


def _joined(before: str, numbers: list[str], after: str) -> str:
    if not numbers[0]:
        return ",".join([before] * len(numbers))
    if len(numbers) == 1:
        return f"{before}{numbers[0]}{after}"
    return f"{before}[{','.join(_runs(numbers))}]{after}"


def _runs(numbers: list[str]) -> Iterator[str]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number == f"{int(last) + 1:0{len(first)}}" and len(number) <= 18:  # noqa: PLR2004 - as in _RANGE
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number
    yield first if first == last else f"{first}-{last}"
