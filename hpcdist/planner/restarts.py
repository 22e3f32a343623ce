"""Restarts: how another attempt gets nodes, and what its program is told before the time limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec.structs import replace

from hpcdist.base.errors import Path, PlanError, Problem, warning
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import Restart
from hpcdist.experiment.program import packed_restart_problems as restart_problems
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import Completion, JobSpec, Restarts
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Origin, Where
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_PATH: Final[Path] = ("environment", "restart")
_MOST_OF_A_JOB: Final = 0.5
"""A job runs for at least half of its time before it saves its state."""

_MANY_JOBS: Final = 50
"""Fewer than many batch systems let a user have in the queue."""


def restarts_of(
    experiment: Experiment, site: Site, placement: Placement, topology: Topology
) -> Restarts | None:
    """Return after which ends another attempt follows; None where the experiment wants none.

    Raises:
        PlanError: where the site cannot do as the experiment says.
    """
    restart = experiment.environment.restart
    if restart is None:
        return None
    walltime = experiment.batch.walltime or site.walltime
    notice = restart.notice_in(walltime)
    if walltime and notice > _MOST_OF_A_JOB * walltime.seconds:
        message = f"{Walltime(notice)} before its end is more than half of a job of {walltime}"
        path = ("environment", "restart", "notice")
        raise PlanError(
            Problem(message, path, "write a shorter notice, or a longer `batch: {walltime: ...}`")
        )
    way = _way(restart, experiment, site)
    return Restarts(
        by=way,
        on=restart.on,
        max=_most(restart, site) if way == "follow" else restart.max,
        notice=notice,
        signal=restart.signal or ("TERM" if topology.task == "node" or topology.spread else "USR1"),
        no_progress=restart.no_progress,
        stop_on_exit=restart.stop_on_exit,
        stop_file=restart.stop_file,
        spare_nodes=_spare_nodes(restart.spare_nodes, placement),
        exclude_bad_nodes=restart.exclude_bad_nodes,
    )


def _most(restart: Restart, site: Site) -> int:
    """Return how many jobs follow the first one: no more than the queue takes."""
    return restart.max if site.max_queued_jobs is None else max(0, min(restart.max, site.max_queued_jobs - 1))


def _spare_nodes(count: int, placement: Placement) -> int:
    if count and len(placement.groups) > 1:
        message = "spare nodes need nodes of one kind, and these replicas are on several"
        path = ("environment", "restart", "spare_nodes")
        raise PlanError(Problem(message, path, "remove it, or give all replicas the same resources"))
    return count


def of_packed(completion: Completion, experiment: Experiment, packing: Origin) -> Completion:
    """Return the completion of a job of packed trials: they get TERM before the time limit.

    Raises:
        PlanError: if they cannot be restarted as the experiment says.
    """
    if completion.restarts is None or experiment.environment.restart is None:
        return completion
    if problems := [*restart_problems(experiment.environment.restart)]:
        why = f", and these are packed ({packing})"
        raise PlanError(*(problem._replace(message=problem.message + why) for problem in problems))
    return replace(completion, restarts=replace(completion.restarts, signal="TERM"))


def advice(job: JobSpec, experiment: Experiment, site: Site) -> Iterator[Problem]:
    """Yield warnings of what the restarts cannot do in this job, and of a signal that leaves no time."""
    restarts, asked = job.completion.restarts, experiment.environment.restart
    notice = restarts.signal if restarts else job.request.signal and job.request.signal.name
    if job.launch.launcher == "mpirun" and notice == "TERM":  # seen with Open MPI 4.1.4
        message = "mpirun kills its tasks a second after TERM, in which the program could not save much"
        path = (*_PATH, "signal") if restarts else ("batch", "signal")
        longer = "`env_vars: {OMPI_MCA_odls_base_sigkill_timeout: 60}` makes each end minutes longer"
        yield warning(message, path, f"write USR1 here, and save on it; {longer}")
    if restarts is None or asked is None:
        return
    scheduler = schedulers.get(job.identity.scheduler)
    if job.request.walltime is None and scheduler.is_batch_system and scheduler.name != "slurm":
        message = f"the program gets no notice before the time limit, which {scheduler.name} tells no job"
        yield warning(message, _PATH, "write `batch: {walltime: ...}`")
    if restarts.by is None and restarts.on and "failure" not in restarts.on:
        message = f"there is no further attempt: {job.identity.scheduler} gives a job no other nodes or time"
        yield warning(message, (*_PATH, "on"), "write `failure` among the ends, or choose another site")
    if restarts.max < asked.max:
        queue = f"the queue of site {site.name} takes {site.max_queued_jobs} jobs of a user at once"
        message = f"{queue}, so that there are {restarts.max + 1} attempts and not {asked.max + 1}"
        yield warning(message, (*_PATH, "max"), "`hpcdist resume RUN` goes on later")
    elif restarts.is_followed and restarts.max >= _MANY_JOBS and site.max_queued_jobs is None:
        message = f"{restarts.max + 1} jobs are submitted at once; what the queue refuses of them is left out"
        yield warning(message, (*_PATH, "max"), "write less; `hpcdist resume RUN` goes on later")


def origins_of(
    experiment: Experiment, restarts: Restarts | None, where: Where
) -> Iterator[tuple[str, Origin]]:
    """Yield the origins of what these restarts decide."""
    for field in ("max_restarts", "restart"):
        if getattr(experiment.environment, field):
            yield field, where(("environment", field))
    if restarts and restarts.by == "requeue":
        yield "requeue", where(("environment", "restart"))


def _way(restart: Restart, experiment: Experiment, site: Site) -> Literal["requeue", "follow"] | None:
    """Return how another attempt gets nodes.

    Raises:
        PlanError: if the experiment wants a way that the batch system or the site does not have.
    """
    scheduler = schedulers.get(site.scheduler)
    if not scheduler.is_batch_system:
        return None
    can = scheduler.requeues and site.requeue
    if restart.by == "requeue" and not can:
        who = f"site {site.name}" if scheduler.requeues else f"a job of {site.scheduler}"
        message = f"{who} puts no job into the queue again by its own script"
        raise PlanError(Problem(message, ("environment", "restart", "by"), "write `by: follow`"))
    if experiment.batch.array is not None or experiment.hptuning:
        may = can and experiment.batch.requeue is not False
        return _way_of_elements(restart, site, can=may, is_search=experiment.hptuning is not None)
    return restart.by or ("requeue" if can and experiment.batch.requeue is not False else "follow")


def _way_of_elements(
    restart: Restart, site: Site, *, can: bool, is_search: bool
) -> Literal["requeue"] | None:
    """Return how an element of an array gets nodes again: no job follows it, so it can only be requeued.

    Raises:
        PlanError: if another attempt is to follow an end after which it would need new nodes.
    """
    if can:
        return "requeue"
    if {*restart.on} != {"failure"}:
        what = "the jobs of a search" if is_search else "elements of an array"
        message = f"no job is requeued here (site {site.name}), and {what} have no followers"
        hint = "write `on: [failure]`; `hpcdist resume RUN` runs those that ended otherwise again"
        raise PlanError(Problem(message, ("environment", "restart"), hint))
    return None
