"""The site: what a machine offers, as one frozen value read from ``site_configs/<name>.yaml``.

Every number and every setting of a shipped site has its source in ``sources``; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hpcdist.documents.fields import Model
from hpcdist.site.dialects.container import Runtime
from hpcdist.site.dialects.lsf import Lsf
from hpcdist.site.dialects.pbs import Pbs
from hpcdist.site.dialects.sge import Sge
from hpcdist.site.fabric import Fabric, Library, Scalar
from hpcdist.units import Memory, Walltime


class Source(Model, frozen=True, kw_only=True):
    """Where facts come from, and when that was read.

    ``where``: an address. ``read``: the day or month (``YYYY-MM-DD`` or ``YYYY-MM``). ``of``: the keys of the
    file that it vouches for, such as ``fabric.env`` or ``node_types.a100.memory``, each with all below it.
    ``by``: who says so, the centre or vendor itself or somebody else.
    """

    where: str
    read: str
    of: tuple[str, ...] = ()
    by: Literal["centre", "vendor", "third party"] = "centre"


class NodeType(Model, frozen=True):
    """One kind of node; None means not known (or, on ``local``, not limited).

    ``cpus``: as the scheduler counts them. ``memory``: what jobs can ask for. ``gpus``: how many it has;
    ``unknown`` is some, but not said how many, so that jobs which need GPUs are refused. ``gpu_type``: what
    the scheduler calls them. ``constraint``: what asks for nodes of this kind alone. ``gpu_cpus``: the CPUs
    next to each GPU, in the order of the GPUs, such as ``48-63,112-127``; tasks that have whole nodes are
    bound to those of their GPUs. ``library``: what its GPUs speak to each other by. ``cpus_per_gpu``: a job
    on such nodes must ask for exactly so many CPUs a GPU (NCI Gadi); PBS only.
    """

    cpus: int | None = None
    memory: Memory | None = None
    gpus: int | Literal["unknown"] | None = 0
    cpus_per_gpu: int | None = None
    gpu_type: str | None = None
    gpu_cpus: tuple[str, ...] = ()
    library: Library = "nccl"
    constraint: str | None = None


def libraries_of(kinds: Iterable[NodeType]) -> tuple[Library, ...]:
    """Return the collectives libraries of those nodes that have GPUs, each once, in order."""
    return tuple(sorted({kind.library for kind in kinds if kind.gpus != 0}))


class Limit(Model, frozen=True, kw_only=True):
    """Jobs of up to so many nodes may run so long.

    ``nodes``: the most nodes of such jobs. ``walltime``: how long they may run.
    """

    nodes: int
    walltime: Walltime


class Partition(Model, frozen=True, kw_only=True):
    """A part of the machine.

    ``nodes``: how many it has of each node type, in the order in which they are preferred; a job without
    GPUs prefers the only type without. ``min_nodes``: the fewest nodes that a job may have.
    ``max_nodes``: the most. ``max_walltime``: how long jobs may run. ``qos``: that of jobs which name
    none. ``constraint``: what jobs there ask of nodes besides. ``limits``: where larger jobs may run
    longer, or shorter; the first that has the job's nodes counts. ``submit_as``: what the scheduler calls
    it, "" where none is to be said (Perlmutter: ``-C`` and ``-q``). ``whole_nodes``: whether jobs get
    nodes of their own, where that is another thing than the site says. ``request_memory``: the same for
    the memory that jobs ask for.
    """

    may_be_empty = frozenset({"submit_as"})

    nodes: dict[str, int | None]
    min_nodes: int = 1
    max_nodes: int | None = None
    max_walltime: Walltime | None = None
    limits: tuple[Limit, ...] = ()
    qos: str | None = None
    constraint: str | None = None
    submit_as: str | None = None
    whole_nodes: bool | None = None
    request_memory: bool | Literal["share"] | None = None

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
    ``gres``: the name of the resource. ``typed``: whether their type is asked for too. ``visible``: the
    variable by which a task is shown its own. ``bound_by``: ``task`` when the task wrapper sets ``visible``;
    ``launcher`` when the site's own launcher is to give each task its GPUs (srun by ``--gpus-per-task``).
    """

    request: Literal["gres", "gpus_per_node", "gpus_per_task", "none"] = "gres"
    gres: str = "gpu"
    typed: bool = False
    visible: Literal["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"] = (
        "CUDA_VISIBLE_DEVICES"
    )
    bound_by: Literal["task", "launcher"] = "task"


class RankVariables(Model, frozen=True, kw_only=True):
    """What a launcher calls a task's place.

    ``rank``: the variable with its rank. ``size``: the one with the number of tasks, where there is one.
    ``local_rank``: the one with its number on its node.
    """

    rank: str
    size: str | None = None
    local_rank: str


