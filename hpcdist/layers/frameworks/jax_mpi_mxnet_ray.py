"""Frameworks with a few variables of their own: JAX, MPI, MXNet, Ray."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.base.errors import Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Memory
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import MOST_COUNT
from hpcdist.layers.frameworks import PlainFramework, filled, section_of
from hpcdist.layers.protocols import Topology, words_of
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import ADDRESS, GPUS, HEAD_ADDRESS, INDEX, PORT, RANK, SIZE, template
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site

# --- JAX: process 0's address, the number of processes, the rank, for ``jax.distributed.initialize()``
#
# JAX 0.10 reads JAX_COORDINATOR_ADDRESS and JAX_LOCAL_DEVICE_IDS itself; it asks Slurm or Open
# MPI for the number of processes and the rank, unless the program passes them (its ``_src/distributed.py``;
# tried).


class Jax(PlainFramework):
    """jax.distributed, one task a replica, which has all the replica's GPUs."""

    name = "jax"
    shared = {"JAX_COORDINATOR_ADDRESS": template(HEAD_ADDRESS, ":", PORT)}

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterator[Variable]:
        """Return the process's rank and its GPUs: by default JAX uses the GPU of its local rank."""
        del experiment, site
        own = {"JAX_NUM_PROCESSES": template(SIZE), "JAX_PROCESS_ID": template(RANK)}
        if any(group.gpus for group in job.placement.groups):
            own["JAX_LOCAL_DEVICE_IDS"] = template(GPUS)
        return filled(own, self.origin)


# --- MPI: the program calls MPI_Init itself; the launcher provides everything. ChainerMN needs no more


class Mpi(PlainFramework):
    """A framework of this name whose programs call MPI_Init, and use the GPU of their rank on the node."""

    requirements = Topology(task="gpu", gpu_visibility="node", needs_mpi=True)

    def __init__(self, name: str) -> None:
        self.name = name


# --- MXNet: the DMLC variables of its parameter-server rendezvous; the master is the scheduler
#
# Source: ps-lite's environment variables
# (https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training); what Polyaxon 0.6 sets.

_ROLES: Final = {"master": "scheduler", "worker": "worker", "ps": "server"}


class MxNet(PlainFramework):
    """MXNet's distributed key-value store, one task a replica."""

    name = "mxnet"
    roles = frozenset(_ROLES)
    one_process = True
    # The job ends with its workers; ps-lite accepts no host name.
    requirements = Topology(
        required_roles=frozenset({"worker"}), by_address=True, lockstep_roles=frozenset({"worker"})
    )
    shared = {"DMLC_PS_ROOT_URI": template(HEAD_ADDRESS), "DMLC_PS_ROOT_PORT": template(PORT)}

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section, and a store without servers or without workers."""
        yield from super().problems(experiment)
        replicas = experiment.environment.replicas
        for key in ("n_workers", "n_ps") if replicas else ():
            if not getattr(replicas, key):
                path = ("environment", "replicas")
                message = f"MXNet's store needs workers and servers, and there is no {key!r}"
                yield Problem(message, path, f"write `{key}: 1` or more")

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterator[Variable]:
        """Yield the address of the scheduler, the numbers of the others, and the interface."""
        yield from super().variables(job, experiment, site)
        for name, role in (("DMLC_NUM_WORKER", "worker"), ("DMLC_NUM_SERVER", "ps")):
            yield Variable(name=name, value=str(job.placement.replicas(role)), origin=self.origin)
        interface, key = site.interface_of(job.facts.node_types)
        if interface:
            yield Variable(name="DMLC_INTERFACE", value=interface, origin=Origin("site", site.name, key))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterator[Variable]:
        """Yield the task's role, the index of a server, and the address where no interface is set."""
        del experiment
        for role, name in _ROLES.items():
            yield Variable.filled("DMLC_ROLE", template(name), self.origin, role)
        yield Variable.filled("DMLC_SERVER_ID", template(INDEX), self.origin, "ps")
        if not site.interface_of(job.facts.node_types)[0]:
            yield Variable.filled("DMLC_NODE_HOST", template(ADDRESS), self.origin)


