"""The texts of ``batch`` in Slurm's syntax: arrays, signals, dependencies.

Each is parsed once, into a frozen value whose ``str`` is Slurm's syntax again; schedulers get the value.
Source: sbatch(1), ``--array``, ``--signal``, ``--dependency``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from hpcdist.errors import Path, Problem, did_you_mean

MOST_ELEMENTS: Final = 4_000_000
"""The largest index of an array that Slurm can be configured for (slurm.conf(5), MaxArraySize)."""

_NUMBER: Final = r"\d{1,18}"
"""At most 18 digits, so that a range has a length (``sys.maxsize``)."""
_LONG: Final = re.compile(r"\d{19,}", re.ASCII)
_RANGE: Final = rf"{_NUMBER}(?:-{_NUMBER}(?::[1-9]\d{{0,17}})?)?"
_ARRAY: Final = re.compile(rf"({_RANGE}(?:,{_RANGE})*)(?:%({_NUMBER}))?", re.ASCII)

FORWARDED: Final = {"TERM": 15, "INT": 2, "HUP": 1, "USR1": 10, "USR2": 12}
"""The signals that the job script forwards to the program; any other ends the script."""
_SIGNALS: Final = frozenset(
    (*FORWARDED, "QUIT", "ABRT", "KILL", "ALRM", "URG", "CONT", "STOP", "TSTP", "TTIN", "TTOU")
)
_SIGNAL: Final = re.compile(r"(?:(?P<options>[BR]+):)?(?P<name>\w{1,18})(?:@(?P<seconds>\d{1,5}))?", re.ASCII)

_FLUX_JOB: Final = "[f\u0192][1-9A-HJ-NP-Za-km-z]{4,11}"
_PBS_JOB: Final = r"\d+(?:\[\d*\])?(?:\.[A-Za-z0-9-]+)*"
_RUN: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]*-\d{1,9}(?:/[A-Za-z0-9_-]+){0,2}"
"""The name of a run, of an element or trial of it (``tune-1/3``), or of a pipeline's operation."""
_IS_RUN: Final = re.compile(_RUN, re.ASCII)
_ID: Final = rf"(?P<number>\d+)(?:_(?P<element>\d+|\*))?|(?P<run>{_RUN})"
_JOB: Final = re.compile(rf"(?:{_ID})(?:\+(?P<delay>{_NUMBER}))?|{_FLUX_JOB}|{_PBS_JOB}", re.ASCII)
_KINDS: Final = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")


class IndexRange(msgspec.Struct, frozen=True):
    """Indices with a fixed step: ``0-15:4``, ``0-15``, or a single one, which has no ``last``."""

    first: int
    last: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        last = "" if self.last is None else f"-{self.last}"
        return f"{self.first}{last}" if self.step is None else f"{self.first}{last}:{self.step}"

    @property
    def indices(self) -> range:
        """The indices themselves."""
        return range(self.first, (self.first if self.last is None else self.last) + 1, self.step or 1)


class ArraySpec(msgspec.Struct, frozen=True):
    """The elements of a job array, and how many of them may run at once (None: all)."""

    ranges: tuple[IndexRange, ...]
    at_once: int | None = None

    @classmethod
    def parse(cls, text: str) -> ArraySpec:
        """Read ``7``, ``0-15``, ``0-15:4``, ``1,3,5-7``, each with ``%4`` to run at most 4 at once.

        Raises:
            ValueError: when it is not a job array.
        """
        match = _ARRAY.fullmatch(text)
        parts = match[1].split(",") if match else []
        ranges = tuple(IndexRange(*map(int, re.split("[-:]", part))) for part in parts)
        if not match or not all(part.indices for part in ranges):
            raise ValueError(f"{text!r} is not a job array")
        return cls(ranges, int(match[2]) if match[2] else None)

    def __str__(self) -> str:
        return self.indices if self.at_once is None else f"{self.indices}%{self.at_once}"

    @property
    def indices(self) -> str:
        """Its elements as Slurm's text, without how many run at once."""
        return ",".join(map(str, self.ranges))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return sum(len(part.indices) for part in self.ranges)

    @property
    def largest(self) -> int:
        """The largest index."""
        return max(part.indices[-1] for part in self.ranges)

    @property
    def only_index(self) -> int | None:
        """The index of its only element, as often as that is written; None where there are several."""
        smallest = min(part.first for part in self.ranges)
        return smallest if smallest == self.largest else None


class SignalSpec(msgspec.Struct, frozen=True):
    """The signal that a job gets before its end: ``B:USR1@120``.

    ``name``: as it was written, which may be a number. ``seconds``: how long before, None for Slurm's 60.
    ``options``: ``B`` for the job script alone, ``R`` for jobs of a reservation, or both.
    """

    name: str
    seconds: int | None = None
    options: str = ""

    @classmethod
    def parse(cls, text: str) -> SignalSpec:
        """Read ``USR1``, ``B:USR1@120``, ``10@60``; whether the signal exists is not checked.

        Raises:
            ValueError: when it is not a signal.
        """
        match = _SIGNAL.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not a signal")
        return cls(match["name"], int(match["seconds"]) if match["seconds"] else None, match["options"] or "")

    def __str__(self) -> str:
        return f"{self.options}:{self.of_tasks}" if self.options else self.of_tasks

    @property
    def of_tasks(self) -> str:
        """It without options: ``USR1@120``."""
        return self.name if self.seconds is None else f"{self.name}@{self.seconds}"

    @property
    def plain_name(self) -> str:
        """Its name in capitals and without ``SIG``, or its number."""
        return self.name.upper().removeprefix("SIG")


