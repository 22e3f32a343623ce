"""What the first tier tries of sweeps and laws: a sample of the sites, and a part of the examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

from tests.sites import shipped_site


def sweep(names: Iterable[str]) -> list[Any]:
    """Return the names of sites as params, of which all but a sample are ``extended``.

    A site is in the sample if no site before it has its batch system, a launcher of it or its container
    runtime.
    """
    return sampled(names, traits)


def traits(name: str) -> set[str]:
    """Return the batch system, the launchers and the container runtime of a site."""
    site = shipped_site(name)
    return {site.scheduler, site.launcher, *site.launchers, site.container.runtime if site.container else ""}


def sampled(values: Iterable[Any], shown: Callable[[Any], set[str]]) -> list[Any]:
    """Return values as params; ``extended`` are those that show nothing new after the values before."""
    known: set[str] = set()
    params = []
    for value in values:
        new = shown(value) - known
        known |= new
        params.append(value if new else pytest.param(value, marks=pytest.mark.extended))
    return params


def examples(percent: int) -> settings:
    """Return settings of a law for this percentage of the examples that the profile gives others."""
    return settings(max_examples=max(1, settings().max_examples * percent // 100))
