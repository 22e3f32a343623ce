"""The params of the trials of a search, by the table that each of its jobs has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.script import trial_table

_MOST_BYTES: Final = 1 << 28
"""The largest table that is read."""

Tables = Mapping[RunDirectory, Mapping[str, Mapping[str, Any]]]
"""The params of trials by their numbers, for each job of a run."""


def of(run: Run) -> Mapping[str, Mapping[str, Any]]:
    """Return the params of each trial of a search by its number; of other runs nothing."""
    return in_all(tables(run))


def whole(run: Run) -> Mapping[str, Mapping[str, Any]]:
    """Return the params as `of`, if the tables have all trials; without some, results would be wrong.

    Raises:
        ConfigError: if a table of a search is cut short, damaged or missing.
    """
    found = tables(run)
    for message in damaged(found):
        raise ConfigError(Problem(message, hint="restore it, or submit the search once more"))
    return in_all(found)


def tables(run: Run) -> Tables:
    """Return the table of each job of a run; an empty one if there is no readable table."""
    return {job.directory: _table(job) for job in run.jobs}


def in_all(found: Tables) -> Mapping[str, Mapping[str, Any]]:
    """Return the params of all trials by their numbers."""
    return {number: params for table in found.values() for number, params in table.items()}


def names(items: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the names in all of these params, or metrics, in the order in which they first occur."""
    return [*dict.fromkeys(name for item in items for name in item)]


def damaged(found: Tables) -> Iterator[str]:
    """Yield a sentence for each table that lacks trials of its job."""
    for directory, table in found.items():
        wanted = directory.plan().trials
        if wanted is not None and len(table) != wanted:
            file = directory.path / directory.own(trial_table.FILE)
            yield f"{file} is damaged: it does not have the {wanted} trials of its job"


def _table(job: Run) -> Mapping[str, Mapping[str, Any]]:
    try:
        text = job.directory.read(job.directory.own(trial_table.FILE), _MOST_BYTES)
    except OSError:
        return {}
    return trial_table.params(text.decode("utf-8", "replace"))
