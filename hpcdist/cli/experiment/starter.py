"""The text of a first experiment: YAML with a comment beside every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hpcdist.errors import Path
from hpcdist.experiment.writing import printable, write
from hpcdist.layers.frameworks import frameworks
from hpcdist.planner.pools import Pool, pools
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

NO_FRAMEWORK: Final = "none"
_PARAMETER_SERVER: Final = "mxnet"
"""The framework whose master only schedules, and which needs servers."""


class Size(NamedTuple):
    """The workers besides the master, and the resources of each replica; GPUs come with their CPUs."""

    workers: int
    gpus: int
    cpus: int = 1


class StarterValues(NamedTuple):
    """The values of the file: ``batch`` holds that section, ``offer`` describes the GPUs of a node."""

    name: str
    framework: str
    size: Size
    command: str
    batch: Mapping[str, str]
    offer: str


def choices() -> list[str]:
    """Return the names of all frameworks, and ``none``."""
    return [*frameworks.names(), NO_FRAMEWORK]


def master_works(framework: str) -> bool:
    """Whether the master trains as workers do."""
    return framework != _PARAMETER_SERVER


def nodes_of(site: Site, partition: str | None = None) -> list[Pool]:
    """Return the pools of known node size: of one partition, or of all, the default first."""
    if not schedulers.get(site.scheduler).is_batch_system:  # without limits on nodes
        return []
    found = (pool for pool in pools(site) if pool.node_type and partition in (None, pool.partition))
    return [pool for pool in found if pool.gpus or (pool.cpus and not pool.gpus_unknown)]


def largest(nodes: Iterable[Pool]) -> Pool | None:
    """Return the pool whose nodes have the most GPUs, then the most CPUs."""
    return max(nodes, key=lambda pool: (pool.gpus or 0, pool.cpus or 0), default=None)


def gpus_of(nodes: list[Pool]) -> str:
    """Describe the GPUs of a node: ``4 a100, 4 a40 or 8 h200``; empty if no node has any."""
    kinds = dict.fromkeys(f"{pool.gpus} {pool.gpu_type or ''}".strip() for pool in nodes if pool.gpus)
    *others, last = kinds or [""]
    return f"{', '.join(others)} or {last}" if others else last


def text(values: StarterValues, site: Site) -> str:
    """Return the text of the file."""
    head = f"# Written by `hpcdist init` for site {site.name}: {site.description}."
    comments = _comments(values)
    return f"{printable(head)}\n{write(_data(values), lambda path: comments.get(path, ''))}"


def _data(values: StarterValues) -> dict[str, Any]:
    size, store = values.size, not master_works(values.framework)
    own = {"gpu": {"requests": size.gpus}} if size.gpus else {"cpu": {"requests": size.cpus}}
    server = {"cpu": {"requests": 1}}
    data: dict[str, Any] = {"version": 1, "name": values.name, "run": {"cmd": values.command}}
    data["environment"] = {"resources": server if store else own}
    if values.framework != NO_FRAMEWORK:
        data["framework"] = values.framework
        replicas: dict[str, Any] = {"n_workers": size.workers, "default_worker": {"resources": own}}
        servers = {"n_ps": 1, "default_ps": {"resources": server}} if store else {}
        data["environment"]["replicas"] = replicas | servers
    if values.framework == "pytorch":
        data["pytorch"] = {"launch": "env"}
    return data | {"batch": dict(values.batch)}


def _comments(values: StarterValues) -> dict[Path, str]:
    """Return the comments beside the values, by path."""
    others = (name for name in frameworks.names() if name != values.framework)
    replicas: Path = ("environment", "replicas")
    found: dict[Path, str] = {
        ("version",): "of the file format",
        ("name",): "name of its runs and jobs",
        ("framework",): f"also {', '.join(others)}",
        ("run", "cmd"): "command of every task",
        (
            "pytorch",
            "launch",
        ): "env: one process per GPU; torchrun: one torchrun per node; default: one process per replica",
        (*replicas, "n_workers"): "besides the master",
        (*replicas, "n_ps"): "parameter servers",
        ("batch", "site"): "see `hpcdist sites show`",
        ("batch", "account"): "account to charge",
        ("batch", "partition"): "default: that of the site, or the first that fits",
        ("batch", "qos"): "default: that of the partition",
        ("batch", "walltime"): "time limit of the job",
    }
    has = f"; a node has {values.offer}" if values.offer else ""
    for whose, path in (
        ("of the master", ("environment", "resources")),
        ("of each worker", (*replicas, "default_worker", "resources")),
        ("of each server", (*replicas, "default_ps", "resources")),
    ):
        found |= {(*path, "gpu", "requests"): whose + has, (*path, "cpu", "requests"): whose}
    return found
