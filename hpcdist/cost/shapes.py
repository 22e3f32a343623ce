"""Other shapes of a job that might start earlier: less time, fewer nodes, another partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import blocks
from hpcdist.plan.model import JobSpec
from hpcdist.site.model import Site
from hpcdist.units import Walltime

_SHORTEST: Final = 600
"""Seconds; jobs shorter than that start no earlier."""


class Shape(NamedTuple):
    """An experiment, and how it differs from the one that was asked for."""

    what: str
    experiment: Experiment


def shapes(experiment: Experiment, site: Site, job: JobSpec) -> Iterator[Shape]:
    """Yield the job as it is, then others; whether the site takes these, their plans show."""
    yield Shape("as it is", experiment)
    yield from _shorter(experiment, job)
    yield from _smaller(experiment, job)
    own = {group.site_partition for group in job.placement.groups}
    if len(own) == 1:
        for name in site.partitions:
            if name not in own:
                batch = replace(experiment.batch, partition=name)
                yield Shape(f"partition {name}", replace(experiment, batch=batch))


def _shorter(experiment: Experiment, job: JobSpec) -> Iterator[Shape]:
    """Yield half and a quarter of the walltime, in whole minutes."""
    walltime = job.request.walltime
    for part, what in ((2, "half the walltime"), (4, "a quarter of the walltime")):
        seconds = walltime.seconds // part // 60 * 60 if walltime else 0
        if seconds >= _SHORTEST:
            batch = replace(experiment.batch, walltime=Walltime(seconds))
            yield Shape(what, replace(experiment, batch=batch))


def _smaller(experiment: Experiment, job: JobSpec) -> Iterator[Shape]:
    """Yield half the replicas, where they are on several nodes and only the workers are counted."""
    replicas, nodes = experiment.environment.replicas, job.placement.nodes
    if nodes < 2 or replicas is None or replicas.n_ps or replicas.evaluator:  # noqa: PLR2004 - has no half
        return
    total = sum(block.count for block in blocks(experiment, per_gpu=False))
    workers = total // 2 - (total - replicas.n_workers)
    if workers < 0 or (workers == 0 and total == replicas.n_workers):
        return
    batch = experiment.batch
    if batch.nodes is not None:
        batch = replace(batch, nodes=max(1, batch.nodes // 2))
    environment = replace(experiment.environment, replicas=replace(replicas, n_workers=workers))
    yield Shape("half the replicas", replace(experiment, environment=environment, batch=batch))
