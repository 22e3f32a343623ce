"""Origins: where each field of a plan was decided; items of lists have origins of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcdist.experiment.model import Experiment
from hpcdist.experiment.node_counts import NodeCounts
from hpcdist.experiment.replica import Block
from hpcdist.layers.protocols import Topology
from hpcdist.plan.origin import DEFAULT, Origin, Where, joined
from hpcdist.plan.placement import Placement
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.pools import memory_in
from hpcdist.planner.request import gpus_of, whole_nodes
from hpcdist.site.model import Site

_BATCH_FIELDS = (
    "account", "partition", "qos", "walltime", "constraint", "exclusive", "launcher", "dependency", "array",
    "signal", "requeue", "output", "error", "mail", "directives", "exclude_nodes", "gpu_visibility",
)  # fmt: skip
_SITE_FIELDS = {
    "walltime": "walltime",
    "launcher": "launcher",
    "qos": "partitions",
}


def origins(
    experiment: Experiment, site: Site, placement: Placement, choice: LaunchChoice, where: Where
) -> Iterator[tuple[str, Origin]]:
    """Yield the origin of each field of a plan; of a field that comes twice the last counts."""
    topology = choice.topology
    required_by = topology.required_by.split(".") if topology.required_by else ()
    yield "name", where(("name",)) if experiment.name != "experiment" else DEFAULT
    for field in _BATCH_FIELDS:
        value = experiment.batch.launcher_name if field == "launcher" else getattr(experiment.batch, field)
        if value not in (None, ()):
            yield field, where(("batch", field))
        elif field == "launcher" and topology.launchers:
            yield field, where(tuple(required_by))
        elif field in _SITE_FIELDS and getattr(site, _SITE_FIELDS[field]):
            yield field, Origin("site", site.name, _SITE_FIELDS[field])
        elif field == "requeue":
            yield field, DEFAULT
    if experiment.hptuning:
        yield "array", where(("hptuning",))
    yield "gpus", Origin("site", site.name, gpus_of(site, placement)[1])
    for field in ("environment", "request_memory", "head_node"):
        yield field, Origin("site", site.name, field)
    if counts := [where(path) for path in NodeCounts.of(experiment).paths]:
        yield "nodes", joined(counts, " and ")
    yield from _of_partitions(experiment, site, placement, choice.replicas)
    yield from _of_selectors(experiment, choice.replicas, where)
    yield from _of_program(experiment, site, placement, where)
    yield from _of_framework(experiment, topology, where)


def _of_program(
    experiment: Experiment, site: Site, placement: Placement, where: Where
) -> Iterator[tuple[str, Origin]]:
    yield "command", where(("run", "entrypoint" if experiment.run.starts_entrypoint else "cmd"))
    if experiment.build and experiment.build.image:
        yield "image", where(("build", "image"))
        _, key = site.container_in(placement.groups[0].site_partition)
        yield "container", Origin("site", site.name, f"{key}.runtime")


def _of_framework(experiment: Experiment, topology: Topology, where: Where) -> Iterator[tuple[str, Origin]]:
    if topology.elastic and topology.required_by:
        yield "elastic", where(tuple(topology.required_by.split(".")))
    if topology.gpu_visibility == "node" and experiment.batch.gpu_visibility is None:
        yield "gpu_visibility", Origin("framework", str(experiment.framework))


def _of_partitions(
    experiment: Experiment, site: Site, placement: Placement, replicas: Sequence[Block]
) -> Iterator[tuple[str, Origin]]:
    whole = whole_nodes(site, placement)
    if whole and experiment.batch.exclusive is None:
        yield "exclusive", Origin("site", site.name, whole)
    asked = any(block.first.memory for block in replicas)
    for how, key in (memory_in(site, group.site_partition) for group in placement.groups):
        if how == "share" and not asked:
            yield "memory", Origin("site", site.name, key)


def _of_selectors(
    experiment: Experiment, replicas: Sequence[Block], where: Where
) -> Iterator[tuple[str, Origin]]:
    """Yield the origins of settings of replicas that override ``batch``."""
    kinds = {block.first.selector_path: dict(block.first.node_selector) for block in replicas}
    for key in ("partition", "constraint"):
        own = [where((*path, key)) for path, selector in kinds.items() if key in selector]
        others = getattr(experiment.batch, key) and not all(key in selector for selector in kinds.values())
        if own:
            yield key, joined([*([where(("batch", key))] if others else []), *own], " and ")
