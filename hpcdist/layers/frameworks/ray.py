"""Ray: a head on the first node, a raylet on each further one, and the program when all have joined.

On each node ``templates/python/hpcdist_ray.py`` runs ``ray start``, in the container; the program, a driver,
finds them by RAY_ADDRESS, and its end is the end of the job. Sources: ``ray start --help`` of 2.60, tried;
https://docs.ray.io/en/latest/ray-core/configure.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.documents.fields import Model
from hpcdist.errors import Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import MOST_COUNT
from hpcdist.layers.frameworks.plain import Plain, one_process, section_of
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import HEAD_ADDRESS, PORT, template
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site
from hpcdist.units import Memory

_ORIGIN: Final = Origin("framework", "ray")
_LEAST: Final = 75
"""The MiB below which Ray refuses an object store (OBJECT_STORE_MINIMUM_MEMORY_BYTES)."""
_SHARE: Final = 0.3
"""Ray's own part of the memory for the object store, which it takes of the whole node."""
_RESERVED: Final = frozenset((
    "head", "address", "port", "block", "node-ip-address", "num-cpus", "num-gpus", "temp-dir",
    "object-store-memory", "include-dashboard", "dashboard-port", "node-manager-port", "object-manager-port",
    "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port",
    "metrics-export-port", "ray-client-server-port", "min-worker-port", "max-worker-port",
))  # fmt: skip
_STARTS_RAY: Final = re.compile(r"(?:^|[\s;&|(])ray\s+start\b")


class Section(Model, frozen=True):
    """``object_store``: the memory of a node's object store, such as ``20G``; by default 30 % of its tasks'.

    ``dashboard_port``: the port of Ray's dashboard on the first node, where only that node reaches it; it
    needs ``ray[default]``. ``start_timeout``: how many seconds the nodes may take to join; ``ray start``,
    which gives a node 30, is repeated until then. ``args``: further options of ``ray start`` on all nodes,
    such as ``--resources={"fast": 1}``. ``head_args``: options of ``ray start`` on the first node, besides.
    """

    object_store: Memory | None = None
    dashboard_port: int | None = None
    start_timeout: int = 300
    args: tuple[str, ...] = ()
    head_args: tuple[str, ...] = ()


class Ray(Plain):
    """Ray, a task a node; replicas that share a node share its raylet."""

    name = "ray"
    section: type[Model] = Section

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section, and a command that starts Ray itself."""
        yield from super().problems(experiment)
        yield from one_process(experiment, self.name)
        section = section_of(Section, experiment, self.name)
        store, port = section.object_store, section.dashboard_port
        if store and store.mib < _LEAST:
            hint = f"write {_LEAST}M or more"
            yield Problem("Ray needs a larger object store", (self.name, "object_store"), hint)
        if port is not None and not 1024 <= port <= 65535:  # noqa: PLR2004 - what Ray takes
            yield Problem(f"{port} is out of range", (self.name, "dashboard_port"), "write 8265")
        if not 1 <= section.start_timeout <= MOST_COUNT:
            yield Problem(f"{section.start_timeout} is out of range", (self.name, "start_timeout"))
        yield from _option_problems(section)
        if _STARTS_RAY.search(experiment.run.command):
            hint = "write the program alone; it finds Ray by `ray.init()`"
            yield Problem("hpcdist starts Ray on all nodes", ("run", "cmd"), hint)

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a node; the job ends with that of the first, and nodes need not be alike."""
        del experiment
        return Topology(
            task="node",
            by_address=True,
            required_roles=frozenset({"master"}),
            lockstep_roles=frozenset(),
            required_by="framework",
        )

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> tuple[Word, ...]:
        """Return what starts Ray's processes."""
        del site
        return tuple(_words(job, section_of(Section, experiment, self.name)))

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return where the head is, and that Ray sends no statistics about its use."""
        del job, experiment, site
        return (
            Variable.filled("RAY_ADDRESS", template(HEAD_ADDRESS, ":", PORT), _ORIGIN),
            Variable(name="RAY_USAGE_STATS_ENABLED", value="0", origin=_ORIGIN),
        )


def _option_problems(section: Section) -> Iterator[Problem]:
    for key, texts in (("args", section.args), ("head_args", section.head_args)):
        for index, text in enumerate(texts):
            name = text.partition("=")[0].removeprefix("--").replace("_", "-")
            if not text.startswith("--"):
                hint = "write it with its option: `--resources=...`"
                yield Problem(f"{text!r} is not an option", ("ray", key, index), hint)
            elif name in _RESERVED:
                keys = {"object-store-memory": "object_store", "dashboard-port": "dashboard_port"}
                hint = f"write `ray: {{{keys[name]}: ...}}`" if name in keys else "remove it"
                yield Problem(f"{text} is set by hpcdist", ("ray", key, index), hint)


def _words(job: PreparedJob, section: Section) -> Iterator[Word]:
    yield Word(text="python3", origin=_ORIGIN)
    yield Word.raw('"$HPCDIST_RUN_DIR/runtime/python/hpcdist_ray.py"', _ORIGIN)
    yield Word(text=f"--nodes={job.placement.size}", origin=_ORIGIN)
    yield Word(text=f"--wait={section.start_timeout}", origin=_ORIGIN)
    if store := _object_store(job, section):
        yield Word(text=f"--start=--object-store-memory={store * 1024 * 1024}", origin=_ORIGIN)
    shown = section.dashboard_port is not None
    yield Word(text=f"--head=--include-dashboard={str(shown).lower()}", origin=_ORIGIN)
    if shown:
        yield Word(text=f"--head=--dashboard-port={section.dashboard_port}", origin=_ORIGIN)
    for option, key, texts in (("start", "args", section.args), ("head", "head_args", section.head_args)):
        yield from (Word(text=f"--{option}={text}", origin=Origin("key", f"ray.{key}")) for text in texts)
    yield Word(text="--", origin=_ORIGIN)


def _object_store(job: PreparedJob, section: Section) -> int | None:
    """Return the MiB of each object store; Ray would take its part of the node, not of what the job has."""
    if section.object_store:
        return section.object_store.mib
    amounts = [row.memory for row in job.placement.rows]
    least = min((memory for memory in amounts if memory is not None), default=0)
    share = int(least * _SHARE)
    return share if None not in amounts and share >= _LEAST else None


RAY = Ray()
