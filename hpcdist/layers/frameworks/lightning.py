"""Lightning and Fabric: how many nodes and devices there are, and which of them this process has.

With their defaults (``devices="auto"``, ``num_nodes=1``) they see the devices of one node. ``Trainer`` takes
its defaults from ``PL_TRAINER_*``, ``Fabric`` its arguments from ``LT_*``; a process finds its ranks as under
torchrun, which they check before Slurm or LSF: those require the same number of tasks on every node. Sources:
``TorchElasticEnvironment``, ``_defaults_from_env_vars`` and ``Fabric``'s ``_argument_from_env`` in Lightning
2.6.6, tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.errors import Problem, warning
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.plain import filled
from hpcdist.layers.frameworks.pytorch import TorchLibrary, environment
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import GPUS, JOB_ID, LOCAL_SIZE, NODE, NODES, RANK, SIZE, Template, template
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site

_ORIGIN = Origin("framework", "lightning")


class Lightning(TorchLibrary):
    """Lightning's ``Trainer``, and Fabric, over torch.distributed."""

    name = "lightning"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address and port of rank 0, and what makes Lightning read the ranks as under torchrun.

        With the strategy set, ``Trainer(devices=1)`` is an error instead of a training of its own.
        """
        shared = super().variables(job, experiment, site)
        if _is_launch(job):
            return shared
        ddp = Variable(name="PL_TRAINER_STRATEGY", value="ddp", origin=_ORIGIN)
        several = (ddp,) if job.placement.size > 1 else ()
        return (*shared, Variable.filled("TORCHELASTIC_RUN_ID", template(JOB_ID), _ORIGIN), *several)

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's ranks and the numbers of nodes and devices; a launch sets its processes' own."""
        if _is_launch(job):
            return super().task_variables(job, experiment, site)
        return tuple(filled(_by_node(job) if _is_regular(job) else _by_task(job), _ORIGIN))

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning for a placement that Lightning cannot express."""
        del site
        if not _is_launch(job) and (why := _why_irregular(job, experiment)):
            yield warning(
                f"{why}: each task gets the variables of a node of its own, so the program must not set "
                "`devices` or `num_nodes` itself, and each task runs `prepare_data`"
            )


def _is_launch(job: JobSpec) -> bool:
    """Whether the command is a launch: srun, or torchrun or fabric run on each node."""
    return job.launch.mode == "once" or job.launch.starts_processes


def _why_irregular(job: JobSpec, experiment: Experiment) -> str:
    """Return why task n of a node does not have device n, or nodes differ; empty where neither is so."""
    if _is_regular(job):
        return ""
    rows = job.placement.rows
    if all((row.gpus, row.tasks_per_gpu) == (1, 1) for row in rows) and _is_even(job):
        chosen = experiment.batch.gpu_visibility == "task"
        by = "`batch.gpu_visibility: task`" if chosen else job.launch.launcher
        return f"Lightning counts the devices of a whole node, and {by} shows each task only its own"
    counts = "Lightning knows only nodes with equal numbers of devices, each a task's own"
    return f"{counts}, and this plan has others"


def _is_even(job: JobSpec) -> bool:
    return len({tasks for _, tasks in job.placement.tasks_per_node()}) == 1


def _is_regular(job: JobSpec) -> bool:
    """Whether all nodes hold the same number of tasks, and task n of each has device n."""
    rows = job.placement.rows
    if not any(row.gpus for row in rows):
        return _is_even(job)
    return (
        _is_even(job)
        and job.gpus.visibility == "node"
        and all((row.gpus, row.tasks_per_gpu) == (1, 1) for row in rows)
    )


def _by_node(job: JobSpec) -> dict[str, Template]:
    return environment(job) | {"GROUP_RANK": template(NODE)} | _shape(template(NODES), template(LOCAL_SIZE))


def _by_task(job: JobSpec) -> dict[str, Template]:
    """Return variables by which each task is a node of its own."""
    own = {
        "LOCAL_RANK": template("0"),
        "LOCAL_WORLD_SIZE": template("1"),
        "NODE_RANK": template(RANK),
        "GROUP_RANK": template(RANK),
    }
    device = template(GPUS, ",") if all(row.gpus for row in job.placement.rows) else template("1")
    return environment(job) | own | _shape(template(SIZE), device)


def _shape(nodes: Template, devices: Template) -> dict[str, Template]:
    kinds = {"NUM_NODES": nodes, "DEVICES": devices}
    return {f"{prefix}_{name}": value for name, value in kinds.items() for prefix in ("PL_TRAINER", "LT")}


LIGHTNING = Lightning()
