"""Nodes and partitions: what a site file says of each type of node, and of each partition or queue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

from hpcdist.base.fields import Model
from hpcdist.base.units import Memory, Walltime
from hpcdist.site.charges import Charge
from hpcdist.site.fabric import Library, Network
from hpcdist.site.settings import Runtime

# --- Affinity: the CPUs next to each GPU of a node, as a site file lists them, and each GPU's share of them
#
# A CPU list is written as in Linux: ``48-63,112-127``, the first threads of the cores, then the second
# ones.

_LIST: Final = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")


def parse_cpu_list(text: str) -> list[range]:
    """Return the ranges of CPUs in a CPU list.

    Raises:
        ValueError: when it is not a CPU list.
    """
    if not _LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a CPU list")
    ends = [[int(number) for number in part.split("-")] for part in text.split(",")]
    runs = [range(run[0], run[-1] + 1) for run in ends]
    if not all(runs):
        raise ValueError(f"{text!r} is not a CPU list: the end of a range is below its start")
    return runs


@lru_cache
def cpus_of_each_gpu(gpu_cpus: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs of each GPU; GPUs with the same list divide each of its ranges evenly."""
    return tuple(
        tuple(
            cpu
            for run in parse_cpu_list(text)
            for cpu in _part(run, gpu_cpus[:gpu].count(text), gpu_cpus.count(text))
        )
        for gpu, text in enumerate(gpu_cpus)
    )


