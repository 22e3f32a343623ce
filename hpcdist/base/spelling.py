"""Misspelt names: the known name that a word most likely stands for.

A wrong guess misleads more than none. Ratios of common letters (``difflib``) find `experiments` in
`deployments`, and `timeline_filename` in `output_filename`: names of one section share whole words. So the
words that two names share are removed first, and the rest has to be near: a typing error is one letter left
out, added, replaced, or exchanged with the next (Damerau, doi:10.1145/363958.363994), seldom the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
"""A word within a name: of snake_case, kebab-case, camelCase, or a number."""
_SHORT: Final = 3
"""Words this short with different first letters are different words: cpu, gpu and tpu."""
_MOST: Final = 3
_OTHER: Final = 9


def closest(word: str, choices: Iterable[str], most: int = _MOST) -> str | None:
    """Return the choice that this word misspells or abbreviates; None where none is close.

    Allowed is one wrong letter of three, and ``most`` in all; of several, the first letter has to agree.
    """
    known = sorted(choices)
    near = [(edits, choice) for choice in known if (edits := _difference(word, choice)) <= most]
    if near:
        return word if word in known else min(near)[1]
    longer = [choice for choice in known if choice.lower().startswith(word.lower())]
    shortest = min(longer, key=len, default="")
    is_clear = len(word) >= _SHORT and all(choice.startswith(shortest) for choice in longer)
    return shortest or None if is_clear else None


def _difference(word: str, choice: str) -> int:
    """Return the number of edits between two names, ``_OTHER`` if they are not close."""
    mine, theirs = _words(word), _words(choice)
    if mine == theirs or "".join(mine) == "".join(theirs):
        return 0
    rest, other = _without_common(mine, theirs)
    abbreviates = len(rest) == len(other) < len(mine) and all(map(_abbreviates, rest, other))
    edits = _misspelling("".join(rest), "".join(other)) if max(len(word), len(choice)) >= _SHORT else _OTHER
    return min(edits, 2) if abbreviates else edits


def _misspelling(mine: str, theirs: str) -> int:
    """Return the number of edits between the different words of two names, ``_OTHER`` if they are many."""
    longest = max(len(mine), len(theirs))
    edits = _edits(mine, theirs)
    replaced = len(mine) == len(theirs) and sorted(mine) != sorted(theirs)
    first = mine[:1] == theirs[:1] or (edits == 1 and not (replaced and longest <= _SHORT))
    return edits if first and edits <= max(1, longest // _SHORT) else _OTHER


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)] or [name]


def _without_common(mine: Sequence[str], theirs: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words of two names without those that both begin with, and both end with."""
    while mine and theirs and mine[0] == theirs[0]:
        mine, theirs = mine[1:], theirs[1:]
    while mine and theirs and mine[-1] == theirs[-1]:
        mine, theirs = mine[:-1], theirs[:-1]
    return mine, theirs


def _abbreviates(mine: str, theirs: str) -> bool:
    return mine.startswith(theirs) or theirs.startswith(mine)


def _edits(mine: str, theirs: str) -> int:
    """Return the optimal string alignment distance.

    One digit instead of another is no typing error: P4000 and P5000 are two things.
    """
    rows: list[list[int]] = [[*range(len(theirs) + 1)]]
    for i, a in enumerate(mine, 1):
        row = [i]
        for j, b in enumerate(theirs, 1):
            other = 0 if a == b else _OTHER if a.isdigit() and b.isdigit() else 1
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + other)
            if i > 1 and j > 1 and a == theirs[j - 2] and mine[i - 2] == b:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]
