"""The variables that a site's fabric settings give a job, and the job's facts that their conditions use."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Variable
from hpcdist.site.fabric import JobFacts, resolve_settings
from hpcdist.site.model import Site, libraries_of


def of_fabric(site: Site, facts: JobFacts) -> Iterator[Variable]:
    """Yield the variables that the site's fabric settings give such a job."""
    for item in resolve_settings(site.fabric, facts):
        yield Variable(
            name=item.name,
            value=text_of(item.value),
            origin=Origin("site", site.name, item.key, item.why, item.notes),
            found=item.found,
            otherwise=None if item.otherwise is None else text_of(item.otherwise),
        )


def job_facts(site: Site, placement: Placement, *, container: bool = False) -> JobFacts:
    """Return the facts of a job that the conditions of the site's fabric settings use."""
    kinds = [site.node_types[group.node_type] for group in placement.groups if group.node_type]
    kinds = kinds or list(site.node_types.values())
    libraries = libraries_of(kinds)
    return JobFacts(placement.nodes, libraries[0] if len(libraries) == 1 else None, container)


def text_of(value: object) -> str:
    """Write a YAML scalar as a program expects it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
