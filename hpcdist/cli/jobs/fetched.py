"""Outputs of runs on remotes: what is there alone, and fetching it with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcdist.cli.messages import note
from hpcdist.errors import ConfigError, Problem
from hpcdist.remotes import fetching, machines
from hpcdist.remotes.failures import Unreachable

if TYPE_CHECKING:
    from hpcdist.remotes.channel import Channel
    from hpcdist.runs.rundir import Run


def only_there(run: Run, patterns: Sequence[str]) -> dict[str, int]:
    """Fetch outputs that match these patterns; return the other ones, with their bytes, that are not here.

    Raises:
        ConfigError: if a pattern has none, or the run is on this machine.
        Unreachable: if its remote does not answer, and something is to be fetched.
    """
    if not run.record.remote:
        message = f"{run.name} is on this machine: its outputs are in {run.directory.outputs}"
        raise ConfigError(Problem(message, hint="omit --get"))
    channel = machines.of_runs([run]).runner.channel
    try:
        there = fetching.listing(channel, run)
    except Unreachable:
        if patterns:
            raise
        return {}
    if patterns:
        _fetch(channel, run, fetching.matching(there, patterns, run))
    left = fetching.missing(run, there)
    if left and not patterns:
        note(f"{len(left)} files are on {run.record.remote} alone: --get PATTERN fetches those that match")
    return left


def _fetch(channel: Channel, run: Run, names: Mapping[str, int]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(run.name, total=sum(names.values()), visible=False)

        def progress(count: int) -> None:
            bar.update(task, advance=count, visible=True)

        fetching.fetch(channel, run, names, progress)
