"""Warnings about the QOS that an experiment names: its limits, and names that the site's file lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcdist.errors import Path, Problem, warning
from hpcdist.plan.model import PreparedJob
from hpcdist.site.model import Site
from hpcdist.site.nodes import Qos
from hpcdist.spelling import closest

_PATH: Path = ("batch", "qos")


def advice(name: str | None, site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning for what a job exceeds of a QOS, and for a name that is most likely misspelt.

    Files seldom have all QOS of a site, some of which are single projects'; a number tells two apart.
    """
    known = {*site.qos, *filter(None, (partition.qos for partition in site.partitions.values()))}
    if name in site.qos:
        yield from _beyond(name, site.qos[name], job)
    elif (
        name and name not in known and (near := closest(name, known, 1)) and _letters(near) != _letters(name)
    ):
        yield Problem(
            f"site {site.name} may have no QOS {name!r}", _PATH, f"did you mean {near!r}?", "warning"
        )


def _letters(name: str) -> str:
    return re.sub(r"\d", "", name)


def _beyond(name: str, qos: Qos, job: PreparedJob) -> Iterator[Problem]:
    nodes, walltime = job.placement.nodes, job.request.walltime
    if qos.max_nodes and nodes > qos.max_nodes:
        yield warning(f"QOS {name} gives a job {qos.max_nodes} nodes, {nodes} are needed", _PATH)
    if qos.max_walltime and walltime and walltime > qos.max_walltime:
        message = f"QOS {name} allows {qos.max_walltime}, {walltime} requested"
        yield warning(message, ("batch", "walltime"))
