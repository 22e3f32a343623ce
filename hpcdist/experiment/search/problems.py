"""What keeps a search from having trials, each problem at its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.errors import Key, Path, Problem
from hpcdist.experiment.search import spaces
from hpcdist.experiment.search.model import Search
from hpcdist.experiment.search.trials import trials
from hpcdist.words import VARIABLE_NAME

_ADAPTIVE: Final = "searches whose trials depend on earlier ones are not run yet"
_OF_TEMPLATES: Final = frozenset({"true", "True", "false", "False", "none", "None", "not", "self"})
"""Names that have a meaning of their own in templates: `{{ True }}` would be no param."""

_ALGORITHMS: Final = ("grid_search", "random_search", "hyperband", "bo")


def search_problems(search: Search, path: Path) -> Iterator[Problem]:
    """Yield all problems of a search that its types do not exclude."""
    if search.matrix and search.mapping:
        yield Problem("a list of trials has no matrix", (*path, "mapping"), "remove it, or `matrix`")
    elif not (search.matrix or search.mapping):
        yield Problem("a search needs the values of its params", path, "write `matrix`, or `mapping`")
    yield from _of_algorithms(search, path)
    found = [*_of_counts(search, path), *_of_spaces(search, path)]
    yield from found
    if not found and not search.is_adaptive:
        yield from _of_trials(search, path)


def _of_algorithms(search: Search, path: Path) -> Iterator[Problem]:
    chosen = [name for name in _ALGORITHMS if getattr(search, name) is not None]
    for name in chosen[1:]:
        yield Problem(f"there is {chosen[0]!r} already", (*path, name), "keep one algorithm")
    if search.mapping and chosen:
        yield Problem("a list of trials has no algorithm", (*path, chosen[0]), "remove it, or `mapping`")
    for name in (name for name in ("hyperband", "bo") if name in chosen):
        yield Problem(_ADAPTIVE, (*path, name), "write `random_search: {n_experiments: ...}`")
    if search.early_stopping:
        message = "no trial is stopped early yet: all of them run"
        yield Problem(message, (*path, "early_stopping"), severity="warning")


def _of_counts(search: Search, path: Path) -> Iterator[Problem]:
    counts: dict[Path, int | None] = {("concurrency",): search.concurrency}
    counts |= {
        (name, "n_experiments"): section.n_experiments
        for name in ("grid_search", "random_search")
        if (section := getattr(search, name))
    }
    for place, count in counts.items():
        if count is not None and count < 1:
            yield Problem(f"{count} is out of range", (*path, *place), "write 1 or more")


def _of_spaces(search: Search, path: Path) -> Iterator[Problem]:
    sections = {("matrix",): search.matrix} | {("mapping", at): one for at, one in enumerate(search.mapping)}
    names = {name: (*path, *section, Key(name)) for section, one in sections.items() for name in one}
    for name, place in names.items():
        if not VARIABLE_NAME.fullmatch(name) or name in _OF_TEMPLATES:
            hint = "rename it" if name in _OF_TEMPLATES else "use letters, digits and _"
            yield Problem(f"{name!r} is not a name that templates can have", place, hint)
    for name, space in search.matrix.items():
        place = (*path, "matrix", name)
        try:
            spaces.made(space)
        except ValueError as error:
            yield Problem(str(error), (*place, *space.kinds[:1]))


def _of_trials(search: Search, path: Path) -> Iterator[Problem]:
    try:
        number = len(trials(search))
    except ValueError as error:
        yield Problem(str(error), path)
        return
    wanted = search.random_search.n_experiments if search.random_search else None
    if wanted is not None and number < wanted and not search.mapping:
        message = f"there are {number} different trials, and not {wanted}"
        yield Problem(message, (*path, "random_search", "n_experiments"), severity="warning")
