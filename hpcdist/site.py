"""The site: what a machine offers, as one frozen value read from ``site_configs/<name>.yaml``.

Every number and every setting of a shipped site has its source in ``sources``; what is not known is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from hpcdist.dialects.lsf import Lsf
from hpcdist.dialects.pbs import Pbs
from hpcdist.dialects.sge import Sge
from hpcdist.errors import Path, Problem, did_you_mean
from hpcdist.fields import Model
from hpcdist.units import Memory, Walltime
from hpcdist.words import VARIABLE_NAME

Scalar = str | int | float | bool
When = Literal["always", "single_node", "multi_node"]


class Source(Model, frozen=True, kw_only=True):
    """Where facts come from, and when that was read (``YYYY-MM-DD`` or ``YYYY-MM``)."""

    where: str
    read: str
    what: str | None = None


class NodeType(Model, frozen=True):
    """One kind of node; None means not known (or, on ``local``, not limited)."""

    cpus: int | None = None
    memory: Memory | None = None
    gpus: int | None = 0
    gpu_type: str | None = None
    constraint: str | None = None


class Limit(Model, frozen=True, kw_only=True):
    """Jobs of up to so many nodes may run so long."""

    nodes: int
    walltime: Walltime


class Partition(Model, frozen=True, kw_only=True):
    """A part of the machine; ``nodes`` counts each node type, in the order in which they are preferred.

    ``limits``: where larger jobs may run longer, or shorter; the first that has the job's nodes counts.
    ``submit_as``: what the scheduler calls it, "" where none is to be said (Perlmutter: ``-C`` and ``-q``).
    """

    nodes: dict[str, int | None]
    max_nodes: int | None = None
    max_walltime: Walltime | None = None
    limits: tuple[Limit, ...] = ()
    qos: str | None = None
    constraint: str | None = None
    submit_as: str | None = None

    @property
    def longest(self) -> Walltime | None:
        """The walltime of its best-treated jobs, None where the site does not say."""
        all_limits = [limit.walltime for limit in self.limits] + [self.max_walltime]
        return max(filter(None, all_limits), default=None)

    def walltime_of(self, nodes: int) -> Walltime | None:
        """Return how long a job of so many nodes may run, None where the site does not say."""
        return next((limit.walltime for limit in self.limits if nodes <= limit.nodes), self.max_walltime)


class Gpus(Model, frozen=True):
    """How GPUs are asked for and handed to tasks.

    ``request``: ``gres`` (per node), ``gpus_per_node``, ``gpus_per_task`` or ``none`` (whole nodes).
    ``bound_by``: ``task`` when the task wrapper sets ``visible``; ``launcher`` when the site's own launcher
    is to give each task its GPUs (srun by ``--gpus-per-task``).
    """

    request: Literal["gres", "gpus_per_node", "gpus_per_task", "none"] = "gres"
    gres: str = "gpu"
    typed: bool = False
    visible: Literal["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] = "CUDA_VISIBLE_DEVICES"
    bound_by: Literal["task", "launcher"] = "task"


class RankVariables(Model, frozen=True, kw_only=True):
    """What a launcher calls a task's rank, the number of tasks and the rank on the node."""

    rank: str
    size: str
    local_rank: str


class LauncherOptions(Model, frozen=True):
    """What one launcher needs on this machine.

    ``mpi`` is srun's ``--mpi`` type; ``flavour`` the MPI library behind mpirun; ``mca`` Open MPI parameters.
    ``binding`` are the words that bind equal tasks to CPUs and GPUs, such as ``--cpu-bind=cores``; unequal
    tasks are not bound. ``rank_variables`` are other names than the launcher's usual ones.
    ``threads_per_core``: how many hardware threads of a core jsrun counts (smt4: 4).
    """

    mpi: str | None = None
    binding: tuple[str, ...] = ()
    rank_variables: RankVariables | None = None
    flavour: Literal["openmpi", "mpich", "intel", "cray-mpich"] | None = None
    args: tuple[str, ...] = ()
    mca: dict[str, Scalar] = {}
    threads_per_core: int = 1


class Torchrun(Model, frozen=True):
    """What starts PyTorch's processes on a node here; ``discouraged``: why the centre advises against it."""

    program: str = "torchrun"
    args: tuple[str, ...] = ()
    discouraged: str | None = None


class Setting(Model, frozen=True, kw_only=True):
    """A variable that counts only under a condition; else it is ``otherwise``, or not set at all."""

    value: Scalar
    when: When = "always"
    otherwise: Scalar | None = None


class Fabric(Model, frozen=True):
    """Variables for NCCL, RCCL, libfabric, UCX and MPI on this machine's network.

    ``interface`` is the one for TCP between nodes (gloo, ps-lite), such as ``ib0``.
    """

    interface: str | None = None
    env: dict[str, Setting | Scalar] = {}


