"""Candidate settings of the network's libraries, measured side by side: their grid, their order, the best."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from hpcdist.doctor.finding import Finding
from hpcdist.errors import ConfigError, Place, Problem

MOST: Final = 8
"""Candidates beside the job as it is; each takes ``REPEATS`` launches of the tasks."""
REPEATS: Final = 3

Candidate = tuple[tuple[str, str], ...]
"""The variables in which a launch differs; the first candidate has none."""

_NAME: Final = re.compile(r"(?!HPCDIST_)[A-Za-z_]\w*", re.ASCII)


def grid(tries: Sequence[tuple[str, str]]) -> tuple[Candidate, ...]:
    """Return the job as it is, and every combination of these values: ``0,1``, or ``rc,sm|tcp``.

    Raises:
        ConfigError: if a name is no variable, a value cannot be one, or there are too many combinations.
    """
    if not tries:
        return ((),)
    values = [[(name, value) for value in _values(name, text)] for name, text in tries]
    found = [*dict.fromkeys(itertools.product(*values))]
    if len(found) > MOST:
        message = f"these are {len(found)} combinations, at most {MOST} are measured side by side"
        raise ConfigError(Problem(message, hint="try fewer values", place=Place("--try", 0, 0)))
    return ((), *found)


def _values(name: str, text: str) -> list[str]:
    values = [value.strip() for value in text.split("|" if "|" in text else ",")]
    place = Place(f"--try {name}={text}", 0, 0)
    if not _NAME.fullmatch(name):
        raise ConfigError(
            Problem(f"{name!r} is no variable of a library", hint="NAME=VALUE,...", place=place)
        )
    if not any(values) or any(not value.isprintable() for value in values):
        message = "it has no value, or one with a control character"
        raise ConfigError(Problem(message, hint="write NAME=VALUE,VALUE or NAME='VALUE|VALUE'", place=place))
    return [value for value in values if value]


def order(count: int) -> list[int]:
    """Return the candidate of each launch: forwards, then backwards, so that a drift meets all alike."""
    there = [*range(count)]
    return [number for turn in range(REPEATS if count > 1 else 1) for number in there[:: (-1) ** turn]]


def not_set(candidate: Candidate, variables: Mapping[str, Sequence[str | None]]) -> str:
    """Return what the tasks had in place of a candidate; empty if they had it."""
    others = {
        name: variables.get(name, ()) for name, value in candidate if [*variables.get(name, ())] != [value]
    }
    return "; ".join(f"{name} was {_listed(values)}" for name, values in others.items())


def _listed(values: Sequence[str | None]) -> str:
    return " or ".join("not set" if value is None else value or "empty" for value in values) or "not recorded"


def findings(
    candidates: Sequence[Candidate],
    speeds: Mapping[str, Mapping[int, Sequence[float]]],
    others: Mapping[int, str] = {},
) -> Iterator[Finding]:
    """Yield each candidate's bandwidths and the best one.

    ``speeds``: by library and number of candidate; ``others``: what tasks had in place of a candidate.
    """
    for number, what in others.items():
        hint = "the site's `task_setup`, a module or the user's shell sets it: change it there"
        detail = f"it was not measured: in the tasks {what}"
        yield Finding("settings", text(candidates[number]), "warning", detail, hint)
    for library, measured in speeds.items():
        group = f"settings: {library}"
        for number, candidate in enumerate(candidates):
            if number in others:
                continue
            found = [*measured.get(number, ())]
            shown = ", ".join(f"{speed:.3g}" for speed in found)
            detail = f"all-reduce on the bus {shown} GB/s" if found else "no launch of it ended well"
            numbers = (("median", median(found)),) if found else ()
            yield Finding(group, text(candidate), "ok" if found else "note", detail, numbers=numbers)
        yield _best(group, candidates, measured)


def text(candidate: Candidate) -> str:
    """Return a candidate as the words of a shell."""
    return " ".join(f"{name}={value}" for name, value in candidate) or "as it is"


def _best(group: str, candidates: Sequence[Candidate], measured: Mapping[int, Sequence[float]]) -> Finding:
    """Return the best candidate, if it gains more than twice the spread of its launches and of the others."""
    base = [*measured.get(0, ())]
    complete = {number: found for number, found in measured.items() if len(found) >= REPEATS}
    if 0 not in complete or len(complete) == 1:
        return Finding(group, "best", "unknown", "there are too few measurements to compare them")
    best = max(complete, key=lambda number: median(complete[number]))
    gain = median(complete[best]) - median(base)
    noise = max(max(found) - min(found) for found in (base, complete[best]))
    if gain <= 2 * noise:
        return Finding(
            group, "best", "ok", f"nothing is better by more than twice the noise ({noise:.2g} GB/s)"
        )
    share = f"{gain / median(base):.0%} faster than as it is; the noise is {noise:.2g} GB/s"
    lines = ", ".join(f'{name}: "{value}"' for name, value in candidates[best])
    hint = (
        f"write `fabric: {{env: {{{lines}}}}}` into the site file, or these into `env_vars` of an experiment"
    )
    return Finding(group, "best", "note", f"{text(candidates[best])}: {share}", hint)
