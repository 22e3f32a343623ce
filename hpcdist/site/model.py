"""The site: a machine, as one frozen value read from ``site_configs/<name>.yaml``.

Every value of a shipped site has its source in ``sources``; what is unknown is omitted.
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
    """A source of values, and when it was read.

    ``where``: its address. ``read``: the day or month (``YYYY-MM-DD`` or ``YYYY-MM``). ``of``: the keys of
    the file that it is the source of, such as ``fabric.env`` or ``node_types.a100.memory``, each with all
    keys below it. ``by``: the publisher: the centre, the vendor, or a third party.
    """

    where: str
    read: str
    of: tuple[str, ...] = ()
    by: Literal["centre", "vendor", "third party"] = "centre"


class NodeType(Model, frozen=True):
    """One type of node; None means unknown (or, on ``local``, not limited).

    ``cpus``: as the scheduler counts them. ``memory``: the memory that jobs can request. ``gpus``: how many
    it has; ``unknown`` means some, so that jobs which need GPUs are refused. ``gpu_type``: the scheduler's
    name of the GPUs. ``constraint``: the constraint that selects only nodes of this type. ``gpu_cpus``: the
    CPUs next to each GPU, in the order of the GPUs, such as ``48-63,112-127``; tasks on whole nodes are bound
    to the CPUs of their GPUs. ``library``: the collectives library of its GPUs. ``cpus_per_gpu``: jobs on
    such nodes must request exactly so many CPUs per GPU (NCI Gadi); PBS only.
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
    """Return the collectives libraries of the node types that have GPUs, each once, in order."""
    return tuple(sorted({kind.library for kind in kinds if kind.gpus != 0}))


class Limit(Model, frozen=True, kw_only=True):
    """The time limit of jobs with up to so many nodes.

    ``nodes``: the most nodes of such jobs. ``walltime``: their longest walltime.
    """

    nodes: int
    walltime: Walltime


