"""The trials of a search: how they differ in the job that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hpcdist.base.fields import Model
from hpcdist.plan.values import Origin


class Pack(Model, frozen=True):
    """How trials share nodes: each worker, one task of a job, runs one trial after another.

    ``workers``: how many trials run at once, on so many ``nodes``; ``per_node``: on each of them at most.
    ``origin``: why they are packed.
    """

    workers: int
    nodes: int
    per_node: int
    origin: Origin

    def rounds(self, trials: int) -> int:
        """Return how many trials a worker runs one after another, if all take as long."""
        return -(-trials // self.workers)


class Sweep(Model, frozen=True):
    """How many trials there are, the names of their params, and how many run at once (None: all).

    ``jobs``: how many job arrays the trials are, where one cannot have so many elements. ``max_failures``:
    how many may fail before no further trial starts. ``budget``: the GPU-seconds that the trials may take;
    ``cost``: the most that a trial, or a packed job, takes. ``stop_at``: by metric, the values at which no
    further trial starts, each behind 1 (at least this value) or -1 (at most). ``policies``: which trials end
    early; ``sign`` is 1 where more is better, else -1. ``order``: the metric that puts the best trial first,
    with ``-`` where more is better. ``pack``: how trials share nodes, None where each is an element of an
    array. ``generations``: how many an adaptive search has at most, with ``most_trials`` in all; 0 where all
    trials are known.
    """

    trials: int
    params: tuple[str, ...]
    at_once: int | None = None
    order: str | None = None
    jobs: int = 1
    max_failures: int | None = None
    stop_at: dict[str, tuple[tuple[int, float], ...]] = {}
    policies: tuple[dict[str, str | int | float], ...] = ()
    budget: int | None = None
    cost: int | None = None
    pack: Pack | None = None
    generations: int = 0
    most_trials: int = 0

    @property
    def number(self) -> str:
        """How many trials there are: ``24 trials``, ``at most 206 trials``."""
        if self.generations:
            return f"at most {self.most_trials} trials"
        return f"{self.trials} trial{'s' * (self.trials != 1)}"

    @property
    def summary(self) -> str:
        """A short summary: ``24 trials of lr and batch, 4 at once``."""
        trials = f"{self.number} of {' and '.join(self.params)}"
        if self.generations:
            trials += f" in {self.generations} generations, {self.trials} of them in the first"
        trials = f"{trials}, {self.at_once} at once" if self.at_once else trials
        trials = f"{trials}, in {self.jobs} job arrays" if self.jobs > 1 else trials
        if self.budget is None or self.cost is None:
            return trials
        each = "each job" if self.pack else "each"
        most = f"of which {each} takes at most {self.cost / 3600:.3g}"
        return f"{trials}, within {self.budget / 3600:g} GPU-hours, {most}"


class TrialTexts(NamedTuple):
    """One trial: its params as text, its command, and the variables that it adds to the plan's own.

    ``number``: its number in the search, from 1.
    """

    params: Mapping[str, str]
    command: str
    variables: Mapping[str, str]
    number: int
