"""The site: a machine, as one frozen value read from ``site_configs/<name>.yaml``.

Every value of a shipped site has its source in ``sources``; what is unknown is omitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from hpcdist.base.errors import Path
from hpcdist.base.fields import Model
from hpcdist.base.units import Memory, Walltime
from hpcdist.site.charges import Account, Balance, Charge
from hpcdist.site.fabric import NO_FRAMEWORK, Condition, ConditionalText, Fabric, Network, Scalar, Setting
from hpcdist.site.nodes import Gpus, NodeType, Partition, Qos
from hpcdist.site.published import Measured, Published
from hpcdist.site.settings import Lsf, Pbs, Runtime, Sge


class Source(Model, frozen=True, kw_only=True):
    """A source of values, and when it was read.

    ``where``: its address. ``read``: the day or month (``YYYY-MM-DD`` or ``YYYY-MM``). ``of``: the keys of
    the file that it is the source of, such as ``fabric.env`` or ``node_types.a100.memory``, each with all
    keys below it. ``by``: the publisher: the centre, the vendor, a third
    party, or users, whose scripts have no address that could be named.
    """

    where: str
    read: str
    of: tuple[str, ...] = ()
    by: Literal["centre", "vendor", "third party", "users"] = "centre"


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


class Directives(Model, frozen=True):
    """Directives that every job of this machine needs, and flags that it refuses.

    ``mandatory``: lines in the scheduler's syntax. ``size``: lines that request the job's nodes, in place of
    those that hpcdist writes for nodes, CPUs, GPUs and memory, such as ``-l {node_type}={nodes}`` (TSUBAME4);
    in them are replaced ``{nodes}``, ``{node_type}``, ``{partition}``, ``{tasks}``, ``{tasks_per_node}``,
    ``{cpus_per_task}``, and of each node ``{cpus}``, ``{gpus}`` and ``{memory}`` (MiB). ``forbidden``: flags,
    without a value. ``known``: further flags of this scheduler, such as those of a Flux plug-in.
    """

    mandatory: tuple[str, ...] = ()
    size: tuple[str, ...] = ()
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
    jobs that set none. ``default_cpu_partition``: the partition of those without GPUs, where the other's
    nodes have some. ``qos``: limits of single QOS. ``whole_nodes``: jobs get whole nodes.
    ``max_array_elements``: the most elements of a job array, where the site has changed the batch system's
    default (Slurm: ``MaxArraySize`` less 1); a search of more is several arrays. ``requeue``: a job may put
    itself into the queue again. ``max_queued_jobs``: how many jobs of a user the queue takes at once, for
    chains of jobs that follow each other. ``node_mtbf_hours``: the mean time between failures of a node, in
    hours, for `rehearse`. ``gpus``: how GPUs are requested. ``account``: whether jobs require an account.
    ``charge``: what an hour of a job costs it. ``balance``: the command that shows what it has left.
    ``walltime``: the walltime of jobs that set none. ``replica``: defaults of a replica's resources.
    ``node_selectors``: labels of experiments, their values, and what these select. ``volumes``: paths by
    name, for ``persistence`` and ``data_refs``. ``node_local``: the folder of a local disk of each node.
    ``directives``: directives that every job needs, and flags that are refused. ``environment``: whether jobs
    inherit the variables of the submitting shell. ``modules``: the modules that a job loads, in order.
    ``source``: files that it sources. ``fabric``: settings of the network. ``head_node``: the address of the
    first node. ``detect``: how the machine is detected. ``sources``: where the values come from.
    ``request_memory``: whether jobs request the memory that the experiment sets; ``share``: replicas that set
    none request their CPUs' share of the node's memory, because the default of the site is low.
    ``container``: the container runtime, if there is one. ``setup``: lines of bash that run once, where the
    script runs. ``task_setup``: lines of bash that each task runs before its program, such as ``mkdir -p`` on
    a local disk; a line of either, and a module, may have conditions. ``notes``: notes for its users.
    ``published``: the centre's own examples, setting by setting. ``unpublished``: why it has no more of them,
    in a sentence or one for each example. ``measured``: the bandwidths of its network, with the day and
    versions.
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
    default_cpu_partition: str | None = None
    qos: dict[str, Qos] = {}
    whole_nodes: bool = False
    max_array_elements: int | None = None
    requeue: bool = True
    max_queued_jobs: int | None = None
    node_mtbf_hours: float | None = None
    request_memory: bool | Literal["share"] = True
    gpus: Gpus = Gpus()
    account: Account = Account()
    charge: Charge | None = None
    balance: Balance | None = None
    walltime: Walltime | None = None
    replica: ReplicaDefaults = ReplicaDefaults()
    node_selectors: dict[str, dict[str, Selection]] = {}
    volumes: dict[str, str] = {}
    node_local: str = "/tmp"  # noqa: S108 - each job makes a folder of its own there
    directives: Directives = Directives()
    environment: Literal["inherit", "clean"] = "inherit"
    modules: tuple[str | ConditionalText, ...] = ()
    source: tuple[str, ...] = ()
    setup: tuple[str | ConditionalText, ...] = ()
    task_setup: tuple[str | ConditionalText, ...] = ()
    container: Runtime | None = None
    fabric: Fabric = Fabric()
    head_node: HeadNode = HeadNode()
    detect: Detect = Detect()
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    unpublished: str | dict[str, str] | None = None
    measured: tuple[Measured, ...] = ()

    def options(self, launcher: str) -> LauncherOptions:
        """Return this machine's settings of a launcher, empty if it has none."""
        return self.launchers.get(launcher, LauncherOptions())

    def conditions(self) -> Iterator[tuple[Path, Condition]]:
        """Yield every condition of the file, with its path."""
        for name, entry in self.fabric.env.items():
            if isinstance(entry, Setting):
                yield ("fabric", "env", name), entry
        for base, runtime in self.containers():
            yield from (((*base, *path), condition) for path, condition in runtime.conditions())
        lists: tuple[tuple[Path, Sequence[object]], ...] = (
            (("fabric", "together"), self.fabric.together),
            (("account", "rules"), self.account.rules),
            (("modules",), self.modules),
            (("setup",), self.setup),
            (("task_setup",), self.task_setup),
        )
        for path, items in lists:
            for index, item in enumerate(items):
                if isinstance(item, Condition):
                    yield (*path, index), item

    def conditional_frameworks(self) -> tuple[str, ...]:
        """Return the frameworks that conditions of the file name."""
        found = (name for _, item in self.conditions() for name in (*item.frameworks, *item.not_frameworks))
        return tuple(dict.fromkeys(name for name in found if name != NO_FRAMEWORK))

    def gpus_in(self, partition: str | None) -> tuple[Gpus, str]:
        """Return how GPUs are requested in a partition, and the key of the file that says so."""
        own = self.partitions[partition].gpus if partition in self.partitions else None
        return (self.gpus, "gpus") if own is None else (own, f"partitions.{partition}.gpus")

    def charge_in(self, partition: str | None, node_type: str | None) -> tuple[Charge | None, str]:
        """Return what jobs on such nodes are charged, None if unknown, and the key that says so."""
        own = self.partitions[partition].charge if partition in self.partitions else None
        if own:
            return own, f"partitions.{partition}.charge"
        of_type = self.node_types[node_type].charge if node_type in self.node_types else None
        return (of_type, f"node_types.{node_type}.charge") if of_type else (self.charge, "charge")

    def containers(self) -> Iterator[tuple[Path, Runtime]]:
        """Yield each container section of the file, with its path."""
        if self.container:
            yield ("container",), self.container
        for name, partition in self.partitions.items():
            if partition.container:
                yield ("partitions", name, "container"), partition.container

    def container_in(self, partition: str | None) -> tuple[Runtime | None, str]:
        """Return the container runtime of a partition, and the key of the file that says so."""
        own = self.partitions[partition].container if partition in self.partitions else None
        return (self.container, "container") if own is None else (own, f"partitions.{partition}.container")

    def memory_in(self, partition: str | None) -> tuple[bool | Literal["share"], str]:
        """Return whether jobs in a partition request memory, and the key of the file that says so."""
        own = self.partitions[partition].request_memory if partition in self.partitions else None
        return (
            (self.request_memory, "request_memory")
            if own is None
            else (own, f"partitions.{partition}.request_memory")
        )

    def requests_cpus(self, partition: str | None) -> bool:
        """Return whether jobs with GPUs request CPUs in a partition."""
        return partition not in self.partitions or self.partitions[partition].request_cpus

    def network_of(self, node_types: Iterable[str]) -> Network | None:
        """Return the network of nodes of these types, None if unknown or if there are several."""
        found = {self.node_types[name].network or self.fabric.network for name in node_types}
        return found.pop() if len(found) == 1 else None if found else self.fabric.network

    def interface_of(self, node_types: Iterable[str]) -> tuple[str | None, str]:
        """Return the network interface of nodes of these types, and the key of the file that says so."""
        found = {self.node_types[name].interface: name for name in node_types}
        own, name = next(iter(found.items()), (None, ""))
        if own is None or len(found) > 1:
            return self.fabric.interface, "fabric.interface"
        return own, f"node_types.{name}.interface"
