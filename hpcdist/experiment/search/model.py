"""The section ``hptuning``: a search over params, with the keys of Polyaxon 0.5 to 0.6 and of 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from hpcdist.documents.fields import Model

Numbers = dict[str, int | float] | tuple[int | float, ...] | str
"""Numbers under their names, in the order of these, or as text with colons: ``0:10:2``."""


class Space(Model, frozen=True):
    """The values of one param; exactly one of these keys, and ``rounding`` beside one that has ``q``.

    ``values``: a list. ``pvalues``: pairs of a value and its probability; the last one gets what is left to
    1. ``range``: ``start``, ``stop`` (left out) and ``step``. ``linspace``: ``start``, ``stop`` and ``num``
    values in equal steps. ``logspace``: powers of ``base``, by default 10, whose exponents are in equal
    steps. ``geomspace``: ``num`` values in equal ratios. ``uniform``: any number from ``low`` to ``high``.
    ``quniform``: a multiple of ``q``. ``loguniform``: e to the power of a number from ``low`` to ``high``.
    ``qloguniform``: a multiple of ``q`` below that. ``normal``: a normal distribution with mean ``loc`` and
    standard deviation ``scale``. ``qnormal``: a multiple of ``q``. ``lognormal``: e to the power of such a
    number. ``qlognormal``: a multiple of ``q`` below that. ``rounding``: which multiple of ``q`` a number
    becomes: the one below, as in Polyaxon (``down``), or the ``nearest``, as in Azure ML and Katib.
    """

    main = "values"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "value": "write `values: [...]`, or the kind as the key: `uniform: {low: 0, high: 1}`",
        "kind": "write the kind as the key: `uniform: {low: 0, high: 1}`",
        "choice": "write `values`",
        "pchoice": "write `pvalues`",
    }

    values: tuple[Any, ...] | None = None
    pvalues: tuple[tuple[Any, ...], ...] | None = None
    range: Numbers | None = None
    linspace: Numbers | None = None
    logspace: Numbers | None = None
    geomspace: Numbers | None = None
    uniform: Numbers | None = None
    quniform: Numbers | None = None
    loguniform: Numbers | None = None
    qloguniform: Numbers | None = None
    normal: Numbers | None = None
    qnormal: Numbers | None = None
    lognormal: Numbers | None = None
    qlognormal: Numbers | None = None
    rounding: Literal["down", "nearest"] = "down"

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
    """Hyperband: many trials with little of a resource; the best of each round get more.

    ``max_iterations``: the most of the resource that one trial gets. ``eta``: of each round one in ``eta``
    trials goes on, with ``eta`` times as much. ``resource``: what it is. ``metric``: what decides.
    ``resume``: a trial goes on from its checkpoint; by default it starts again.
    """

    max_iterations: int
    resource: Resource
    metric: Metric
    eta: float = 3
    resume: bool = False


class Bayes(Model, frozen=True):
    """Bayesian optimization: each next trial is where the earlier ones promise most.

    ``n_initial_trials``: random trials at the beginning. ``n_iterations``: trials after those. ``metric``:
    what is optimized. ``utility_function``: it has no effect, since Optuna's TPE chooses the next trials.
    """

    n_initial_trials: int
    n_iterations: int
    metric: Metric
    utility_function: dict[str, Any] = {}


class Policy(Model, frozen=True):
    """Which running trials end early, compared with the others that have got as far.

    ``kind``: those whose best value is worse than the ``median`` of the others' values, or than the median of
    the ``average`` of each; the worst ``percent`` (``truncation``); or those whose best value is worse than
    the best of all by more than ``percent`` or ``amount`` (``difference``). ``evaluation_interval``: after
    how many values of the metric they are compared. ``min_interval``: how many it takes at least.
    ``min_samples``: how many others it takes.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "evaluationInterval": "write `evaluation_interval`",
        "minInterval": "write `min_interval`",
        "minSamples": "write `min_samples`",
    }

    kind: Literal["median", "average", "truncation", "difference"]
    evaluation_interval: int = 1
    min_interval: int = 0
    min_samples: int = 3
    percent: float | None = None
    amount: float | None = None


class EarlyStopping(Model, frozen=True):
    """When a search stops before its last trial, or a trial before its end.

    ``metric``: the metric. ``value``: the search stops once a trial has reached it. ``optimization``: whether
    more or less is better. ``policy``: which running trials end early.
    """

    metric: str
    value: float | None = None
    optimization: Literal["maximize", "minimize"] = "maximize"
    policy: Policy | None = None


class Search(Model, frozen=True):
    """A search over params: one trial for each choice of their values.

    ``matrix``: the values of each param. ``mapping``: a list of trials, each with its params, instead.
    ``concurrency``: how many trials run at once; by default as many as the batch system lets. ``seed``: the
    beginning of all random choices, by default 0, so that a file always has the same trials.
    ``metric``: what tells the best trial; by default that of the algorithm.
    ``grid_search``: all combinations of values, or the first ``n_experiments``; without an algorithm, this.
    ``random_search``: ``n_experiments`` random ones, none of them twice. ``hyperband``, ``bo``: some
    trials depend on earlier ones. ``early_stopping``: when no further trial starts. ``max_failures``: after
    so many trials have failed, no further one starts.
    """

    matrix: dict[str, Space] = {}
    mapping: tuple[dict[str, Any], ...] = ()
    concurrency: int | None = None
    seed: int = 0
    metric: Metric | None = None
    grid_search: Count | None = None
    random_search: Count | None = None
    hyperband: Hyperband | None = None
    bo: Bayes | None = None
    early_stopping: tuple[EarlyStopping, ...] = ()
    max_failures: int | None = None

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