class AwaitedJob(msgspec.Struct, frozen=True):
    """A job in a dependency: ``12``, ``12_3``, ``12_*``, ``12+5``, an id of Flux or PBS, or a run's name.

    ``element``: which one of an array, ``*`` for each. ``delay``: minutes after its start.
    """

    id: str
    element: str | None = None
    delay: int | None = None

    def __str__(self) -> str:
        element = "" if self.element is None else f"_{self.element}"
        return f"{self.id}{element}" if self.delay is None else f"{self.id}{element}+{self.delay}"

    @property
    def is_run(self) -> bool:
        """Whether it is named by its run, whose jobs are looked up when the plan is made."""
        return _IS_RUN.fullmatch(self.id) is not None


class WaitCondition(msgspec.Struct, frozen=True):
    """``afterok:12:13``, ``12`` (which has no kind), or ``singleton`` (which has no jobs)."""

    kind: str | None = None
    jobs: tuple[AwaitedJob, ...] = ()

    def __str__(self) -> str:
        return ":".join([*([self.kind] if self.kind else []), *map(str, self.jobs)])

    @property
    def awaited(self) -> str:
        """Its kind; ids without a kind mean ``afterok``."""
        return self.kind or "afterok"


class Dependency(msgspec.Struct, frozen=True):
    """What a job waits for: all conditions of one of the alternatives."""

    alternatives: tuple[tuple[WaitCondition, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Dependency:
        """Read ``4711``, ``afterok:4711:train-1``, ``after:4711+5``, ``singleton``; ``,``: and, ``?``: or.

        Raises:
            ValueError: when it is not a dependency.
        """
        alternatives = [[_condition(part) for part in one.split(",")] for one in text.split("?")]
        found = tuple(tuple(part for part in one if part) for one in alternatives)
        if [*map(len, found)] != [*map(len, alternatives)]:
            raise ValueError(f"{text!r} is not a dependency")
        return cls(found)

    def __str__(self) -> str:
        return self.written(str)

    @property
    def conditions(self) -> tuple[WaitCondition, ...]:
        """The conditions of all alternatives."""
        return tuple(condition for conditions in self.alternatives for condition in conditions)

    def written(self, condition: Callable[[WaitCondition], str]) -> str:
        """Return it in Slurm's syntax, with each condition formatted by this function."""
        return "?".join(",".join(map(condition, conditions)) for conditions in self.alternatives)


def _condition(text: str) -> WaitCondition | None:
    if text == "singleton":
        return WaitCondition(text)
    kind, colon, ids = text.partition(":")
    known = bool(colon) and kind in _KINDS
    matches = [_JOB.fullmatch(one) for one in (ids if known else text).split(":")]
    jobs = tuple(_job(match) for match in matches if match)
    return WaitCondition(kind if known else None, jobs) if len(jobs) == len(matches) else None


def _job(match: re.Match[str]) -> AwaitedJob:
    delay = int(match["delay"]) if match["delay"] else None
    return AwaitedJob(match["number"] or match["run"] or match[0], match["element"], delay)


def array_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield the problems of an array."""
    try:
        array = ArraySpec.parse(_LONG.sub("9" * 18, text))
    except ValueError:
        yield Problem(f"{text!r} is not a job array", path, "write 0-15, 0-15:4, 1,3,5 or 0-15%4")
        return
    if max(array.size, array.largest, array.at_once or 0) > MOST_ELEMENTS:
        hint = "submit several arrays, or do more work in each element"
        yield Problem(f"no batch system accepts so many elements, or such indices: {text!r}", path, hint)


def array_ranges(text: str) -> list[range]:
    """Return the indices of an array; empty for a text that is not an array."""
    try:
        return [part.indices for part in ArraySpec.parse(text).ranges]
    except ValueError:
        return []


def signal_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield the problems of a signal."""
    try:
        signal = SignalSpec.parse(text)
    except ValueError as error:
        yield Problem(str(error), path, "write NAME@SECONDS, such as USR1@120 or B:TERM@60")
        return
    name = signal.plain_name
    if not (0 < int(name) <= 64 if name.isdecimal() else name in _SIGNALS):  # noqa: PLR2004 - SIGRTMAX
        yield Problem(f"there is no signal {signal.name!r}", path, did_you_mean(name, _SIGNALS))
    elif "B" in signal.options and name not in {*FORWARDED, *map(str, FORWARDED.values())}:
        hint = f"with `B:`, use a signal that it forwards: {', '.join(FORWARDED)}"
        yield Problem(f"{signal.name} would end the job script", path, hint)


def dependency_problems(texts: Iterable[str], path: Path) -> Iterator[Problem]:
    """Yield the problems of dependencies."""
    for text in texts:
        try:
            Dependency.parse(text)
        except ValueError as error:
            yield Problem(str(error), path, "write an id or a run, afterok:ID:ID or singleton")
