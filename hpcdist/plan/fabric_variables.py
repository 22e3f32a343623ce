"""The variables that a site's fabric settings give a job, and the job's facts that their conditions use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcdist.plan.placement import Group, Placement
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.fabric import JobFacts, resolve_settings
from hpcdist.site.model import Site
from hpcdist.site.nodes import libraries_of


def of_fabric(site: Site, facts: JobFacts) -> Iterator[Variable]:
    """Yield the variables that the site's fabric settings give such a job."""
    for item in resolve_settings(site.fabric, facts):
        yield Variable(
            name=item.name,
            value=text_of(item.value),
            origin=Origin("site", site.name, item.key, item.why, item.notes),
            found=item.found,
            links=item.links,
            otherwise=None if item.otherwise is None else text_of(item.otherwise),
        )


def job_facts(
    site: Site, placement: Placement, *, container: bool = False, framework: str | None = None
) -> JobFacts:
    """Return the facts of a job that the conditions of a site file check."""
    kinds = tuple(dict.fromkeys(kind for group in placement.groups for kind in kinds_of(site, group)))
    libraries = libraries_of(site.node_types[kind] for kind in kinds)
    return JobFacts(
        nodes=placement.nodes,
        library=libraries[0] if len(libraries) == 1 else None,
        container=container,
        gpus=any(group.gpus for group in placement.groups),
        framework=framework,
        node_types=kinds,
        partitions=tuple(
            dict.fromkeys(group.site_partition for group in placement.groups if group.site_partition)
        ),
    )


def kinds_of(site: Site, group: Group) -> Iterable[str]:
    """Return the types of node that a group's nodes may be of."""
    if group.node_type:
        return (group.node_type,)
    partition = site.partitions.get(group.site_partition or "")
    return site.node_types if partition is None else partition.nodes


def text_of(value: object) -> str:
    """Write a YAML scalar as a program expects it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
