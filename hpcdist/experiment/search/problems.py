"""What keeps a search from having trials, each problem at its place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.errors import Key, Path, Problem
from hpcdist.experiment.search import adaptive, spaces
from hpcdist.experiment.search.adaptive import LEAST_ETA, MOST_AMOUNT, MOST_ETA
from hpcdist.experiment.search.model import Policy, Search
from hpcdist.experiment.search.trials import trials
from hpcdist.words import VARIABLE_NAME

# --- What is wrong with a policy by which running trials end early

_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "truncation": ("percent",),
    "difference": ("percent", "amount"),
}
"""What each kind needs one of."""


def problems(policy: Policy, path: Path) -> Iterator[Problem]:
    """Yield what keeps a policy from ending any trial, or lets it end all of them."""
    for name, least in (("evaluation_interval", 1), ("min_interval", 0), ("min_samples", 1)):
        if getattr(policy, name) < least:
            message = f"{getattr(policy, name)} is out of range"
            yield Problem(message, (*path, name), f"write a number from {least} on")
    allowed = _NUMBERS.get(policy.kind, ())
    given = [name for name in ("percent", "amount") if getattr(policy, name) is not None]
    for name in given:
        if name not in allowed:
            yield Problem(f"a policy `{policy.kind}` has no {name!r}", (*path, name), "remove it")
    if allowed and not given:
        yield Problem(f"`{' or '.join(allowed)}` is missing", path, f"write `{allowed[0]}: 20`")
    elif len(given) > 1 and set(given) <= set(allowed):
        yield Problem("there is `percent` already", (*path, "amount"), "keep one of them")
    most = 100 if policy.kind == "truncation" else math.inf
    if policy.percent is not None and not 0 < policy.percent < most:
        yield Problem(f"{policy.percent:g} is out of range", (*path, "percent"), "write a number such as 20")
    if policy.amount is not None and not 0 <= policy.amount < math.inf:
        yield Problem(f"{policy.amount:g} is out of range", (*path, "amount"), "write a number such as 0.1")


# --- What keeps a search from having trials, each problem at its place

_OF_TEMPLATES: Final = frozenset({"true", "True", "false", "False", "none", "None", "not", "self"})
"""Names that have a meaning of their own in templates: `{{ True }}` would be no param."""

_MOST_SEED: Final = 2**32 - 1
"""The largest of NumPy's generators, which Optuna's are."""

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
    if not found:
        yield from _of_trials(search, path)


def _of_algorithms(search: Search, path: Path) -> Iterator[Problem]:
    chosen = [name for name in _ALGORITHMS if getattr(search, name) is not None]
    for name in chosen[1:]:
        yield Problem(f"there is {chosen[0]!r} already", (*path, name), "keep one algorithm")
    if search.mapping and chosen:
        yield Problem("a list of trials has no algorithm", (*path, chosen[0]), "remove it, or `mapping`")
    if search.bo and search.bo.utility_function:
        message = "it has no effect: Optuna's TPE chooses the next trials"
        yield Problem(message, (*path, "bo", "utility_function"), severity="warning")
    for place, stop in enumerate(search.early_stopping):
        if stop.value is not None and not math.isfinite(stop.value):
            yield Problem(
                f"{stop.value} is never reached",
                (*path, "early_stopping", place, "value"),
                hint="write a number",
            )
        elif stop.value is None and not stop.policy:
            message = "it stops nothing without a `value`"
            yield Problem(message, (*path, "early_stopping", place), severity="warning")
        if stop.policy:
            yield from problems(stop.policy, (*path, "early_stopping", place, "policy"))


def _of_counts(search: Search, path: Path) -> Iterator[Problem]:
    counts: dict[Path, int | None] = {
        ("concurrency",): search.concurrency,
        ("max_failures",): search.max_failures,
    }
    if search.bo:
        counts |= {("bo", name): getattr(search.bo, name) for name in ("n_initial_trials", "n_iterations")}
    if search.hyperband:
        counts[("hyperband", "max_iterations")] = search.hyperband.max_iterations
        if search.hyperband.max_iterations > MOST_AMOUNT:
            message = f"{MOST_AMOUNT} is the most of a resource"
            yield Problem(message, (*path, "hyperband", "max_iterations"), "count it in larger units")
        if not LEAST_ETA <= search.hyperband.eta <= MOST_ETA:
            message = f"{search.hyperband.eta:g} is out of range"
            hint = f"write a number from {LEAST_ETA} to {MOST_ETA}, such as 3"
            yield Problem(message, (*path, "hyperband", "eta"), hint)
        if search.hyperband.resource.name in search.matrix:
            message = f"the resource {search.hyperband.resource.name!r} has values of its own"
            yield Problem(message, (*path, "matrix", search.hyperband.resource.name), "remove them")
    counts |= {
        (name, "n_experiments"): section.n_experiments
        for name in ("grid_search", "random_search")
        if (section := getattr(search, name))
    }
    if not 0 <= search.seed <= _MOST_SEED:
        yield Problem(
            f"{search.seed} is out of range", (*path, "seed"), f"write a number from 0 to {_MOST_SEED}"
        )
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
    name, wanted = _wanted(search)
    if wanted is not None and number < wanted and not search.mapping:
        message = f"there are {number} different trials, and not {wanted}"
        yield Problem(message, (*path, *name), severity="warning")


def _wanted(search: Search) -> tuple[Path, int | None]:
    """Return where it says how many trials there are at first, and how many."""
    if search.hyperband:
        return ("hyperband",), adaptive.first_size(search.hyperband)
    if search.bo:
        return ("bo", "n_initial_trials"), search.bo.n_initial_trials
    count = search.random_search.n_experiments if search.random_search else None
    return ("random_search", "n_experiments"), count
