"""Nodes of a job that have none of its tasks: one for each program with a node of its own, and spare ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.errors import Path, PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.site.model import Site

_SPARE: Final[Path] = ("environment", "restart", "spare_nodes")
_NO_SPARE: Final = "remove it: a job that lost a node starts again on others"
_NO_OWN: Final = "write `last_node`, or remove what it cannot go with"


def own_nodes_of(experiment: Experiment, site: Site) -> int:
    """Return how many there are.

    Raises:
        PlanError: where a job cannot have any.
    """
    own, spare = len([*_own(experiment)]), _spare(experiment)
    for wrong, what in _refusals(experiment, site, own, spare):
        if wrong and own + spare:
            hint = _NO_SPARE if spare else _NO_OWN
            raise PlanError(Problem(what, _SPARE if spare else path_of(experiment), hint))
    return own + spare


def path_of(experiment: Experiment) -> Path:
    """Return the path of what asks for such nodes."""
    return next(_own(experiment), _SPARE)


def _own(experiment: Experiment) -> Iterator[Path]:
    for index, one in enumerate(experiment.run.beside):
        if one.on == "own_node":
            yield "run", "beside", index, "on"


def _spare(experiment: Experiment) -> int:
    restart = experiment.environment.restart
    return restart.spare_nodes if restart else 0


def _refusals(experiment: Experiment, site: Site, own: int, spare: int) -> tuple[tuple[bool, str], ...]:
    return (
        (experiment.hptuning is not None, "the trials of a search have no nodes beside those of their tasks"),
        (spare > 0 and site.scheduler != "slurm", f"a job of {site.scheduler} ends when it loses a node"),
        (own > 0 and spare > 0, "a program beside the tasks has its own"),
    )
