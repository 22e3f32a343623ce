"""The trials of a search: what each of them has of its own in the job that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hpcdist.documents.fields import Model


class Sweep(Model, frozen=True):
    """How many trials there are, the names of their params, and how many run at once (None: all).

    ``order``: the metric by which the best one comes first, with ``-`` where more is better.
    """

    trials: int
    params: tuple[str, ...]
    at_once: int | None = None
    order: str | None = None

    @property
    def number(self) -> str:
        """How many they are: ``24 trials``."""
        return f"{self.trials} trial{'s' * (self.trials != 1)}"

    @property
    def summary(self) -> str:
        """What it is in a few words: ``24 trials of lr and batch, 4 at once``."""
        trials = f"{self.number} of {' and '.join(self.params)}"
        return f"{trials}, {self.at_once} at once" if self.at_once else trials


class TrialTexts(NamedTuple):
    """One trial: its params as text, its command, and its variables, all of them beside the plan's own."""

    params: Mapping[str, str]
    command: str
    variables: Mapping[str, str]
