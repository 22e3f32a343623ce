"""``hpcdist plan --when``: when the job would start, and others that may start earlier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hpcdist.base.errors import HpcdistError
from hpcdist.base.units import Walltime
from hpcdist.cli.messages import one_line
from hpcdist.loading.planning import Planned, replanned
from hpcdist.planner.worst_case import JobShape, number, shapes
from hpcdist.runs.rundir import timestamp
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Estimate, Scheduler
from hpcdist.script.renderer import render

HEADS = ("shape", "partition", "nodes", "walltime", "GPU-hours", "start", "in")


class Start(NamedTuple):
    """A shape of the job, its plan, and when it would start; ``asked_at``: in seconds since 1970."""

    what: str
    made: Planned
    estimate: Estimate
    asked_at: float

    @property
    def wait(self) -> float | None:
        """Seconds until it starts."""
        return None if self.estimate.start is None else max(0.0, self.estimate.start - self.asked_at)


def starts(made: Planned, services: Services) -> Iterator[Start]:
    """Yield the job as it is and, where that can be asked for, others that the site takes.

    Only the job as it is where the batch system does not answer.
    """
    scheduler = schedulers.get(made.plan.identity.scheduler)
    batch = scheduler.starts
    for shape in shapes(made.experiment, made.machine.site, made.plan):
        planned = _planned(made, shape)
        if planned is None:
            continue
        command = batch.test(render(planned.plan)) if batch else None
        if batch is None or command is None:
            yield Start(shape.what, planned, Estimate(why=_unasked(scheduler)), services.now())
            return
        completed = services.runner.run(command)
        yield Start(shape.what, planned, batch.read_test(completed), services.now())
        if completed.missing or completed.timed_out:
            return


def _unasked(scheduler: Scheduler) -> str:
    if not scheduler.is_batch_system:
        return "there is no batch system, and it would start at once"
    return f"{scheduler.name} has no estimate for a job that is not submitted"


def _planned(made: Planned, shape: JobShape) -> Planned | None:
    """Return the plan of a shape; None where the site does not take it."""
    try:
        return made if shape.experiment is made.experiment else replanned(made, shape.experiment)
    except HpcdistError:
        return None


def row(start: Start) -> tuple[str, ...]:
    """Return the line of the table."""
    data = as_data(start)
    wait = start.wait
    return (
        start.what,
        str(data["partition"] or "-"),
        str(data["nodes"]),
        str(data["walltime"] or "-"),
        "-" if data["gpu_hours"] is None else number(data["gpu_hours"]),
        data["start"] or f"not known: {one_line(start.estimate.why)}",
        "" if wait is None else str(Walltime(round(wait))),
    )


def as_data(start: Start) -> dict[str, Any]:
    """Return it for JSON."""
    plan, cost, at = start.made.plan, start.made.cost, start.estimate.start
    partitions = dict.fromkeys(
        group.site_partition for group in plan.placement.groups if group.site_partition
    )
    return {
        "shape": start.what,
        "partition": ", ".join(partitions) or None,
        "nodes": plan.placement.nodes + plan.own_nodes,
        "walltime": str(plan.request.walltime) if plan.request.walltime else None,
        "gpu_hours": cost.gpu_hours if cost else None,
        "start": None if at is None else timestamp(at),
        "wait_seconds": start.wait,
        "why": start.estimate.why,
    }
