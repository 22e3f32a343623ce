"""Runs of remotes: what is there comes here before it is read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.checks import nodes
from hpcdist.runs.remotes import fetching, here, machines
from hpcdist.runs.remotes.channel import Channel
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services

_BELOW = 3
"""How far above here the method is that was called, which a warning names."""


def services(*, voids: bool = False) -> Services:
    """Return the services as `here.services`, whose warnings are Python's."""
    return here.services(voids=voids)._replace(warn=_warn, without_suspects=nodes.without_suspects)


def _warn(problem: Problem) -> None:
    warnings.warn(str(problem), stacklevel=_BELOW)


def pull(run: Run) -> None:
    """Bring a run of a remote up to date here; warn if it does not answer, and what is here is read."""
    try:
        services().pull([run], whole=True)
    except (ConfigError, SchedulerError) as error:
        warnings.warn(str(error), stacklevel=_BELOW)


def outputs_there(run: Run) -> Mapping[str, int]:
    """Return the bytes of the outputs that are on its remote alone; without an answer none, and a warning."""
    if not run.record.remote:
        return {}
    try:
        return fetching.missing(run, fetching.listing(_channel(run), run))
    except (ConfigError, SchedulerError) as error:
        warnings.warn(str(error), stacklevel=_BELOW)
        return {}


def fetch(run: Run, patterns: Sequence[str]) -> None:
    """Bring the outputs that match these patterns here, if the run is on a remote.

    Raises:
        ConfigError: if a pattern has none, or the remote is not in the config any more.
        SchedulerError: if it does not answer, or some of them have changed meanwhile.
    """
    if run.record.remote:
        channel = _channel(run)
        wanted = fetching.matching(fetching.listing(channel, run), patterns, run)
        fetching.fetch(channel, run, wanted, bool)


def _channel(run: Run) -> Channel:
    return machines.of_runs([run]).runner.channel
