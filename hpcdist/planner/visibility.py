"""GPU visibility: who chooses the GPUs that a task sees, and warnings about device numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.plan.devices import misplaced
from hpcdist.plan.fabric_variables import kinds_of
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placement import Placement
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.site.model import LauncherOptions, Site
from hpcdist.site.nodes import Gpus, VisibleBy, libraries_of

_HANDS_OUT: Final = re.compile(
    r"--gpus-per-task[= ].* | --gpu-bind[= ](?!(?:verbose,)?none).* | --tres-bind[= ].*gres/gpu:(?!none).*"
    r"| (?:--setopt[= ]|-o\ ?)gpu-affinity=(?!off|on).*",
    re.VERBOSE,
)
"""Options by which srun, flux run and PALS show each task GPUs of its own.

Sources: srun(1), ``--gpu-bind`` and ``--gpus-per-task``, which implies ``--gpu-bind=per_task``;
flux-shell(1), ``gpu-affinity``; ``mpiexec --help`` of PALS, ``--gpu-bind``.
"""


def binding_words(options: LauncherOptions, placement: Placement) -> tuple[str, ...]:
    """Return the site's binding options, which equal tasks get."""
    return options.binding if placement.is_even else ()


def gpu_visibility(
    experiment: Experiment, site: Site, choice: LaunchChoice, words: Sequence[str], gpus: Gpus
) -> Literal["task", "node", "launcher"]:
    """Return who chooses a task's GPUs: its launcher where that is so on the site, or by these words.

    Raises:
        PlanError: where the experiment chooses, and the launcher does already.
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
    """Return the variable that lists the GPUs visible to a task: the site's, or that of the GPUs' maker.

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


def advice(experiment: Experiment, job: PreparedJob, choice: LaunchChoice) -> Iterator[str]:
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