class HeadNode(Model, frozen=True):
    """How tasks reach rank 0: the first node's name, with ``suffix``, ``resolve``d to an address."""

    suffix: str = ""
    resolve: bool = False


class Detect(Model, frozen=True):
    """How the machine is known: a variable with a value (a regular expression), or its full host name."""

    env: dict[str, str] = {}
    fqdn: tuple[str, ...] = ()


class Account(Model, frozen=True):
    """Whether jobs need an account, and what it looks like (a regular expression)."""

    required: bool = False
    pattern: str | None = None
    hint: str | None = None


class Directives(Model, frozen=True):
    """Directives that every job of this machine needs, and flags that it refuses."""

    mandatory: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class ReplicaDefaults(Model, frozen=True):
    """What a replica gets that says nothing itself."""

    cpus: int | None = None
    memory: Memory | None = None


class Selection(Model, frozen=True):
    """What a ``node_selector`` of an experiment means here."""

    partition: str | None = None
    constraint: str | None = None


class Site(Model, frozen=True, kw_only=True):
    """One machine; ``pbs``, ``lsf`` and ``sge`` say what its scheduler wants said differently."""

    name: str
    description: str
    status: Literal["documented", "community", "unverified"] = "unverified"
    scheduler: str
    pbs: Pbs = Pbs()
    lsf: Lsf = Lsf()
    sge: Sge = Sge()
    launcher: str
    launchers: dict[str, LauncherOptions] = {}
    torchrun: Torchrun = Torchrun()
    node_types: dict[str, NodeType] = {}
    partitions: dict[str, Partition] = {}
    default_partition: str | None = None
    whole_nodes: bool = False
    request_memory: bool = True
    gpus: Gpus = Gpus()
    account: Account = Account()
    walltime: Walltime | None = None
    replica: ReplicaDefaults = ReplicaDefaults()
    node_selectors: dict[str, dict[str, Selection]] = {}
    volumes: dict[str, str] = {}
    directives: Directives = Directives()
    environment: Literal["inherit", "clean"] = "inherit"
    modules: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    fabric: Fabric = Fabric()
    head_node: HeadNode = HeadNode()
    detect: Detect = Detect()
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def options(self, launcher: str) -> LauncherOptions:
        """Return what this machine says of a launcher, empty where it says nothing."""
        return self.launchers.get(launcher, LauncherOptions())


def problems_of(site: Site) -> Iterator[Problem]:
    """Yield what no type can say: names that must exist, patterns that must compile."""
    yield from _partition_problems(site)
    for key, meanings in site.node_selectors.items():
        for value, chosen in meanings.items():
            if chosen.partition and site.partitions:
                path = ("node_selectors", key, value, "partition")
                yield from _missing("partition", chosen.partition, site.partitions, path)
    yield from _variable_problems(site)
    for key, pattern in site.detect.env.items():
        yield from _pattern_problems(pattern, ("detect", "env", key))
    for index, pattern in enumerate(site.detect.fqdn):
        yield from _pattern_problems(pattern, ("detect", "fqdn", index))
    if site.account.pattern:
        yield from _pattern_problems(site.account.pattern, ("account", "pattern"))


def _partition_problems(site: Site) -> Iterator[Problem]:
    for name, partition in site.partitions.items():
        path = ("partitions", name)
        if not partition.nodes:
            yield Problem("a partition has nodes", (*path, "nodes"), "write `{NODE_TYPE: NUMBER}`")
        for node_type in partition.nodes:
            yield from _missing("node type", node_type, site.node_types, (*path, "nodes", node_type))
        sizes = [limit.nodes for limit in partition.limits]
        if sizes != sorted(set(sizes)):
            yield Problem("the numbers of nodes do not ascend", (*path, "limits"))
    if site.default_partition:
        yield from _missing("partition", site.default_partition, site.partitions, ("default_partition",))


def _missing(what: str, name: str, known: Iterable[str], path: Path) -> Iterator[Problem]:
    if name not in known:
        yield Problem(f"there is no {what} {name!r}", path, did_you_mean(name, known))


def _variable_problems(site: Site) -> Iterator[Problem]:
    for name, entry in site.fabric.env.items():
        path = ("fabric", "env", name)
        if not VARIABLE_NAME.fullmatch(name):
            yield Problem(f"{name!r} cannot be the name of a variable", path)
        if isinstance(entry, Setting) and entry.when == "always" and entry.otherwise is not None:
            yield Problem(
                "it is always the value, so there is no `otherwise`", path, "write `when: multi_node`"
            )


def _pattern_problems(pattern: str, path: Path) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(f"{pattern!r} is not a regular expression: {error}", path)
