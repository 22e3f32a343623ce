"""A step of a job beside its program: what the script runs before it, beside it or after it."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model
from hpcdist.plan.origin import Origin

Place = Literal["job", "node", "last_node", "own_node"]
"""Where it runs: where the script runs; else on each node of the tasks, on the last, or on one without."""


class Step(Model, frozen=True, kw_only=True):
    """One command, when and where it runs."""

    time: Literal["before", "beside", "after"]
    on: Place
    command: str
    origin: Origin