class Partition(Model, frozen=True, kw_only=True):
    """A partition or queue of the machine.

    ``nodes``: how many it has of each node type, in the order in which they are preferred; a job without GPUs
    prefers the only type without. ``min_nodes``: the fewest nodes of a job. ``max_nodes``: the most nodes of
    a job. ``max_walltime``: the longest walltime of a job. ``qos``: the QOS of jobs that set none.
    ``constraint``: a further constraint of its jobs. ``limits``: longest walltimes by number of nodes; the
    first entry that covers the job's nodes applies. ``submit_as``: the scheduler's name of it, "" if none is
    to be given (Perlmutter: ``-C`` and ``-q``). ``whole_nodes``: whether jobs get whole nodes, if this
    differs from the site. ``request_memory``: whether jobs request memory, if this differs from the site.
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
        """The longest walltime of any job, None if the site does not set one."""
        all_limits = [limit.walltime for limit in self.limits] + [self.max_walltime]
        return max(filter(None, all_limits), default=None)

    def walltime_of(self, nodes: int) -> Walltime | None:
        """Return the longest walltime of a job with so many nodes, None if the site does not set one."""
        return next((limit.walltime for limit in self.limits if nodes <= limit.nodes), self.max_walltime)


class Gpus(Model, frozen=True):
    """How GPUs are requested and assigned to tasks.

    ``request``: ``gres`` (per node), ``gpus_per_node``, ``gpus_per_task`` or ``none`` (whole nodes).
    ``gres``: the name of the resource. ``typed``: whether the GPU type is requested too. ``visible``: the
    variable that lists the GPUs visible to a task. ``bound_by``: ``task`` if the task wrapper sets
    ``visible``; ``launcher`` if the launcher assigns the GPUs to each task (srun by ``--gpus-per-task``).
    """

    request: Literal["gres", "gpus_per_node", "gpus_per_task", "none"] = "gres"
    gres: str = "gpu"
    typed: bool = False
    visible: Literal["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"] = (
        "CUDA_VISIBLE_DEVICES"
    )
    bound_by: Literal["task", "launcher"] = "task"


class RankVariables(Model, frozen=True, kw_only=True):
    """The variables in which a launcher gives each task its rank.

    ``rank``: the variable with its rank. ``size``: the variable with the number of tasks, if there is one.
    ``local_rank``: the variable with its rank on its node.
    """

    rank: str
    size: str | None = None
    local_rank: str


class LauncherOptions(Model, frozen=True):
    """Settings of one launcher on this machine.

    ``mpi``: srun's ``--mpi`` type; on an unverified site it is used only for frameworks that communicate by
    MPI, or without a framework. ``flavour``: the MPI library behind mpirun. ``mca``: parameters of Open MPI.
    ``args``: further arguments. ``binding``: the arguments that bind equal tasks to CPUs and GPUs, such as
    ``--cpu-bind=cores``; unequal tasks are not bound. Without them PALS and Flux bind each task to as many
    cores as it requests. ``rank_variables``: the names of the rank variables, if they differ from the
    launcher's usual ones. ``threads_per_core``: how many hardware threads per core jsrun counts (smt4: 4).
    """

    mpi: str | None = None
    binding: tuple[str, ...] = ()
    rank_variables: RankVariables | None = None
    flavour: Literal["openmpi", "mpich", "intel", "cray-mpich"] | None = None
    args: tuple[str, ...] = ()
    mca: dict[str, Scalar] = {}
    threads_per_core: int = 1


class Torchrun(Model, frozen=True):
    """The program that starts PyTorch's processes on a node.

    ``program``: its name. ``args``: further arguments. ``discouraged``: why the centre advises against it.
    """

    program: str = "torchrun"
    args: tuple[str, ...] = ()
    discouraged: str | None = None


class HeadNode(Model, frozen=True):
    """The address of rank 0: by default the first node's name.

    ``suffix``: text that is appended to the name. ``resolve``: whether the name is resolved to an IP address.
    """

    suffix: str = ""
    resolve: bool = False


class Detect(Model, frozen=True):
    """How the machine is detected: any one of these matches.

    ``env``: variables that it sets, with their values (regular expressions). ``fqdn``: full names of its
    hosts (regular expressions).
    """

    env: dict[str, str] = {}
    fqdn: tuple[str, ...] = ()


class Account(Model, frozen=True):
    """Whether jobs require an account, and its form.

    ``required``: a job without one is refused. ``pattern``: its form (a regular expression). ``hint``: the
    hint for a missing or invalid account.
    """

    required: bool = False
    pattern: str | None = None
    hint: str | None = None


class Directives(Model, frozen=True):
    """Directives that every job of this machine needs, and flags that it refuses.

    ``mandatory``: lines in the scheduler's syntax. ``forbidden``: flags, without a value. ``known``: further
    flags of this scheduler, such as those of a Flux plug-in.
    """

    mandatory: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class ReplicaDefaults(Model, frozen=True):
    """Defaults of a replica's resources.

    ``cpus``: its CPUs. ``memory``: its memory.
    """

    cpus: int | None = None
    memory: Memory | None = None


class Selection(Model, frozen=True):
    """What a ``node_selector`` of an experiment selects on this machine.

    ``partition``: the partition. ``constraint``: the constraint of the nodes.
    """

    partition: str | None = None
    constraint: str | None = None


class Site(Model, frozen=True, kw_only=True):
    """One machine.

    ``name``: the name of the file. ``description``: the machine in one line. ``status``: how reliable its
    values are. ``scheduler``: its batch system. ``pbs``, ``lsf`` and ``sge``: settings of that batch system.
    ``launcher``: the program that starts tasks, if an experiment sets no other. ``launchers``: settings of
    single launchers. ``torchrun``: the program that starts PyTorch's processes on a node. ``node_types``: its
    types of nodes, by name. ``partitions``: its partitions or queues. ``default_partition``: the partition of
    jobs that set none. ``whole_nodes``: jobs get whole nodes. ``gpus``: how GPUs are requested. ``account``:
    whether jobs require an account. ``walltime``: the walltime of jobs that set none. ``replica``: defaults
    of a replica's resources. ``node_selectors``: labels of experiments, their values, and what these select.
    ``volumes``: paths by name, for ``persistence`` and ``data_refs``. ``directives``: directives that every
    job needs, and flags that are refused. ``environment``: whether jobs inherit the variables of the
    submitting shell. ``modules``: the modules that a job loads, in order. ``source``: files that it sources.
    ``fabric``: settings of the network. ``head_node``: the address of the first node. ``detect``: how the
    machine is detected. ``sources``: where the values come from. ``request_memory``: whether jobs request the
    memory that the experiment sets; ``share``: replicas that set none request their CPUs' share of the node's
    memory, because the default of the site is low. ``container``: the container runtime, if there is one.
    ``setup``: lines of bash that run once, where the script runs. ``task_setup``: lines of bash that each
    task runs before its program, such as ``mkdir -p`` on a local disk. ``notes``: notes for its users.
    ``differences``: differences from the centre's own examples, each with its reason.
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
        """Return this machine's settings of a launcher, empty if it has none."""
        return self.launchers.get(launcher, LauncherOptions())