# --- Ray: a head on the first node, a raylet on each other node, and the program when all have joined
#
# On each node ``templates/python/hpcdist_ray.py`` runs ``ray start``, in the container; the program, a
# driver, finds them by RAY_ADDRESS, and its end is the end of the job. Sources: ``ray start --help`` of 2.60,
# tried; https://docs.ray.io/en/latest/ray-core/configure.html.

_LEAST: Final = 75
"""The MiB below which Ray refuses an object store (OBJECT_STORE_MINIMUM_MEMORY_BYTES)."""
_SHARE: Final = 0.3
"""Ray's default share of memory for the object store, which is a share of the whole node's."""
_RESERVED: Final = frozenset((
    "head", "address", "port", "block", "node-ip-address", "num-cpus", "num-gpus", "temp-dir",
    "object-store-memory", "include-dashboard", "dashboard-port", "node-manager-port", "object-manager-port",
    "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port",
    "metrics-export-port", "ray-client-server-port", "min-worker-port", "max-worker-port",
))  # fmt: skip
_STARTS_RAY: Final = re.compile(r"(?:^|[\s;&|(])ray\s+start\b")


class RaySection(Model, frozen=True):
    """``object_store``: the memory of a node's object store, such as ``20G``; by default 30 % of its tasks'.

    ``dashboard_port``: the port of Ray's dashboard on the first node, where only that node reaches it; it
    needs ``ray[default]``. ``start_timeout``: how many seconds the nodes may take to join; ``ray start``,
    which gives a node 30, is repeated until then. ``args``: further options of ``ray start`` on all nodes,
    such as ``--resources={"fast": 1}``. ``head_args``: more options, for the first node only.
    """

    object_store: Memory | None = None
    dashboard_port: int | None = None
    start_timeout: int = 300
    args: tuple[str, ...] = ()
    head_args: tuple[str, ...] = ()


class Ray(PlainFramework):
    """Ray, a task a node; replicas that share a node share its raylet."""

    name = "ray"
    section: type[Model] = RaySection
    one_process = True
    # The job ends with the first task, and nodes may differ.
    requirements = Topology(
        task="node",
        by_address=True,
        required_roles=frozenset({"master"}),
        lockstep_roles=frozenset(),
        required_by="framework",
    )
    shared = {"RAY_ADDRESS": template(HEAD_ADDRESS, ":", PORT)}

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section, and a command that starts Ray itself."""
        yield from super().problems(experiment)
        section = section_of(RaySection, experiment, self.name)
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

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterator[Word]:
        """Yield the words that start Ray's processes."""
        del site
        section = section_of(RaySection, experiment, self.name)
        yield from self.own("python3")
        yield Word.raw('"$HPCDIST_RUN_DIR/runtime/python/hpcdist_ray.py"', self.origin)
        yield from self.own(f"--nodes={job.placement.size}", f"--wait={section.start_timeout}")
        if store := _object_store(job, section):
            yield from self.own(f"--start=--object-store-memory={store * 1024 * 1024}")
        shown = section.dashboard_port is not None
        port = [f"--head=--dashboard-port={section.dashboard_port}"] * shown
        yield from self.own(f"--head=--include-dashboard={str(shown).lower()}", *port)
        yield from words_of(Origin("key", "ray.args"), *(f"--start={text}" for text in section.args))
        yield from words_of(Origin("key", "ray.head_args"), *(f"--head={text}" for text in section.head_args))
        yield from self.own("--")

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterator[Variable]:
        """Yield where the head is, and that Ray sends no statistics about its use."""
        yield from super().variables(job, experiment, site)
        yield Variable(name="RAY_USAGE_STATS_ENABLED", value="0", origin=self.origin)


def _option_problems(section: RaySection) -> Iterator[Problem]:
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


def _object_store(job: PreparedJob, section: RaySection) -> int | None:
    """Return the MiB of each object store; Ray would take a share of the node's memory, not of the job's."""
    if section.object_store:
        return section.object_store.mib
    amounts = [row.memory for row in job.placement.rows]
    least = min((memory for memory in amounts if memory is not None), default=0)
    share = int(least * _SHARE)
    return share if None not in amounts and share >= _LEAST else None


JAX: Final = Jax()
MPI: Final = Mpi("mpi")
CHAINERMN: Final = Mpi("chainermn")
MXNET: Final = MxNet()
RAY: Final = Ray()
