"""The GPUs that tasks ask for: their types, and shares of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from hpcdist.base.errors import PlanError, Problem, warning
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import Replica
from hpcdist.plan.fabric_variables import kinds_of
from hpcdist.plan.folding import misplaced
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placement import Group, Placement
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.pools import Pool, cpus_with, memory_with
from hpcdist.site.model import LauncherOptions, Site
from hpcdist.site.nodes import Gpus, NodeType, PerGpu, VisibleBy, libraries_of

# --- What a site gives for each GPU: replicas that request more are refused, or get a warning


def over_share(replica: Replica, most: PerGpu, name: str) -> Iterator[Problem]:
    """Yield what a replica requests beyond its GPUs' share, as an error where the site refuses it."""
    asked = (
        ("CPUs", most.cpus, replica.cpus, ""),
        ("memory", most.memory and most.memory.mib, replica.memory and replica.memory.mib, " MiB"),
    )
    for what, size, wanted, unit in asked:
        if not (size and wanted and replica.gpus and wanted > size * replica.gpus):
            continue
        needed, path = -(-wanted // size), (*replica.path, "cpu" if what == "CPUs" else "memory")
        message = (
            f"{name} has {size}{unit} {what} a GPU, and {replica.name} requests {wanted}{unit} with "
            f"{replica.gpus} GPU{'s' * (replica.gpus != 1)}"
        )
        if most.over == "refused":
            yield Problem(message, path, f"request {size * replica.gpus}{unit}, or {needed} GPUs")
        else:
            yield warning(f"{message}: the site advises against it, or charges it as {needed} GPUs", path)


def advice(replica: Replica, group: Group, site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning where a replica requests more or less than its GPUs bring, or no CPUs are requested."""
    node = site.node_types.get(group.node_type or "")
    name = f"partition {group.site_partition} ({group.node_type} nodes)"
    if node and node.max_per_gpu and node.max_per_gpu.over == "discouraged":
        yield from over_share(replica, node.max_per_gpu, name)
    if node:
        yield from _under_share(replica, group, site, node, job)
    partition = site.partitions.get(group.site_partition or "")
    if partition and not partition.request_cpus and replica.gpus and replica.cpus:
        each = group.cpus // group.gpus if group.gpus else 0
        if replica.cpus != each * replica.gpus:
            message = f"CPUs are not requested in {name}, where each GPU brings {each}"
            yield warning(message, (*replica.path, "cpu"))


def _under_share(
    replica: Replica, group: Group, site: Site, node: NodeType, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning where the file has less CPUs or memory than what comes with a replica's GPUs.

    A job that has whole nodes has all of their CPUs.
    """
    partition = site.partitions.get(group.site_partition or "")
    no_cpus = job.request.exclusive or (partition and not partition.request_cpus)
    cpus, memory = None if no_cpus else replica.cpus, replica.memory if group.memory else None
    for key, unit, size, share in (
        ("cpu", "CPUs", cpus, cpus_with(replica.gpus, node)),
        ("memory", "MiB of memory", memory and memory.mib, memory_with(replica.gpus, node)),
    ):
        if size and size < share:
            whose = f"{replica.gpus} of the {node.gpus} GPUs of a node"
            message = f"{replica.name} has {size} of the {share} {unit} that come with {whose}"
            hint = f"remove it, or write `{key}: {{requests: {share}}}`"
            yield Problem(message, (*replica.path, key), hint, "warning")


# --- GPU types that replicas ask for by ``node_selector: {gpu_type: a100}``: nodes that have them, or advice
#
# A site without them runs the job on what it has: files of other systems name machines that it cannot have.
# Kubernetes's labels for GPUs ask for the same
# (https://cloud.google.com/kubernetes-engine/docs/how-to/gpus,
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator; EKS's and CoreWeave's).

KEY: Final = "gpu_type"
_LABELS: Final = (
    KEY, "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product", "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class", "gpu.nvidia.com/model", "accelerator",
)  # fmt: skip
_VENDORS: Final = frozenset(("nvidia", "tesla", "quadro", "amd", "instinct"))


def gpu_label_of(replica: Replica, site: Site) -> tuple[str, str]:
    """Return the label that asks for a type and its value; empty texts if none does, or without GPUs.

    A label in the site's ``node_selectors`` means what the site says.
    """
    labels = dict(replica.node_selector) if replica.gpus else {}
    asking = ((key, labels[key]) for key in _LABELS if key in labels)
    found = ((key, value) for key, value in asking if value not in site.node_selectors.get(key, {}))
    return next(((key, value) for key, value in found if _parts(value)), ("", ""))


def gpu_type_of(replica: Replica, site: Site) -> str:
    """Return the type that a replica asks for, an empty text if it asks for none."""
    return gpu_label_of(replica, site)[1]


def pools_of_type(candidates: Sequence[Pool], kind: str) -> list[Pool]:
    """Return the pools whose GPUs are of a type, else of its model (``a100`` of ``a100-80g``), else all."""
    named = [(pool, pool.gpu_type or pool.node_type or "") for pool in candidates if kind]
    exact = [pool for pool, name in named if is_type(name, kind)]
    return exact or [pool for pool, name in named if is_model(name, kind)] or [*candidates]


def is_type(name: str, kind: str) -> bool:
    """Return whether a site's name of GPUs has all words of a type."""
    return {*_parts(kind)} <= {*_parts(name)}


def is_model(name: str, kind: str) -> bool:
    """Return whether a site's name of GPUs has the first word of a type, its model."""
    return _parts(kind)[0] in _parts(name)


def gpu_type_advice(replica: Replica, group: Group, site: Site) -> Iterator[Problem]:
    """Yield a warning where a replica does not surely get the type that it asks for."""
    key, kind = gpu_label_of(replica, site)
    if not kind:
        return
    nodes = [group.node_type] if group.node_type else []
    if group.site_partition in site.partitions and not nodes:
        nodes = [*site.partitions[group.site_partition].nodes]
    given = _types(nodes, kind, site)
    path = (*replica.selector_path, key)
    if not given:
        hint = "write `batch: {constraint: NAME}`, or a partition, with its own name for them"
        yield warning(f"site {site.name} does not name its GPUs: {kind} is not requested", path, hint)
    elif not all(is_type(name, kind) for name in given):
        every = ", ".join(sorted({*_types(site.node_types, kind, site)}))
        gets = f"{replica.role} gets {' or '.join(dict.fromkeys(given))}"
        yield warning(f"{gets}, and not {kind}: site {site.name} has {every}", path)


def _types(nodes: Iterable[str], kind: str, site: Site) -> list[str]:
    """Return the types of the GPUs of these node types; a node type may itself be named as its GPUs are."""
    known = [(name, site.node_types[name]) for name in nodes]
    named = [(name, node.gpu_type or "") for name, node in known if node.gpus]
    return [text or name for name, text in named if text or is_model(name, kind)]


def _parts(name: str) -> list[str]:
    """Return the words of a name without its vendor: of ``A100x4`` and ``tesla_a100`` one is ``a100``."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return [re.sub(r"x\d$", "", word) for word in words if word and word not in _VENDORS]


# --- GPU visibility: who chooses the GPUs that a task sees, and warnings about device numbers

_HANDS_OUT: Final = re.compile(
    r"--gpus-per-task[= ].* | --gpu-bind[= ](?!(?:verbose,)?none).* | --tres-bind[= ].*gres/gpu:(?!none).*"
    r"| (?:--setopt[= ]|-o\ ?)gpu-affinity=(?!off|on).*",
    re.VERBOSE,
)
"""Options by which srun, flux run and PALS show each task only its GPUs.

Sources: srun(1), ``--gpu-bind`` and ``--gpus-per-task``, which implies ``--gpu-bind=per_task``;
flux-shell(1), ``gpu-affinity``; ``mpiexec --help`` of PALS, ``--gpu-bind``.
"""


def binding_words(options: LauncherOptions, placement: Placement) -> tuple[str, ...]:
    """Return the site's binding options, which equal tasks get."""
    return options.binding if placement.is_even else ()


def gpu_visibility(
    experiment: Experiment, site: Site, choice: LaunchChoice, words: Sequence[str], gpus: Gpus
) -> Literal["task", "node", "launcher"]:
    """Return who chooses a task's GPUs: the launcher where the site or these words say so.

    Raises:
        PlanError: where the experiment says `node`, and the launcher chooses.
    """
    launcher = choice.launcher.name
    own = gpus.bound_by == "launcher" and launcher == site.launcher
    by_words = [text for text in (*words, *map(" ".join, pairwise(words))) if _HANDS_OUT.fullmatch(text)]
    if not (own or by_words):
        return experiment.batch.gpu_visibility or choice.topology.gpu_visibility
    if experiment.batch.gpu_visibility == "node":
        by = f" by `{by_words[0]}`" if by_words else ""
        message = f"on site {site.name} each task sees the GPUs that {launcher} gives it{by}, and no others"
        raise PlanError(Problem(message, ("batch", "gpu_visibility"), "remove it"))
    return "launcher"


_VISIBLE: Final[Mapping[str, VisibleBy]] = {
    "nccl": "CUDA_VISIBLE_DEVICES",
    "rccl": "ROCR_VISIBLE_DEVICES",
    "oneccl": "ZE_AFFINITY_MASK",
}


def visible_by(site: Site, placement: Placement, gpus: Gpus) -> VisibleBy:
    """Return the variable that lists the GPUs visible to a task: the site's, or the GPU maker's.

    Raises:
        PlanError: where the job would have GPUs of several makers.
    """
    if gpus.visible:
        return gpus.visible
    groups = [group for group in placement.groups if group.gpus]
    kinds = {kind for group in groups or placement.groups for kind in kinds_of(site, group)}
    libraries = libraries_of(site.node_types[kind] for kind in kinds)
    if groups and len(libraries) > 1:
        message = f"{' and '.join(sorted(kinds))} have GPUs of different makers, and a job has those of one"
        raise PlanError(Problem(message, ("batch", "partition"), "write one partition for all replicas"))
    return _VISIBLE[libraries[0]] if len(libraries) == 1 else "CUDA_VISIBLE_DEVICES"


def device_advice(experiment: Experiment, job: PreparedJob, choice: LaunchChoice) -> Iterator[str]:
    """Yield a warning where device number LOCAL_RANK does not exist, or is another task's GPU."""
    chosen = experiment.batch.gpu_visibility == "task"
    found = (
        None
        if chosen or choice.topology.gpu_visibility != "node" or job.launch.mode == "once"
        else misplaced(job)
    )
    if found is None:
        return
    task, device = found
    seen = (
        f"{job.launch.launcher} shows each task its own GPUs alone"
        if job.gpus.visibility == "launcher"
        else "there are not as many GPUs on each node as tasks"
    )
    yield (
        f"{seen}: rank {task.rank} has device {device}, and its rank on the node is {task.local_rank}; a "
        "program that takes the device of that number, such as `hvd.local_rank()`, fails there or takes "
        "another's: let it take the first of HPCDIST_GPUS"
    )
