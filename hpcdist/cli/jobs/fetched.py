"""Outputs of runs on remotes: what is there alone, and fetching it with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcdist.cli.messages import note
from hpcdist.errors import ConfigError, Problem
from hpcdist.remotes import fetching, machines
from hpcdist.remotes.failures import Unreachable
from hpcdist.runs.services import Outdated

if TYPE_CHECKING:
    from hpcdist.remotes.channel import Channel
    from hpcdist.remotes.fetching import Version
    from hpcdist.runs.rundir import Run


def only_there(run: Run, patterns: Sequence[str], element: str = "") -> dict[str, int] | None:
    """Fetch outputs that match these patterns; return the other ones, with their bytes, that are not here.

    ``element``: of this one alone. None: the remote does not answer.

    Raises:
        ConfigError: if a pattern has none, or the run is on this machine.
        SchedulerError: if its remote does not answer or has not all of them, and something is to be fetched.
    """
    if not run.record.remote:
        message = f"{run.name} is on this machine: its outputs are in {run.directory.outputs}"
        raise ConfigError(Problem(message, hint="omit --get"))
    channel = machines.of_runs([run]).runner.channel
    try:
        there = fetching.listing(channel, run)
    except (Unreachable, Outdated) as error:  # `pull` has warned of it
        if patterns:
            raise
        return {} if isinstance(error, Outdated) else None
    if patterns:
        _fetch(channel, run, fetching.matching(there, patterns, run, element))
    own = {name: version for name, version in there.items() if fetching.is_of(element, name)}
    left = fetching.missing(run, own)
    if left and not patterns:
        files = "1 file is" if len(left) == 1 else f"{len(left)} files are"
        note(f"{files} on {run.record.remote} alone: --get PATTERN fetches those that match")
    return left


def _fetch(channel: Channel, run: Run, names: Mapping[str, Version]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(run.name, total=sum(version.bytes for version in names.values()), visible=False)

        def progress(count: int) -> None:
            bar.update(task, advance=count, visible=True)

        fetching.fetch(channel, run, names, progress)
