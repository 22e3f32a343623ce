"""Removing the runs of pipelines: not while others may use what they wrote; with the last one the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hpcdist.errors import ConfigError, Problem
from hpcdist.runs import finding, removing, states
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services


def in_use(found: Sequence[Run], services: Services) -> dict[RunDirectory, ConfigError]:
    """Return those of these runs whose outputs others of their pipeline may use, each with the reason.

    They are those of a pipeline of which another operation has not ended, by one query for all.
    """
    names = {(run.directory.path.parent, run.record.operation.partition("/")[0]) for run in found}
    others = [run for runs_dir, name in names if name for run in finding.of_pipeline(runs_dir, name)]
    reports = states.status(others, services) if others else []
    live = {_pipeline(one.run): one for one in reversed(reports) if not one.is_over}
    errors: dict[RunDirectory, ConfigError] = {}
    for run in found:
        one = live.get(_pipeline(run)) if run.record.operation else None
        if one and one.run.directory != run.directory:
            message = (
                f"{run.name} may be used by {one.run.record.operation}, which is {one.status.state.value}"
            )
            hint = f"`hpcdist cancel {one.run.name}` ends its job"
            errors[run.directory] = ConfigError(Problem(message, hint=hint))
    return errors


def _pipeline(run: Run) -> RunDirectory:
    return RunDirectory(run.directory.path.with_name(run.record.operation.partition("/")[0]))


def remove_emptied(runs: Iterable[Run], named: Iterable[Path] = ()) -> list[str]:
    """Remove the directories of pipelines that have no run left; return their names.

    They are those of these runs, which are removed, and those that are ``named`` by their directories.

    Raises:
        ConfigError: if one cannot be removed.
    """
    of_runs = (_pipeline(run) for run in runs if run.record.operation)
    removed = []
    for directory in dict.fromkeys([*of_runs, *map(RunDirectory, named)]):
        place = directory.path.parent, directory.name
        if finding.pipeline_directory(*place) and not finding.of_pipeline(*place):
            try:
                removing.remove_directory(directory)
            except OSError as error:
                message = f"{directory.name} cannot be removed: {error.strerror or error}"
                raise ConfigError(Problem(message)) from error
            removed.append(directory.name)
    return removed
