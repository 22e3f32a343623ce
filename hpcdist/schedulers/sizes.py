"""A site's own way to request nodes (`directives.size`), for all batch systems: its lines, with numbers.

Sources of such ways: ``-l node_f=2`` (TSUBAME4), ``--rsc p=4:t=8:c=8`` (Kyoto's camphor).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.errors import Problem, unknown
from hpcdist.plan.model import JobSpec
from hpcdist.plan.origin import Origin
from hpcdist.site.model import Site

_KEY: Final = "directives.size"
_NAME: Final = re.compile(r"\{(\w+)\}")
_NAMES: Final[Mapping[str, str]] = {
    "nodes": "nodes",
    "node_type": "node_type",
    "partition": "site_partition",
    "tasks": "tasks",
    "tasks_per_node": "tasks_per_node",
    "cpus_per_task": "cpus_per_task",
    "cpus": "cpus",
    "gpus": "gpus",
    "memory": "memory",
}
"""What is replaced in a line, and the field of the group of nodes."""


def size_lines(job: JobSpec, site: Site) -> Iterator[tuple[str, Origin]]:
    """Yield the lines that request the nodes of such a job, with their origin."""
    values = _values(job)
    for text in site.directives.size:
        yield _NAME.sub(lambda name: str(values[name[1]]), text), Origin("site", site.name, _KEY)


def _values(job: JobSpec) -> Mapping[str, object]:
    group = job.placement.groups[0]
    found = {name: getattr(group, field) for name, field in _NAMES.items()}
    return found | {"nodes": group.nodes}


def size_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield why these lines cannot request the nodes of such a job."""
    if site.directives.size and len(job.placement.groups) > 1:
        message = f"site {site.name} requests nodes of one kind for a job (`{_KEY}`), and these need others"
        yield Problem(message, ("environment", "replicas"), "give all replicas the same resources")
    missing = {
        name for text in site.directives.size for name in _NAME.findall(text) if _values(job)[name] is None
    }
    for name in sorted(missing):
        message = f"site {site.name} requests nodes by their {name} (`{_KEY}`), which is not known here"
        path = ("environment", "resources", "memory") if name == "memory" else ("batch", "partition")
        yield Problem(message, path, "set it")


def unknown_names(site: Site) -> Iterator[Problem]:
    """Yield what a site file would have replaced that is not known."""
    for index, text in enumerate(site.directives.size):
        for name in _NAME.findall(text):
            if name not in _NAMES:
                yield unknown("name", name, _NAMES, ("directives", "size", index))