def _part(run: range, part: int, parts: int) -> range:
    return run[len(run) * part // parts : len(run) * (part + 1) // parts]


def cpus_next_to(gpu_cpus: tuple[str, ...], gpus: Iterable[int]) -> tuple[int, ...]:
    """Return the CPUs next to these GPUs, in the order of the GPUs."""
    each = cpus_of_each_gpu(gpu_cpus)
    return tuple(cpu for gpu in gpus for cpu in each[gpu])


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Return CPUs as a CPU list: ``48-63,112-127``."""
    ordered = sorted(cpus)
    starts = [at for at, cpu in enumerate(ordered) if at == 0 or cpu != ordered[at - 1] + 1]
    ends = [*(start - 1 for start in starts[1:]), len(ordered) - 1]
    runs = [(ordered[start], ordered[end]) for start, end in zip(starts, ends, strict=True)]
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def cpu_mask(cpus: Iterable[int]) -> str:
    """Return CPUs as a mask, ``0xfe``: bit 0 is CPU 0."""
    return hex(sum(1 << cpu for cpu in set(cpus)))


# --- Nodes and partitions

VisibleBy = Literal["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"]


class PerGpu(Model, frozen=True):
    """The most that a job may have for each of its GPUs, on nodes that it shares.

    ``cpus``: CPUs. ``memory``: memory. ``over``: whether jobs with more are refused, or only
    discouraged or charged as for more GPUs.
    """

    cpus: int | None = None
    memory: Memory | None = None
    over: Literal["refused", "discouraged"] = "refused"


class NodeType(Model, frozen=True):
    """One type of node; None means unknown (or, on ``local``, not limited).

    ``cpus``: as the scheduler counts them. ``memory``: its memory. ``gpus``: how many
    it has; ``unknown`` means some, so that jobs which need GPUs are refused. ``gpu_type``: the scheduler's
    name of the GPUs. ``constraint``: the constraint that selects only nodes of this type. ``gpu_cpus``: the
    CPUs next to each GPU, in the order of the GPUs, such as ``48-63,112-127``; tasks on whole nodes are bound
    to the CPUs of their GPUs. ``library``: the collectives library of its GPUs. ``cpus_per_gpu``: jobs on
    such nodes must request exactly so many CPUs per GPU (NCI Gadi); PBS only. ``job_memory``: the memory that
    all jobs of a node can request, if it is known, else it is taken to be all but a sixteenth; the share of
    one that sets none is a share of it, and ``memory: all`` all of it.
    ``max_per_gpu``: the most that a job may have for each of its GPUs. ``network`` and ``interface``: those
    of such nodes, if they differ from ``fabric``. ``charge``: what an hour of a job on them costs, if this
    differs from the site.
    """

    cpus: int | None = None
    memory: Memory | None = None
    job_memory: Memory | None = None
    gpus: int | Literal["unknown"] | None = 0
    cpus_per_gpu: int | None = None
    max_per_gpu: PerGpu | None = None
    gpu_type: str | None = None
    gpu_cpus: tuple[str, ...] = ()
    library: Library = "nccl"
    constraint: str | None = None
    network: Network | None = None
    interface: str | None = None
    charge: Charge | None = None


def libraries_of(kinds: Iterable[NodeType]) -> tuple[Library, ...]:
    """Return the collectives libraries of the node types that have GPUs, each once, in order."""
    return tuple(sorted({kind.library for kind in kinds if kind.gpus != 0}))


class Gpus(Model, frozen=True):
    """How GPUs are requested and assigned to tasks.

    ``request``: ``gres`` (per node), ``gpus_per_node``, ``gpus_per_task`` or ``none`` (whole nodes).
    ``gres``: the name of the resource. ``typed``: whether the GPU type is requested too. ``visible``: the
    variable that lists the GPUs visible to a task, if it is not the usual one of the nodes' ``library``
    (nccl: CUDA_VISIBLE_DEVICES, rccl: ROCR_VISIBLE_DEVICES, oneccl: ZE_AFFINITY_MASK). ``bound_by``:
    ``task`` if each task sets ``visible``; ``launcher`` if the launcher assigns the GPUs to each task
    (srun by ``--gpus-per-task``).
    """

    request: Literal["gres", "gpus_per_node", "gpus_per_task", "none"] = "gres"
    gres: str = "gpu"
    typed: bool = False
    visible: VisibleBy | None = None
    bound_by: Literal["task", "launcher"] = "task"


class Limit(Model, frozen=True, kw_only=True):
    """The time limit of jobs with up to so many nodes.

    ``nodes``: the most nodes of such jobs. ``walltime``: their longest walltime.
    """

    nodes: int
    walltime: Walltime


class Qos(Model, frozen=True, kw_only=True):
    """A QOS that jobs choose by its name.

    ``max_nodes``: the most nodes of a job. ``max_walltime``: the longest walltime of a job.
    """

    max_nodes: int | None = None
    max_walltime: Walltime | None = None


class Partition(Model, frozen=True, kw_only=True):
    """A partition or queue of the machine.

    ``nodes``: how many it has of each node type, in the order in which they are preferred; a job without GPUs
    prefers the only type without. ``min_nodes``: the fewest nodes of a job. ``max_nodes``: the most nodes of
    a job. ``max_walltime``: the longest walltime of a job. ``qos``: the QOS of jobs that set none.
    ``constraint``: a further constraint of its jobs. ``limits``: longest walltimes by number of nodes; the
    first entry that covers the job's nodes applies. ``submit_as``: the scheduler's name of it, "" if none is
    to be given (Perlmutter: ``-C`` and ``-q``). ``whole_nodes``: whether jobs get whole nodes, if this
    differs from the site. ``request_memory``: whether jobs request memory, if this differs from the site.
    ``request_cpus``: false if jobs with GPUs request neither tasks nor CPUs, since each GPU
    brings its share of the node.
    ``gpus``: how GPUs are requested, if this differs from the site. ``container``: its container runtime,
    instead of the site's. ``min_gpus`` and ``max_gpus``: the fewest
    and the most GPUs of a job. ``charge``: what an hour of a job costs, if this differs from the site and the
    node type. ``charge_factor``: how many times as much as elsewhere its jobs cost.
    """

    may_be_empty = frozenset({"submit_as"})

    nodes: dict[str, int | None]
    min_nodes: int = 1
    max_nodes: int | None = None
    min_gpus: int = 0
    max_gpus: int | None = None
    max_walltime: Walltime | None = None
    limits: tuple[Limit, ...] = ()
    qos: str | None = None
    constraint: str | None = None
    submit_as: str | None = None
    whole_nodes: bool | None = None
    request_memory: bool | Literal["share"] | None = None
    request_cpus: bool = True
    gpus: Gpus | None = None
    container: Runtime | None = None
    charge: Charge | None = None
    charge_factor: float = 1.0

    @property
    def longest(self) -> Walltime | None:
        """The longest walltime of any job, None if the site does not set one."""
        all_limits = [limit.walltime for limit in self.limits] + [self.max_walltime]
        return max(filter(None, all_limits), default=None)

    def walltime_of(self, nodes: int) -> Walltime | None:
        """Return the longest walltime of a job with so many nodes, None if the site does not set one."""
        return next((limit.walltime for limit in self.limits if nodes <= limit.nodes), self.max_walltime)
