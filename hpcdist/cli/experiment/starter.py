"""The text of a first experiment: what was answered, as YAML with a comment beside every value."""

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
_STORE: Final = "mxnet"
"""The framework whose master only keeps order, and which needs servers."""


class Size(NamedTuple):
    """How many workers stand beside the master, and what each replica gets; GPUs bring their own CPUs."""

    workers: int
    gpus: int
    cpus: int = 1


class Answers(NamedTuple):
    """What goes into the file: ``batch`` are the values of that section, ``offer`` what GPUs a node has."""

    name: str
    framework: str
    size: Size
    command: str
    batch: Mapping[str, str]
    offer: str


def choices() -> list[str]:
    """Return the names of all frameworks, and that of none."""
    return [*frameworks.names(), NO_FRAMEWORK]


def master_works(framework: str) -> bool:
    """Whether the master does what workers do."""
    return framework != _STORE


def nodes_of(site: Site, partition: str | None = None) -> list[Pool]:
    """Return the kinds of nodes whose size the site tells: of one partition, or of all, the default first."""
    if not schedulers.get(site.scheduler).is_batch_system:  # which nobody counts
        return []
    found = (pool for pool in pools(site) if pool.node_type and partition in (None, pool.partition))
    return [pool for pool in found if pool.gpus or (pool.cpus and not pool.gpus_unknown)]


def largest(nodes: Iterable[Pool]) -> Pool | None:
    """Return the first of the kinds with the most GPUs, and of those the most CPUs."""
    return max(nodes, key=lambda pool: (pool.gpus or 0, pool.cpus or 0), default=None)


def gpus_of(nodes: list[Pool]) -> str:
    """Write what GPUs a node has: ``4 a100, 4 a40 or 8 h200``; empty where none has any."""
    kinds = dict.fromkeys(f"{pool.gpus} {pool.gpu_type or ''}".strip() for pool in nodes if pool.gpus)
    *others, last = kinds or [""]
    return f"{', '.join(others)} or {last}" if others else last


def text(answers: Answers, site: Site) -> str:
    """Write the file."""
    head = f"# Begun by `hpcdist init` for site {site.name}: {site.description}."
    comments = _comments(answers)
    return f"{printable(head)}\n{write(_data(answers), lambda path: comments.get(path, ''))}"


def _data(answers: Answers) -> dict[str, Any]:
    size, store = answers.size, not master_works(answers.framework)
    own = {"gpu": {"requests": size.gpus}} if size.gpus else {"cpu": {"requests": size.cpus}}
    server = {"cpu": {"requests": 1}}
    data: dict[str, Any] = {"version": 1, "name": answers.name, "run": {"cmd": answers.command}}
    data["environment"] = {"resources": server if store else own}
    if answers.framework != NO_FRAMEWORK:
        data["framework"] = answers.framework
        replicas: dict[str, Any] = {"n_workers": size.workers, "default_worker": {"resources": own}}
        servers = {"n_ps": 1, "default_ps": {"resources": server}} if store else {}
        data["environment"]["replicas"] = replicas | servers
    if answers.framework == "pytorch":
        data["pytorch"] = {"launch": "env"}
    return data | {"batch": dict(answers.batch)}


def _comments(answers: Answers) -> dict[Path, str]:
    """Return what stands beside the values, by their paths."""
    others = (name for name in frameworks.names() if name != answers.framework)
    replicas: Path = ("environment", "replicas")
    found: dict[Path, str] = {
        ("version",): "of this form of file",
        ("name",): "what its runs and jobs are called",
        ("framework",): f"also {', '.join(others)}",
        ("run", "cmd"): "what every task runs",
        ("pytorch", "launch"): "a process a GPU; torchrun: one torchrun a node; without, a process a replica",
        (*replicas, "n_workers"): "beside the master",
        (*replicas, "n_ps"): "servers, which hold the parameters",
        ("batch", "site"): "the machine, of which `hpcdist sites show` tells all",
        ("batch", "account"): "what the job is charged to",
        ("batch", "partition"): "without it, the site's default or the first that takes the job",
        ("batch", "qos"): "without it, that of the partition",
        ("batch", "walltime"): "when the job is ended at the latest",
    }
    has = f"; a node has {answers.offer}" if answers.offer else ""
    for whose, path in (
        ("of the master", ("environment", "resources")),
        ("of each worker", (*replicas, "default_worker", "resources")),
        ("of each server", (*replicas, "default_ps", "resources")),
    ):
        found |= {(*path, "gpu", "requests"): whose + has, (*path, "cpu", "requests"): whose}
    return found
