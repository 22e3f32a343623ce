"""Suspect nodes that a job could get: which of them it is to do without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.documents.tree import Map, Seq
from hpcdist.errors import Place
from hpcdist.loading.planning import Planned, replanned
from hpcdist.nodes.suspicion import Node
from hpcdist.plan.model import Plan
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.exclusion import names_nodes
from hpcdist.site.model import Site

_ORIGIN: Final = Place("hpcdist nodes", 0, 0)
_MOST: Final = 8
"""As inside a run (``templates/runtime/supervisor/nodes.py``)."""

_OF_UNKNOWN: Final = 2
_SHARE: Final = 4


class Avoiding(NamedTuple):
    """A plan that does without ``excluded`` nodes; ``left`` are suspect, too, but not excluded: ``why``."""

    made: Planned
    excluded: Sequence[Node] = ()
    left: Sequence[Node] = ()
    why: str = ""


def avoiding(made: Planned, nodes: Sequence[Node]) -> Avoiding:
    """Return the plan that does without the suspect ones of these nodes, if the experiment wants that.

    Excluded are eight at most, and a quarter of the nodes of each kind that the job needs, but one at least
    if enough are left; two at most where the site file does not say how many there are.

    Raises:
        PlanError: as `replanned`.
    """
    own = made.experiment.batch.exclude_nodes
    suspects = [node for node in nodes if node.is_suspect and node.name not in own]
    if not suspects:
        return Avoiding(made)
    if why := _why_not(made):
        return Avoiding(made, left=suspects, why=why)
    bound = most(made.plan, made.machine.site)
    excluded, left = suspects[:bound], suspects[bound:]
    made = _without(made, [node.name for node in excluded]) if excluded else made
    return Avoiding(made, excluded, left, f"no more than {bound} are excluded from this job")


def _why_not(made: Planned) -> str:
    """Return why no node is to be excluded; empty if suspect ones are."""
    batch, restart = made.experiment.batch, made.experiment.environment.restart
    scheduler = schedulers.get(made.plan.identity.scheduler)
    if why := scheduler.cannot_exclude(made.machine.site):
        return why
    by_restart = restart is not None and restart.exclude_bad_nodes
    if not (by_restart if batch.exclude_bad_nodes is None else batch.exclude_bad_nodes):
        return "`batch: {exclude_bad_nodes: true}` excludes them"
    texts = (*batch.directives, *made.machine.site.directives.mandatory)
    if found := [flag for text in texts for flag in scheduler.node_flags if text.startswith(flag)]:
        return f"the directive {found[0].rstrip('=')} names the nodes already"
    if any(names_nodes(group.constraint) for group in made.plan.placement.groups):
        return "the constraint names the nodes already"
    return ""


def most(plan: Plan, site: Site) -> int:
    """Return how many nodes may be excluded from a job."""
    bounds = [_MOST]
    for group in plan.placement.groups:
        partition = site.partitions.get(group.site_partition or "")
        types = partition.nodes if partition else {}
        counts = [types[group.node_type]] if group.node_type in types else [*types.values()]
        known = [count for count in counts if count is not None]
        if not known or len(known) < len(counts):
            bounds.append(_OF_UNKNOWN)
        else:
            spare = sum(known) - group.nodes - plan.own_nodes
            bounds.append(max(0, min(spare, max(1, sum(known) // _SHARE))))
    return min(bounds)


def _without(made: Planned, names: Sequence[str]) -> Planned:
    batch, data = made.experiment.batch, made.document.data.copy()
    section = data.get("batch")
    changed = section.copy() if isinstance(section, Map) else Map(section or {}, place=data.place)
    excluded = (*batch.exclude_nodes, *names)
    changed.put("exclude_nodes", Seq(excluded), _ORIGIN)
    data.put("batch", changed, data.value_places.get("batch"), key_place=data.key_places.get("batch"))
    experiment = replace(made.experiment, batch=replace(batch, exclude_nodes=excluded))
    return replanned(made._replace(document=made.document._replace(data=data)), experiment)
