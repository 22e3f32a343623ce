"""What the first tier tries of sweeps and laws: a sample of the sites, and a part of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.sites import SHIPPED

SAMPLE: Final = (
    "abci3", "anvil", "aurora", "aws-p4d", "bristen", "flux", "frontera", "frontier", "lassen", "local",
    "perlmutter", "sge",
)  # fmt: skip
"""Sites that have every batch system, launcher and container runtime that shipped sites have."""


def sweep(values: Iterable[Any], site_of: Callable[[Any], str] = str) -> list[Any]:
    """Return values as params; ``extended`` are those of shipped sites that are not in the sample."""
    others = {*SHIPPED} - {*SAMPLE}
    return [
        pytest.param(value, marks=pytest.mark.extended) if site_of(value) in others else value
        for value in values
    ]


def examples(percent: int) -> settings:
    """Return settings of a law for this percentage of the examples that the profile gives others."""
    return settings(max_examples=max(1, settings().max_examples * percent // 100))
