"""Restarts: how another attempt gets nodes, and what its program is told before the time limit."""

from __future__ import annotations

from typing import Final, Literal

from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import Restarts
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_MOST_OF_A_JOB: Final = 0.5
"""Of its time a job runs half at least before it saves its state."""


def restarts_of(experiment: Experiment, site: Site, topology: Topology) -> Restarts | None:
    """Return after which ends another attempt follows; None where the experiment wants none.

    Raises:
        PlanError: where the site cannot do as the experiment says.
    """
    restart = experiment.environment.restart
    if restart is None:
        return None
    walltime = experiment.batch.walltime or site.walltime
    notice = restart.notice.seconds
    if walltime and notice > _MOST_OF_A_JOB * walltime.seconds:
        message = f"{restart.notice} before its end is more than half of a job of {walltime}"
        path = ("environment", "restart", "notice")
        raise PlanError(
            Problem(message, path, "write a shorter notice, or a longer `batch: {walltime: ...}`")
        )
    return Restarts(
        by=_way(experiment, site),
        on=restart.on,
        max=restart.max,
        notice=notice,
        signal=restart.signal or ("TERM" if topology.task == "node" or topology.spread else "USR1"),
        no_progress=restart.no_progress,
        stop_on_exit=restart.stop_on_exit,
        stop_file=restart.stop_file,
        spare_nodes=_spare_nodes(experiment, site, restart.spare_nodes),
        exclude_bad_nodes=restart.exclude_bad_nodes,
    )


def _spare_nodes(experiment: Experiment, site: Site, count: int) -> int:
    """Return how many nodes are spare.

    Raises:
        PlanError: where a job cannot have any.
    """
    for wrong, why in (
        (site.scheduler != "slurm", f"a job of {site.scheduler} ends when it loses a node"),
        (experiment.hptuning is not None, "the trials of a search have no spare nodes"),
        (
            any(one.on == "own_node" for one in experiment.run.beside),
            "a program beside the tasks has its own",
        ),
    ):
        if count and wrong:
            path = ("environment", "restart", "spare_nodes")
            raise PlanError(Problem(why, path, "remove it: a job that lost a node starts again on others"))
    return count


def requeues(experiment: Experiment, site: Site) -> bool:
    """Whether the same job is put into the queue again."""
    return experiment.environment.restart is not None and _way(experiment, site) == "requeue"


def _way(experiment: Experiment, site: Site) -> Literal["requeue", "follow"] | None:
    """Return how another attempt gets nodes.

    Raises:
        PlanError: if the experiment wants it in a way that the batch system or the site has not.
    """
    restart, scheduler = experiment.environment.restart, schedulers.get(site.scheduler)
    if restart is None or not scheduler.is_batch_system:
        return None
    can = scheduler.requeues and site.requeue
    if restart.by == "requeue" and not can:
        who = f"site {site.name}" if scheduler.requeues else f"a job of {site.scheduler}"
        message = f"{who} puts no job into the queue again by its own script"
        raise PlanError(Problem(message, ("environment", "restart", "by"), "write `by: follow`"))
    if experiment.batch.array is not None or experiment.hptuning:
        return "requeue" if can else None
    return restart.by or ("requeue" if can and experiment.batch.requeue is not False else "follow")
