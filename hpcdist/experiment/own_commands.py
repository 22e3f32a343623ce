"""Commands of single replicas, instead of that of ``run``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from hpcdist.errors import Path
from hpcdist.experiment.launch.setup_lines import with_start
from hpcdist.experiment.model import Experiment, ReplicaEntry, Replicas
from hpcdist.experiment.program import choosing
from hpcdist.words import join_commands

_FILE: Final = re.compile(r"(?<![^\s'\"=])[^\s'\"=]+\.(?:py|sh)\b|-m\s+[\w.]+")
"""A script or module that a command runs."""
_BASE: Path = ("environment", "replicas")


def own_commands(experiment: Experiment) -> Mapping[Path, tuple[str, str]]:
    """Return each command of replicas, with a pattern of their role and index, by its path.

    Those of single replicas come before those of all others of their role.
    """
    found = (item for item in _entries(experiment.environment.replicas or Replicas()) if item[2].cmd)
    return {(*path, "cmd"): (pattern, _text(entry)) for path, pattern, entry in found}


def strangers(experiment: Experiment, roles: Collection[str]) -> Iterator[Path]:
    """Yield the path of each command of these roles that runs none of the main command's files."""
    main = {*_FILE.findall(experiment.run.command)}
    for path, pattern, entry in _entries(experiment.environment.replicas or Replicas()):
        if (
            entry.cmd
            and pattern.strip('"*').split()[0] in roles
            and main.isdisjoint(_FILE.findall(_text(entry)))
        ):
            yield (*path, "cmd")


def command(experiment: Experiment, *, launches: bool) -> str:
    """Return the text that bash runs in each task.

    ``launches``: each task is a launch of several processes, which is to be in the environment that the first
    lines of the command set up.
    """
    own = own_commands(experiment)
    if not own:
        return with_start(experiment.run.command) if launches else experiment.run.command
    branches = dict(own.values())
    return choosing('"$HPCDIST_ROLE $HPCDIST_INDEX"', branches, experiment.run.command)


def _entries(replicas: Replicas) -> Iterator[tuple[Path, str, ReplicaEntry]]:
    for role in ("worker", "ps"):
        for place, entry in enumerate(getattr(replicas, role)):
            yield (*_BASE, role, place), f'"{role} {entry.index}"', entry
    for role in ("worker", "ps"):
        if entry := getattr(replicas, f"default_{role}"):
            yield (*_BASE, f"default_{role}"), f'"{role} "*', entry
    if replicas.evaluator:
        yield (*_BASE, "evaluator"), '"evaluator "*', replicas.evaluator


def _text(entry: ReplicaEntry) -> str:
    return entry.cmd if isinstance(entry.cmd, str) else join_commands(entry.cmd or ())
