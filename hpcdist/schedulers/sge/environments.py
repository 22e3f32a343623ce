"""How many slots a job asks for on each host, and which parallel environment gives them so.

Source: sge_pe(5) of 8.1.9, ``allocation_rule``: only a number gives so many slots on each host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.errors import Problem, warning
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Group
from hpcdist.site.model import Site

_ANY: Final = "*"


def slots_of(job: JobSpec, site: Site, group: Group) -> int:
    """Return how many slots to ask for on each host: all of them where whole nodes are filled."""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and job.request.exclusive and known and known.cpus:
        return known.cpus
    return group.cpus


def environment(site: Site, slots: int, group: Group) -> str | None:
    """Return the parallel environment, nothing for a single slot, None where the site has none for it."""
    name = _sure(site, slots, group)
    if name is None and _ANY in site.sge.environments:
        return site.sge.environments[_ANY].replace("{slots}", str(slots))
    return name


def _sure(site: Site, slots: int, group: Group) -> str | None:
    """Return the parallel environment that the site file gives for this number of slots a host."""
    names = site.sge.environments
    if str(slots) in names:
        return names[str(slots)]
    if slots * group.nodes == 1:
        return ""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and (slots != group.cpus or (known and known.cpus == slots)):
        return site.sge.whole_nodes
    return site.sge.one_node if group.nodes == 1 else None


def no_environment(site: Site, slots: int, group: Group) -> Problem:
    """Return the problem that a site has no parallel environment for these slots."""
    known = ", ".join(site.sge.environments) or "none"
    message = (
        f"site {site.name} has no parallel environment that gives {slots} slots on each of {group.nodes} "
        f"hosts (it has some for {known}), and without one Grid Engine distributes slots as it likes"
    )
    hint = "ask for other CPUs a task (`resources.cpu`), or name one in `sge.environments` of the site file"
    return Problem(message, ("environment", "replicas"), hint)


def advice(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield a warning for an environment of which the site file does not give the allocation rule.

    And that a script does not name the account that is an option of qsub.
    """
    if option := " ".join(job.request.submit_options):
        yield Problem(
            f"the account is an option of qsub: submitted by hand, `qsub {option} SCRIPT`", severity="note"
        )
    if site.directives.size:
        return
    name = site.sge.environments.get(_ANY, "")
    group = job.placement.groups[0]
    slots = slots_of(job, site, group)
    if name and "{slots}" not in name and _sure(site, slots, group) is None:
        yield warning(
            f"site {site.name} does not say how parallel environment {name} allocates slots: unless its "
            f"allocation_rule is {slots} (`qconf -sp {name}`), the job may end at once with exit code 86; "
            f'write one that has it as `sge: {{environments: {{"{slots}": NAME}}}}` in the site file'
        )
