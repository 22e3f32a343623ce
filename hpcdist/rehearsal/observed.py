"""What a rehearsal recorded in ``rehearsal/N``: ``runtime/supervisor/rehearsal.py`` has the form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from hpcdist.runs.rundir import RunDirectory

# --- How often to save: the formula of Young and Daly

FORMULA: Final = "Young (1974), with the terms of higher order of Daly (2006)"
"""J. W. Young, CACM 17(9), doi:10.1145/361147.361115; J. T. Daly, doi:10.1016/j.future.2004.11.016."""

SOURCE_OF_DEFAULT: Final = "The Llama 3 Herd of Models, arXiv:2407.21783"
DEFAULT_NODE_MTBF_HOURS: Final = 54 * 24 * (16_384 / 8) / 419
"""419 unexpected interruptions in 54 days on 16,384 GPUs, of which a node had 8: 6335 hours."""


def interval(write_seconds: float, mtbf_seconds: float) -> float:
    """Return the seconds between two checkpoints with which least time is lost, without those of the writing.

    ``write_seconds``: how long the training waits for a checkpoint; ``mtbf_seconds``: the mean time between
    failures of the job. Equation (37) of Daly.
    """
    if write_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = write_seconds / (2 * mtbf_seconds)
    first = math.sqrt(2 * write_seconds * mtbf_seconds)
    return first * (1 + math.sqrt(ratio) / 3 + ratio / 9) - write_seconds


class Mtbf(NamedTuple):
    """The mean time between failures of a node in hours, and where that is from."""

    node_hours: float
    source: str

    def of_job(self, nodes: int) -> float:
        """Return that of a job on so many nodes, which ends with each of them, in seconds."""
        return self.node_hours * 3600 / nodes


def choose(given: float | None, of_site: float | None) -> Mtbf:
    """Return the given one, else that of the site, else one that was measured elsewhere."""
    if given is not None:
        return Mtbf(given, "--mtbf")
    if of_site is not None:
        return Mtbf(of_site, "the site file")
    return Mtbf(DEFAULT_NODE_MTBF_HOURS, SOURCE_OF_DEFAULT)


# --- What a rehearsal recorded in ``rehearsal/N``

_MOST_BYTES: Final = 1 << 28


class File(NamedTuple):
    """A file below the checkpoints; ``born`` is empty where the file system does not know it."""

    inode: int
    bytes: int
    changed: str
    born: str
    path: str

    @property
    def state(self) -> tuple[int, str]:
        """What names the file as it was then: a later one may have its inode."""
        return self.inode, self.changed


class Look(NamedTuple):
    """The files that were there at a time, in seconds since 1970."""

    at: float
    files: tuple[File, ...]


class Ending(NamedTuple):
    """What ended an attempt on purpose: ``node`` and ``rank`` are empty for the signal before a limit."""

    at: float
    kind: str
    node: str = ""
    rank: str = ""


class Attempt(NamedTuple):
    """One attempt; times are in seconds since 1970, by the clock of the node where the script ran.

    ``kind``: how it was to be ended. ``looks``: the checkpoints whenever they had changed; the first one is
    what the attempt found. ``untried``: nodes on which nothing could be ended. ``is_enough``: it was the last
    one, and was ended since it had shown what it could. ``read``: the files that were read, as `File.state`
    names them, None where the file system does not show that.
    """

    number: int
    tracking: str
    kind: str
    began: float
    looks: tuple[Look, ...] = ()
    endings: tuple[Ending, ...] = ()
    untried: tuple[str, ...] = ()
    is_enough: bool = False
    ended: float | None = None
    code: int | None = None
    read: frozenset[tuple[int, str]] | None = None

    @property
    def found(self) -> tuple[File, ...]:
        """The files that it found."""
        return self.looks[0].files if self.looks else ()

    @property
    def ended_by_itself(self) -> bool:
        """Whether its program ended, and nothing had been done to it."""
        return self.ended is not None and not self.endings


def read(directory: RunDirectory) -> tuple[Attempt, ...]:
    """Return the attempts of a rehearsal, as far as they were recorded."""
    return tuple(_attempts(directory))


def _attempts(directory: RunDirectory) -> Iterator[Attempt]:
    for number in count():
        try:
            text = directory.read(f"rehearsal/{number}", _MOST_BYTES)
        except OSError:
            return
        found = attempt(number, text.decode("utf-8", "replace").splitlines())
        if found is None:
            return
        yield found


def attempt(number: int, lines: Iterable[str]) -> Attempt | None:
    """Return the attempt that these lines record; damaged ones are left out. None if its begin is."""
    events, looks = _split(lines)
    found: Attempt | None = None
    endings: list[Ending] = []
    untried: list[str] = []
    states: set[tuple[int, str]] = set()
    for at, what, words in events:
        match what, words:
            case "begin", [tracking, kind]:
                found = Attempt(number, tracking, kind, at, tuple(looks))
            case "end_by", [kind, node, rank]:
                endings.append(Ending(at, kind, node.strip("-"), rank.strip("-")))
            case "untried", [_, node]:
                untried.append(node)
            case "read", [inode, changed, *_] if inode.isdigit():
                states.add((int(inode), changed))
            case "enough", []:
                found = found and found._replace(is_enough=True)
            case "seen", ["yes"]:
                found = found and found._replace(read=frozenset(states))
            case "end", [code] if code.isdigit():
                found = found and found._replace(ended=at, code=int(code))
    return found and found._replace(endings=tuple(endings), untried=tuple(untried))


Event = tuple[float, str, list[str]]


def _split(lines: Iterable[str]) -> tuple[list[Event], list[Look]]:
    """Return the events but for looks, and the looks."""
    events: list[Event] = []
    looks: list[tuple[float, list[File]]] = []
    for line in lines:
        what, *words = (line if line.startswith("+") else line.rstrip()).split(" ")
        with suppress(ValueError, IndexError):
            if what == "+":
                looks[-1][1].append(_file(words))
            elif what == "files":
                looks.append((int(words[0]) / 1000, []))
            else:
                events.append((int(words[0]) / 1000, what, words[1:]))
    return events, [Look(at, tuple(files)) for at, files in looks]


def _file(words: Sequence[str]) -> File:
    inode, size, changed, born, *path = words
    is_known = born.strip("0.-") != ""
    return File(int(inode), int(size), changed, born if is_known else "", " ".join(path).removeprefix("./"))