class LauncherOptions(Model, frozen=True):
    """What one launcher needs on this machine.

    ``mpi`` is srun's ``--mpi`` type; that of an unverified site is for programs of a framework that meets by
    MPI, or of none. ``flavour`` is the MPI library behind mpirun. ``mca`` are parameters of Open MPI.
    ``args`` are further words. ``binding`` are the words that bind equal tasks to CPUs and GPUs, such as
    ``--cpu-bind=cores``; unequal tasks are not bound. Without them PALS and Flux bind each task to as many
    cores as it was promised. ``rank_variables`` are other names than the launcher's
    usual ones. ``threads_per_core``: how many hardware threads of a core jsrun counts (smt4: 4).
    """

    mpi: str | None = None
    binding: tuple[str, ...] = ()
    rank_variables: RankVariables | None = None
    flavour: Literal["openmpi", "mpich", "intel", "cray-mpich"] | None = None
    args: tuple[str, ...] = ()
    mca: dict[str, Scalar] = {}
    threads_per_core: int = 1


class Torchrun(Model, frozen=True):
    """What starts PyTorch's processes on a node here.

    ``program``: its name. ``args``: words that it is given besides. ``discouraged``: why the centre advises
    against it.
    """

    program: str = "torchrun"
    args: tuple[str, ...] = ()
    discouraged: str | None = None


class HeadNode(Model, frozen=True):
    """How tasks reach rank 0: by the first node's name.

    ``suffix``: what is put behind the name. ``resolve``: whether they are told its address instead.
    """

    suffix: str = ""
    resolve: bool = False


class Detect(Model, frozen=True):
    """How the machine is known, by one of these.

    ``env``: a variable that it sets, with its value (a regular expression). ``fqdn``: the full name of a host
    (regular expressions).
    """

    env: dict[str, str] = {}
    fqdn: tuple[str, ...] = ()


class Account(Model, frozen=True):
    """Whether jobs need an account, and what it looks like.

    ``required``: a job without one is refused. ``pattern``: what it looks like (a regular expression).
    ``hint``: what to tell somebody who has none, or a wrong one.
    """

    required: bool = False
    pattern: str | None = None
    hint: str | None = None


class Directives(Model, frozen=True):
    """Directives that every job of this machine needs, and flags that it refuses.

    ``mandatory``: lines in the scheduler's own words. ``forbidden``: flags without a value. ``known``: flags
    that its scheduler has beside the usual ones, such as those of a plug-in of Flux.
    """

    mandatory: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class ReplicaDefaults(Model, frozen=True):
    """What a replica gets that says nothing itself.

    ``cpus``: its CPUs. ``memory``: its memory.
    """

    cpus: int | None = None
    memory: Memory | None = None


class Selection(Model, frozen=True):
    """What a ``node_selector`` of an experiment means here.

    ``partition``: the one that it names. ``constraint``: what nodes must have.
    """

    partition: str | None = None
    constraint: str | None = None


class Site(Model, frozen=True, kw_only=True):
    """One machine.

    ``name``: that of the file. ``description``: the machine in one line. ``status``: how sure its values are.
    ``scheduler``: who queues its jobs. ``pbs``, ``lsf`` and ``sge``: what that one wants said differently
    here. ``launcher``: what starts tasks, if an experiment names no other. ``launchers``: what single
    launchers need here. ``torchrun``: what starts PyTorch's processes on a node. ``node_types``: its kinds of
    nodes, by names of the file's own. ``partitions``: its partitions or queues. ``default_partition``: the
    one for jobs that name none. ``whole_nodes``: jobs get nodes of their own. ``gpus``: how they are asked
    for. ``account``: whether jobs need one. ``walltime``: that of jobs which say none. ``replica``: what
    replicas get that say nothing. ``node_selectors``: labels of experiments, their values, and what those
    mean. ``volumes``: paths by name, for ``persistence`` and ``data_refs``. ``directives``: what the
    scheduler must be told, and what it refuses. ``environment``: whether jobs have the variables of the shell
    that submits. ``modules``: those that a job loads, in order. ``source``: files that it sources.
    ``fabric``: what the network wants said. ``head_node``: how tasks reach the first node. ``detect``: how
    the machine is known. ``sources``: where the values come from. ``request_memory``: whether jobs ask for
    the memory that the experiment names; ``share``: replicas without any ask for their CPUs' share of the
    node's, since the centre gives little unasked. ``container`` is what runs images, where anything does.
    ``setup`` are lines of bash that run once, where the script runs. ``task_setup`` are those that each task
    runs before its program, such as ``mkdir -p`` on a disk of its node. ``notes`` are for its users.
    ``differences`` are those from the centre's own examples, each with its reason.
    """

    name: str
    description: str
    status: Literal["tried", "documented", "community", "unverified"] = "unverified"
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
    request_memory: bool | Literal["share"] = True
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
    task_setup: tuple[str, ...] = ()
    container: Runtime | None = None
    fabric: Fabric = Fabric()
    head_node: HeadNode = HeadNode()
    detect: Detect = Detect()
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def options(self, launcher: str) -> LauncherOptions:
        """Return what this machine says of a launcher, empty where it says nothing."""
        return self.launchers.get(launcher, LauncherOptions())
