"""The section ``hptuning``: a search over params, and the values that each param may have.

The keys are Polyaxon's, 0.5 to 0.6, 1 and 2; the arithmetic is NumPy's, which Polyaxon uses.
Sources: polyaxon-schemas 0.6.1, ``ops/group/matrix``; hypertune 1.4.0, ``matrix``; NumPy's ``arange``,
``linspace``, ``logspace``, ``geomspace``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec

from hpcdist.base import tree
from hpcdist.base.errors import did_you_mean
from hpcdist.base.fields import Model

# --- The section ``hptuning``

Numbers = dict[str, int | float] | tuple[int | float, ...] | str
"""Numbers under their names, in the order of these, or as text with colons: ``0:10:2``."""


class Space(Model, frozen=True):
    """The values of one param; exactly one of these keys, and ``rounding`` next to one that has ``q``."""

    main = "values"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "value": "write `values: [...]`, or the kind as the key: `uniform: {low: 0, high: 1}`",
        "kind": "write the kind as the key: `uniform: {low: 0, high: 1}`",
        "choice": "write `values`",
        "pchoice": "write `pvalues`",
    }

    values: tuple[Any, ...] | None = None
    """A list."""
    pvalues: tuple[tuple[Any, ...], ...] | None = None
    """Pairs of a value and its probability; the last one gets what is left to 1."""
    range: Numbers | None = None
    """``start``, ``stop`` (left out) and ``step``."""
    linspace: Numbers | None = None
    """``start``, ``stop`` and ``num`` values in equal steps."""
    logspace: Numbers | None = None
    """Powers of ``base``, by default 10, whose exponents are in equal steps."""
    geomspace: Numbers | None = None
    """``num`` values in equal ratios."""
    uniform: Numbers | None = None
    """Any number from ``low`` to ``high``."""
    quniform: Numbers | None = None
    """A multiple of ``q``."""
    loguniform: Numbers | None = None
    """e to the power of a number from ``low`` to ``high``."""
    qloguniform: Numbers | None = None
    """A multiple of ``q`` below that."""
    normal: Numbers | None = None
    """A normal distribution with mean ``loc`` and standard deviation ``scale``."""
    qnormal: Numbers | None = None
    """A multiple of ``q``."""
    lognormal: Numbers | None = None
    """e to the power of such a number."""
    qlognormal: Numbers | None = None
    """A multiple of ``q`` below that."""
    rounding: Literal["down", "nearest"] = "down"
    """Which multiple of ``q`` a number becomes: the one below, as in Polyaxon (``down``), or the ``nearest``,
    as in Azure ML and Katib."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The keys that have a value; of a valid space one."""
        names = (name for name in self.__struct_fields__ if name != "rounding")
        return tuple(name for name in names if getattr(self, name) is not None)


class Count(Model, frozen=True):
    """How many trials a search has.

    ``n_experiments``: the number of trials; of a grid by default all.
    """

    main = "n_experiments"

    n_experiments: int | None = None


class Metric(Model, frozen=True):
    """The metric that a search optimizes.

    ``name``: its name, as the program records it. ``optimization``: whether more or less of it is better.
    """

    main = "name"

    name: str
    optimization: Literal["maximize", "minimize"] = "maximize"


class Resource(Model, frozen=True):
    """What hyperband gives more of to better trials.

    ``name``: the param that has the amount, such as ``epochs``. ``type``: whether it is a whole number.
    """

    main = "name"

    name: str
    type: Literal["int", "float"] = "float"


class Hyperband(Model, frozen=True):
    """Hyperband: many trials with little of a resource; the best of each round get more."""

    max_iterations: int
    """The most of the resource that one trial gets."""
    resource: Resource
    """What it is."""
    metric: Metric
    """What decides."""
    eta: float = 3
    """Of each round one in ``eta`` trials continues, with ``eta`` times as much."""
    resume: bool = False
    """A trial continues from its checkpoint; by default it starts again."""


class Bayes(Model, frozen=True):
    """Bayesian optimization: each next trial is where the earlier ones promise most."""

    n_initial_trials: int
    """Random trials at the beginning."""
    n_iterations: int
    """Trials after those."""
    metric: Metric
    """What is optimized."""
    utility_function: dict[str, Any] = {}
    """It has no effect, since Optuna's TPE chooses the next trials."""


