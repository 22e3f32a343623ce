"""A job of another system, between its file and the experiment.

A reader sets what runs where, each value with its key in the file; `ForeignJob.write` puts the native form.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map, Seq
from hpcdist.base.words import RUN_NAME, slug
from hpcdist.importers.reading import Reading, placed

_SECTIONS: Final = {
    "master": "environment",
    "worker": "environment.replicas.default_worker",
    "ps": "environment.replicas.default_ps",
    "evaluator": "environment.replicas.evaluator",
}
_NNODES: Final = re.compile(r"--nnodes[=\s]\s*['\"]?(\d+)\b(?!:)")
_COUNTS: Final = {"worker": "environment.replicas.n_workers", "ps": "environment.replicas.n_ps"}


class Sourced(NamedTuple):
    """A value in native form, and the key of the foreign file that it comes from."""

    value: Any
    source: Path


class Role(NamedTuple):
    """The replicas of one native role: master, worker, ps or evaluator."""

    count: Any = None
    """Their number, or a template; None if the file does not set it. There is one master."""
    source: Path = ()
    """The key of that number."""
    resources: Mapping[str, Mapping[str, object]] = {}
    """What each requests, with memory in MiB."""
    resources_source: Path = ()
    nodes: object = None
    """The labels of its nodes."""
    nodes_source: Path = ()

    @property
    def gpus(self) -> int:
        """How many GPUs a replica has."""
        amount = self.resources.get("gpu", {})
        value = amount.get("limits", amount.get("requests"))
        return int(value) if isinstance(value, (int, float)) else 0


@dataclass
class ForeignJob:
    """What a file of another system runs, and where."""

    settings: dict[str, Sourced] = field(default_factory=dict)
    """Values of native keys (``pytorch.launch``) that no other field has."""
    roles: dict[str, Role] = field(default_factory=dict)
    """The replicas, by native role."""
    slots: Sourced | None = None
    """How many processes a replica has."""
    nodes: Sourced | None = None
    """How many nodes the job has."""
    image: Sourced | None = None
    """The image of all replicas."""
    env: dict[str, Sourced] = field(default_factory=dict)
    """The variables of all processes."""
    command: Sourced | None = None
    """What each process runs: one text for a shell, or several."""

    def set(self, key: str, value: object, *source: str | int) -> None:
        """Set a native key to a value."""
        self.settings[key] = Sourced(value, source)

    def write(self, read: Reading) -> None:
        """Put the job into the native form."""
        for key, found in self.settings.items():
            read.put(key, found.value, *found.source)
        for name, role in self.roles.items():
            _put_role(read, name, role)
        for key, one in (
            ("batch.nodes", self.nodes),
            ("environment.processes_per_replica", self.slots),
            ("build.image", self.image),
            ("run.cmd", self.command),
        ):
            if one:
                read.put(key, one.value, *one.source)
        put_env(read, self.env)


def _put_role(read: Reading, name: str, role: Role) -> None:
    section = _SECTIONS[name]
    if name == "evaluator":
        read.put(section, {}, *role.source)
    if role.count is not None and name in _COUNTS:
        read.put(_COUNTS[name], role.count, *role.source)
    if role.resources and role.count != 0:
        read.put(f"{section}.resources", role.resources, *role.resources_source)
    if role.nodes and role.count != 0:
        read.put(f"{section}.node_selector", role.nodes, *role.nodes_source)


def put_env(read: Reading, env: Mapping[str, Sourced]) -> None:
    """Put the variables of a job; their names may contain dots."""
    if not env:
        return
    found = Map(place=read.place(*next(iter(env.values())).source))
    for name, (value, source) in env.items():
        found.put(name, value, read.place(*source))
        read.origins["environment", "env_vars", name] = source
    read.put("environment.env_vars", found, *next(iter(env.values())).source)


def take_image(job: ForeignJob, read: Reading, images: Sequence[Sourced]) -> None:
    """Take the one image of a job; refuse another one."""
    if images:
        job.image = images[0]
    for other in images[1:]:
        if other.value != images[0].value:
            why = f"a job has one image, and {images[0].value} is the image of the other replicas"
            read.refuse(*other.source, why=why, hint="write the same one for all")


def keep_nodes(job: ForeignJob, command: str, total: int, each: str | None, *source: str | int) -> None:
    """Request a node for each replica where the file counts nodes, or the processes of one (``each``)."""
    counted = _NNODES.search(command)
    is_each = each is not None and each.isdecimal() and int(each) > 1
    if total > 1 and (int(counted[1]) == total if counted else is_each):
        job.nodes = Sourced(total, source)


def put_name(read: Reading, name: object, *source: str | int) -> None:
    """Put the name of the job, with a warning if it has to change."""
    text = str(name)
    if not RUN_NAME.fullmatch(text):
        read.warn(*source, why=f"the job is named {slug(text)!r}: {text!r} is not a valid job name")
    read.put("name", text if RUN_NAME.fullmatch(text) else slug(text), *source)


# --- Machines of a cloud: the requests of replicas that replace them


class CloudMachine(NamedTuple):
    """One machine; ``cpus`` and ``gib`` only of types without GPUs; all 0 if its size is unknown."""

    gpus: int = 0
    gpu_type: str = ""
    cpus: int = 0
    gib: float = 0

    @property
    def resources(self) -> dict[str, dict[str, int]]:
        """The request of a replica of this size, with memory in MiB."""
        amounts = {"gpu": self.gpus, "cpu": self.cpus, "memory": int(self.gib * 1024)}
        return {name: {"requests": number} for name, number in amounts.items() if number}


_MODEL: Final = re.compile(r"(?:[ahbvpktl]|gh|gb|mi)\d{1,4}[a-z]?")
_MEMORY: Final = re.compile(r"\d{2,3}gb?")


def product_type(text: str) -> str:
    """Return the type of a product: ``a100-80g`` of ``NVIDIA-A100-SXM4-80GB``."""
    parts = re.split(r"[^a-z0-9]+", text.lower())
    model = next(filter(_MODEL.fullmatch, parts), "")
    memory = next(filter(_MEMORY.fullmatch, parts), "")
    return "-".join(filter(None, (model, memory.removesuffix("b")))) if model else ""


def on_machine(read: Reading, kind: CloudMachine | None, *source: str | int) -> Role:
    """Return a role that requests the resources of a machine, and prefers its type of GPU."""
    if kind is None or not any(kind):
        return Role()
    name = read.text(*source)
    why = f"of a {name} machine the GPUs are requested; CPUs and memory are the site's share of them"
    if kind.gpus and why not in {remark.message for remark in read.remarks}:
        read.warn(*source, why=why, hint="for others write `resources` into the imported file")
    nodes = {"gpu_type": kind.gpu_type} if kind.gpus else None
    return Role(None, (), kind.resources, source, nodes, source)


# --- Searches of other systems: a reader sets what is varied and how, and `write` makes ``hptuning``

_OF_TEMPLATES: Final = frozenset({"true", "false", "none", "range", "loop", "self"})


def param_name(name: str) -> str:
    """Return the name that templates can have for a param: ``learning_rate`` for ``learning-rate``."""
    param = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not param.isidentifier() or param.lower() in _OF_TEMPLATES or keyword.iskeyword(param):
        param = f"_{param}" if param[:1].isdigit() else f"{param}_"
    return param


class ForeignSearch:
    """The search of a file; ``path`` is the key that has its values."""

    def __init__(self, read: Reading, *path: str | int) -> None:
        self.read, self.path = read, path
        self.section = Map(place=read.place(*path))
        self.matrix = Map(place=read.place(*path))

    def add(self, param: str, space: Map | None, *path: str | int) -> None:
        """Add the values of a param; a refused param causes no further error."""
        place = self.read.place(*path)
        self.matrix.put(param, space or placed({"values": [1]}, place), place)

    def put(self, key: str, value: object, *path: str | int) -> None:
        """Set a key of the search."""
        place = self.read.place(*path)
        self.section.put(key, placed(value, place), place)

    def copy(self, names: Mapping[str, str], *above: str | int, to: Map | None = None) -> None:
        """Copy the keys of a section that are there, under their native names."""
        section = self.read.peek(*above)
        for theirs, ours in names.items():
            if isinstance(section, Map) and section.get(theirs) is not None:
                self.read.get(*above, theirs)
                (self.section if to is None else to).copy_from(section, theirs, ours)

    def compare_by(self, name: str | None, goal: str | None, *path: str | int) -> None:
        """Set the metric by which trials are compared."""
        if name and goal in ("maximize", "minimize"):
            self.put("metric", {"name": name, "optimization": goal}, *path)

    def static(self, algorithm: str, total: object, *path: str | int) -> None:
        """Set an algorithm that chooses all trials beforehand; ``total`` is None for all of them."""
        self.put(algorithm, {} if total is None else {"n_experiments": total}, *path)

    def bayes(self, total: int, initial: int, other: str, *path: str | int) -> None:
        """Set Bayesian optimization by the metric; a random search if all its trials are random.

        ``initial``: the number of first, random trials. ``other``: the algorithm that Optuna's replaces.
        """
        if total <= initial:
            self.static("random_search", total, *self.path)
            why = f"all {total} trials are random ones, since the first {initial} of such a search are"
            self.read.warn(*path, why=why)
            return
        section = placed({"n_initial_trials": initial, "n_iterations": total - initial}, self.section.place)
        self.with_metric("bo", section)
        if other:
            why = f"Optuna's TPE chooses the trials, and not {other}; the first {initial} are random ones"
            self.read.warn(*path, why=why)

    def with_metric(self, algorithm: str, section: Any) -> None:
        """Set an algorithm that needs the metric."""
        if "metric" in self.section:
            section.copy_from(self.section, "metric")
            self.section.drop("metric")
        self.section.put(algorithm, section, section.place)

    def stop(self, stop: Mapping[str, Any], *path: str | int) -> None:
        """Add a condition at which the search, or a trial, ends."""
        place = self.read.place(*path)
        stops = self.section.get("early_stopping") or Seq(place=place)
        stops.add(placed(stop, place), place)
        self.section.put("early_stopping", stops, place)

    def end_trials(self, policy: Mapping[str, Any], *path: str | int) -> None:
        """Add a policy by which running trials end, by the metric of the search."""
        metric: Path | Any = self.section.get("metric")
        if isinstance(metric, Map):
            named = {"metric": metric["name"], "optimization": metric["optimization"]}
            self.stop({**named, "policy": policy}, *path)

    def write(self) -> None:
        """Put the search, if anything is varied."""
        if self.matrix:
            self.section.put("matrix", self.matrix, self.matrix.place)
        if self.matrix or "mapping" in self.section:
            self.read.put("hptuning", self.section, *self.path)