class Policy(Model, frozen=True):
    """Which running trials end early, compared with the others that have got as far."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "evaluationInterval": "write `evaluation_interval`",
        "minInterval": "write `min_interval`",
        "minSamples": "write `min_samples`",
    }

    kind: Literal["median", "average", "truncation", "difference"]
    """Those whose best value is worse than the ``median`` of the others' values, or than the median of the
    ``average`` of each; the worst ``percent`` (``truncation``); or those whose best value is worse than the
    best of all by more than ``percent`` or ``amount`` (``difference``)."""
    evaluation_interval: int = 1
    """After how many values of the metric they are compared."""
    min_interval: int = 0
    """How many it takes at least."""
    min_samples: int = 3
    """How many others it takes."""
    percent: float | None = None
    amount: float | None = None


class EarlyStopping(Model, frozen=True):
    """When a search stops before its last trial, or a trial before its end."""

    metric: str
    """The metric."""
    value: float | None = None
    """The search stops once a trial has reached it."""
    optimization: Literal["maximize", "minimize"] = "maximize"
    """Whether more or less is better."""
    policy: Policy | None = None
    """Which running trials end early."""


class Search(Model, frozen=True):
    """A search over params: one trial for each choice of their values."""

    matrix: dict[str, Space] = {}
    """The values of each param."""
    mapping: tuple[dict[str, Any], ...] = ()
    """A list of trials, each with its params, instead."""
    concurrency: int | None = None
    """How many trials run at once; by default as many as the batch system lets."""
    seed: int = 0
    """The beginning of all random choices, by default 0, so that a file always has the same trials."""
    metric: Metric | None = None
    """What tells the best trial; by default the metric of the algorithm."""
    grid_search: Count | None = None
    """All combinations of values, or the first ``n_experiments``; without an algorithm, this."""
    random_search: Count | None = None
    """``n_experiments`` random ones, none of them twice."""
    hyperband: Hyperband | None = None
    """Many short trials, the best of which continue with more of a resource."""
    bo: Bayes | None = None
    """Later trials are where the earlier ones promise most: Bayesian optimization."""
    early_stopping: tuple[EarlyStopping, ...] = ()
    """When no further trial starts."""
    max_failures: int | None = None
    """After so many trials have failed, no further one starts."""

    @property
    def is_adaptive(self) -> bool:
        """Whether some trials depend on earlier ones."""
        return bool(self.hyperband or self.bo)

    @property
    def order(self) -> str | None:
        """The metric by which the best trial comes first: ``loss``, or ``-accuracy`` where more is better."""
        metric = self.best_by
        if metric is None:
            return None
        return f"-{metric.name}" if metric.optimization == "maximize" else metric.name

    @property
    def best_by(self) -> Metric | None:
        """The metric that tells the best trial."""
        algorithm = self.hyperband or self.bo
        return self.metric or (algorithm.metric if algorithm else None)

    def of_trials(self, trials: Iterable[dict[str, Any]]) -> Search:
        """Return a search that has these trials, and all else that this one has."""
        none = dict.fromkeys(("grid_search", "random_search", "hyperband", "bo"))
        return msgspec.structs.replace(self, matrix={}, mapping=(*trials,), metric=self.best_by, **none)

    @property
    def names(self) -> tuple[str, ...]:
        """The params that the trials have."""
        resource = (self.hyperband.resource.name,) if self.hyperband else ()
        return tuple({name: None for names in (self.matrix, *self.mapping, resource) for name in names})


# --- The values of one param

Value = Any
"""A value of a param, of any kind that YAML has."""

_Amounts = Mapping[str, float]
"""Numbers under their names."""

_LARGEST_EXPONENT: Final = 700
"""Beyond it, e to this power is no float any more; ten times the standard deviation stays below."""

_LEAST_WEIGHT: Final = 1e-9
"""Floats that add up to 1 may miss it by less."""

_MOST_DEVIATIONS: Final = 5
"""How far from its mean a normal number is proposed; 1 of 1.7 million is farther."""

_LARGEST: Final = sys.float_info.max

_LARGEST_COUNT: Final = 2**53
"""Beyond it, floats are whole numbers."""


class Choices(NamedTuple):
    """The values of a discrete space in their order; ``at`` returns one by its index."""

    size: int
    at: Callable[[int], Value]


class Distribution(NamedTuple):
    """A continuous space: each of its values is made from a number from ``low`` to ``high``."""

    draw_number: Callable[[Random], float]
    low: float
    high: float
    is_log: bool = False
    """The number is the logarithm of the value."""
    rounded: Callable[[float], float] = lambda value: value

    def draw(self, random: Random) -> float:
        """Return a random value."""
        return self.value(self.draw_number(random))

    def value(self, number: float) -> float:
        """Return the value that is made from a number."""
        return self.rounded(math.exp(number) if self.is_log else number)

    def number(self, value: float) -> float:
        """Return the number from which a value is made, or the nearest one."""
        number = value if not self.is_log else math.log(value) if value > 0 else self.low
        return min(max(number, self.low), self.high)


class _SpaceKind(NamedTuple):
    """One kind of space: the names of its numbers, the last of them optional, and what makes it."""

    names: tuple[str, ...]
    make: Callable[[_Amounts], Choices | Distribution]
    optional: str = "size"  # of the distributions; Polyaxon draws one value, whatever it says


def values_of(space: Space) -> Choices | Distribution:
    """Return the values of a space.

    Raises:
        ValueError: if it has none: with the number that is wrong.
    """
    kind = _only_kind(space)
    if space.values is not None:
        return _listed(space.values)
    if space.pvalues is not None:
        return _weighted(space.pvalues)
    amounts = _amounts(kind, getattr(space, kind))
    if space.rounding != "down" and "q" not in amounts:
        raise ValueError("`rounding` is of multiples of `q`, which it lacks; remove it")
    found = _KINDS[kind].make(amounts)
    if isinstance(found, Choices) or "q" not in amounts:
        return found
    step = _at_least(amounts, "q", 0, above=True)
    return found._replace(rounded=partial(_nearest if space.rounding == "nearest" else _below, step=step))


def weights_of(space: Space) -> tuple[float, ...] | None:
    """Return the probabilities of ``pvalues``, without 0; of other kinds None. The last has what is left."""
    return None if space.pvalues is None else tuple(filter(None, _weights(space.pvalues)))


def _weights(pairs: tuple[tuple[Value, ...], ...]) -> list[float]:
    given = [float(pair[1]) for pair in pairs]
    last = 1 - math.fsum(given[:-1])
    return [*given[:-1], last if last > _LEAST_WEIGHT else 0.0]


def _only_kind(space: Space) -> str:
    if len(space.kinds) != 1:
        found = f"has {' and '.join(space.kinds)}" if space.kinds else "has no values"
        raise ValueError(f"it {found}; write one of `values`, `range`, `linspace`, `uniform` and so on")
    return space.kinds[0]


def _listed(values: tuple[Value, ...]) -> Choices:
    if not values:
        raise ValueError("the list is empty")
    return Choices(len(values), values.__getitem__)


def _weighted(pairs: tuple[tuple[Value, ...], ...]) -> Choices:
    for pair in pairs:
        number = pair[1] if len(pair) == 2 else None  # noqa: PLR2004 - a value and its probability
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 1:
            raise ValueError(f"{list(pair)} is not a value with its probability; write [value, 0.5]")
    total = math.fsum(pair[1] for pair in pairs)
    if total > 1 + _LEAST_WEIGHT:
        raise ValueError(f"the probabilities add up to {total:g}; write no more than 1")
    return _listed(tuple(pair[0] for pair, weight in zip(pairs, _weights(pairs), strict=True) if weight))


def _amounts(kind: str, given: Numbers) -> _Amounts:
    """Return the numbers of a kind under their names."""
    names, optional = _KINDS[kind].names, _KINDS[kind].optional
    if isinstance(given, str):
        given = tuple(map(_number, given.split(":")))
    if not isinstance(given, Mapping):
        if len(given) not in (len(names), len(names) + 1):
            raise ValueError(f"it has {len(given)} numbers; write {{{': ..., '.join(names)}: ...}}")
        given = dict(zip((*names, optional), given, strict=False))
    for name in given.keys() - {*names, optional}:
        raise ValueError(f"unknown key {name!r}; {did_you_mean(name, names) or 'write ' + ', '.join(names)}")
    for name in (name for name in names if name not in given):
        raise ValueError(f"{name!r} is missing")
    for name, number in given.items():
        if not abs(number) <= _LARGEST:
            shown = number if isinstance(number, float) else "too large"
            raise ValueError(f"{name} is {shown}; write a number")
    return given


def _number(text: str) -> float:
    value = tree.resolve(text.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{text!r} is not a number")  # noqa: TRY004 - of a text in a file
    return value


def _in_order(amounts: _Amounts, low: str, high: str, *, strictly: bool) -> tuple[float, float]:
    one, other = amounts[low], amounts[high]
    if one > other or (strictly and one == other):
        raise ValueError(f"{low} is {one} and {high} is {other}; write a {low} that is less than {high}")
    if not math.isfinite(float(other) - float(one)):
        raise ValueError(f"{low} is {one} and {high} is {other}, {_APART}")
    return one, other


_APART: Final = "which are too far apart for numbers in between; write smaller ones"


def _at_least(amounts: _Amounts, name: str, least: float, *, above: bool = False) -> float:
    number = amounts[name]
    if number < least or (above and number == least):
        raise ValueError(
            f"{name} is {number}; write {f'a number above {least:g}' if above else f'{least:g} or more'}"
        )
    return number


def _count(amounts: _Amounts) -> int:
    if amounts["num"] != int(amounts["num"]):
        raise ValueError(f"num is {amounts['num']}; write a whole number")
    return int(_at_least(amounts, "num", 1))


def _range(amounts: _Amounts) -> Choices:
    start, stop = _in_order(amounts, "start", "stop", strictly=True)
    step = _at_least(amounts, "step", 0, above=True)
    difference = (start + step) - start  # as arange adds it
    if not difference:
        raise ValueError(f"step is {step}, which {start} is too large to be changed by")
    if not math.isfinite(float(difference)) or not math.isfinite((stop - start) / step):
        size = "large" if step > stop - start else "small"
        raise ValueError(f"step is {step}, too {size} a part of the way from {start} to {stop}")
    return Choices(math.ceil((stop - start) / step), lambda index: start + index * difference)


def _linspace(amounts: _Amounts) -> Choices:
    start, stop = _in_order(amounts, "start", "stop", strictly=True)
    count = _count(amounts)
    step = (stop - start) / max(1, count - 1)
    last = stop if count > 1 else start
    return Choices(count, lambda index: float(last) if index == count - 1 else index * step + start)


def _logspace(amounts: _Amounts) -> Choices:
    base, exponents = amounts.get("base", 10), _linspace(amounts)
    if base <= 0:
        raise ValueError(f"base is {base}; write a number above 0")
    for name in ("start", "stop"):
        _check_exponent(name, amounts[name] * math.log(base))
    return Choices(exponents.size, lambda index: float(base ** exponents.at(index)))


def _geomspace(amounts: _Amounts) -> Choices:
    start, stop = _in_order(amounts, "start", "stop", strictly=True)
    if start <= 0 <= stop:
        raise ValueError(f"start is {start} and stop is {stop}; write numbers of one sign, and not 0")
    if not 0 < stop / start < math.inf:
        raise ValueError(f"start is {start} and stop is {stop}, {_APART}")
    count = _count(amounts)
    ratio = math.log10(stop / start) / max(1, count - 1)
    ends = {0: float(start), count - 1: float(stop if count > 1 else start)}
    return Choices(count, lambda index: ends[index] if index in ends else start * 10 ** (index * ratio))


def _check_exponent(name: str, exponent: float) -> None:
    if exponent > _LARGEST_EXPONENT:
        raise ValueError(f"{name} is an exponent, and too large to be one; write the logarithm of the number")


def _uniform(amounts: _Amounts) -> Distribution:
    low, high = _in_order(amounts, "low", "high", strictly=False)
    return Distribution(lambda random: random.uniform(low, high), low, high)


def _normal(amounts: _Amounts) -> Distribution:
    mean, deviation = amounts["loc"], _at_least(amounts, "scale", 0)
    if not math.isfinite(abs(float(mean)) + 10 * float(deviation)):
        raise ValueError(f"loc is {mean} and scale is {deviation}, which are too large; write smaller ones")
    low, high = mean - _MOST_DEVIATIONS * deviation, mean + _MOST_DEVIATIONS * deviation
    return Distribution(lambda random: random.normalvariate(mean, deviation), low, high)


def _loguniform(amounts: _Amounts) -> Distribution:
    found = _uniform(amounts)
    _check_exponent("high", amounts["high"])
    return found._replace(is_log=True)


def _lognormal(amounts: _Amounts) -> Distribution:
    found = _normal(amounts)
    _check_exponent("loc", amounts["loc"] + 10 * amounts["scale"])
    return found._replace(is_log=True)


def _below(number: float, step: float) -> float:
    return number // step * step if abs(number / step) < _LARGEST_COUNT else number


def _nearest(number: float, step: float) -> float:
    count = number / step
    return round(count) * step if abs(count) < _LARGEST_COUNT else number


_BOUNDS: Final = ("low", "high")
_MOMENTS: Final = ("loc", "scale")
_KINDS: Final[Mapping[str, _SpaceKind]] = {
    "range": _SpaceKind(("start", "stop", "step"), _range),
    "linspace": _SpaceKind(("start", "stop", "num"), _linspace),
    "logspace": _SpaceKind(("start", "stop", "num"), _logspace, "base"),
    "geomspace": _SpaceKind(("start", "stop", "num"), _geomspace),
    "uniform": _SpaceKind(_BOUNDS, _uniform),
    "quniform": _SpaceKind((*_BOUNDS, "q"), _uniform),
    "loguniform": _SpaceKind(_BOUNDS, _loguniform),
    "qloguniform": _SpaceKind((*_BOUNDS, "q"), _loguniform),
    "normal": _SpaceKind(_MOMENTS, _normal),
    "qnormal": _SpaceKind((*_MOMENTS, "q"), _normal),
    "lognormal": _SpaceKind(_MOMENTS, _lognormal),
    "qlognormal": _SpaceKind((*_MOMENTS, "q"), _lognormal),
}
