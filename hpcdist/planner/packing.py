"""Packing: the trials of a search share nodes, where each is one task that leaves room on its node.

The job's tasks are then workers, each with what one trial needs of a node, and each runs one trial after
another. Where the batch system has arrays, each element is one node with its workers, so that a node that
fails takes only its own trials with it; else one job has them all.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from hpcdist.cost.rates import amounts_of
from hpcdist.errors import Path, PlanError, Problem, warning
from hpcdist.experiment.amounts import Resources
from hpcdist.experiment.batch_specs import ArraySpec, IndexRange
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.origin import Origin, Where
from hpcdist.plan.placement import Placement, Row
from hpcdist.plan.trials import Pack, Sweep
from hpcdist.planner import restarts
from hpcdist.planner.budget import check_packed
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.pools import UNLIMITED, pools
from hpcdist.planner.request import has_arrays, most_elements, whole_nodes
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_PACK: Path = ("batch", "pack")
_SHARED: Path = ("environment", "resources", "gpu", "trials_per_gpu")
_PORTS = 16
"""The ports of one trial, as of any job of few tasks."""


def packed(
    job: PreparedJob, experiment: Experiment, site: Site, choice: LaunchChoice, where: Where
) -> PreparedJob:
    """Return the job of one trial with how its search is packed, or as it is.

    Raises:
        PlanError: where it is to be packed, and cannot.
    """
    origin = _reason(job, experiment, site, where)
    if job.sweep is None or origin is None:
        return job
    arrays = has_arrays(site)
    if problem := _problem(job, experiment, choice):
        if not arrays:
            problem = problem._replace(
                hint=f"{_by(site)} has no arrays either: choose another site with --site"
            )
        if experiment.batch.pack or _sharing(experiment) > 1 or not arrays:
            raise PlanError(problem)
        return job
    per_node, most = _room(job, experiment, site)
    if experiment.batch.pack is None and origin.kind == "site" and per_node < 2:  # noqa: PLR2004 - no room
        return job
    pack = _pack(job.sweep, per_node, most, origin)
    array = ArraySpec((IndexRange(1, pack.nodes),)) if arrays else None
    group = _placement(job.placement, _need(job, experiment), 1, pack.per_node).groups[0]
    node = amounts_of([group], site, exclusive=job.request.exclusive)
    check_packed(experiment, node.gpus * pack.nodes, job.request.walltime)
    gpus_of_job = node.gpus * (1 if arrays else pack.nodes)
    gpus = replace(job.gpus, visibility="launcher" if job.gpus.visibility == "launcher" else "task")
    return replace(
        job,
        sweep=replace(job.sweep, pack=pack, jobs=1, cost=_cost(job, gpus_of_job)),
        request=replace(job.request, array=array),
        gpus=gpus,
        completion=restarts.of_packed(job.completion, experiment, origin),
        launch=replace(job.launch, mpi="none" if choice.launcher.provides_pmi else None),
    )


def with_workers(job: PreparedJob, experiment: Experiment) -> PreparedJob:
    """Return a job whose tasks are the workers, beside what each of them has of its node as one trial."""
    pack = job.sweep and job.sweep.pack
    if not pack:
        return job
    nodes = 1 if job.request.array else pack.nodes
    placement = _placement(job.placement, _need(job, experiment), nodes, pack.per_node)
    return replace(
        job,
        placement=placement,
        rendezvous=replace(job.rendezvous, ports=min(_PORTS * pack.per_node, 8192)),
        launch=replace(job.launch, labelled=False),
    )


def advice(job: PreparedJob, experiment: Experiment, site: Site) -> Iterator[Problem]:
    """Yield a warning where the time limit is that of several trials, and nobody asked for it."""
    pack, limit = job.sweep and job.sweep.pack, job.request.walltime
    if job.sweep and pack and limit and experiment.batch.pack is None and pack.rounds(job.sweep.trials) > 1:
        message = (
            f"the trials are packed ({pack.origin}): about {pack.rounds(job.sweep.trials)} run one after "
            f"another within the walltime, {limit}"
        )
        hint = "write `batch: {pack: true}` if that is meant, or "
        hint += "`pack: false` for a job each" if has_arrays(site) else "a `walltime` for all of them"
        yield warning(message, ("hptuning",), hint)


def _sharing(experiment: Experiment) -> int:
    resources = experiment.environment.resources or Resources()
    return resources.gpu.trials_per_gpu or 1


def _by(site: Site) -> str:
    """Return what has no arrays: the batch system, or this site of it."""
    return f"site {site.name}" if schedulers.get(site.scheduler).has_arrays else site.scheduler


def _reason(job: PreparedJob, experiment: Experiment, site: Site, where: Where) -> Origin | None:
    """Return why the trials are to be packed, None where they are not."""
    if experiment.batch.pack is not None:
        return where(_PACK) if experiment.batch.pack else None
    if _sharing(experiment) > 1:
        return where(_SHARED)
    if not has_arrays(site):
        return Origin("rule", f"{_by(site)} has no arrays")
    key = whole_nodes(site, job.placement) if experiment.batch.exclusive is None else None
    return Origin("site", site.name, key) if key else None


def _problem(job: PreparedJob, experiment: Experiment, choice: LaunchChoice) -> Problem | None:
    """Return why a worker cannot run these trials."""
    path: Path = _PACK if experiment.batch.pack else ("hptuning",)
    each = "write `pack: false`, and each trial is a job of its own"
    if choice.mode == "once":
        by = choice.launch.program if choice.launch else choice.launcher.name
        message = f"the trials cannot be packed: {by} starts the tasks of each, and it would take all nodes"
        return Problem(message, path, each)
    if job.placement.size > 1:
        message = f"the trials cannot be packed: each is {job.placement.size} tasks, and a worker is one"
        hint = each if experiment.framework != "pytorch" else f"{each}; `torchrun` makes one task of a node"
        return Problem(message, path, hint)
    if _sharing(experiment) > 1 and (job.placement.rows[0].gpus != 1 or job.gpus.visibility == "launcher"):
        gpus = job.placement.rows[0].gpus
        message = (
            f"trials share one GPU each, and these have {gpus}"
            if gpus != 1
            else f"trials cannot share GPUs: {choice.launcher.name} gives each task its own on this site"
        )
        return Problem(message, _SHARED, "remove it")
    return None


def _room(job: PreparedJob, experiment: Experiment, site: Site) -> tuple[int, int]:
    """Return how many trials fit on a node, and how many nodes they may have.

    Raises:
        PlanError: where a node lacks CPUs or memory for those that are to share a GPU.
    """
    group, need, shares = job.placement.groups[0], _need(job, experiment), _sharing(experiment)
    kind = (group.site_partition, group.node_type)
    pool = next((pool for pool in pools(site) if (pool.partition, pool.node_type) == kind), pools(site)[0])
    sizes = [
        size * times // wanted
        for size, times, wanted in (
            (pool.cpus, 1, need.cpus), (pool.gpus, shares, need.gpus), (pool.max_gpus, shares, need.gpus),
            (pool.memory, 1, need.memory)
        )
        if size is not None and wanted
    ]  # fmt: skip
    fit = min(sizes, default=UNLIMITED if pool.nodes == 1 else shares) // shares * shares
    if not fit:
        message = f"a node has CPUs and memory for {min(sizes)} of {shares} trials that would share its GPU"
        raise PlanError(Problem(message, _SHARED, "ask for fewer, or write less"))
    if has_arrays(site):
        return fit, most_elements(site) or UNLIMITED
    gpus = need.gpus * fit // shares
    return fit, pool.nodes if pool.max_gpus is None or not gpus else min(pool.nodes, pool.max_gpus // gpus)


def _need(job: PreparedJob, experiment: Experiment) -> Row:
    """Return the one task of a trial; of its GPU's CPUs and memory it has a part where it shares that."""
    row, asked = job.placement.rows[0], experiment.environment.resources or Resources()
    shares = _sharing(experiment)
    cpus = row.cpus if asked.cpu.value else max(1, row.cpus // shares)
    memory = row.memory if asked.memory.value or row.memory is None else row.memory // shares
    return replace(row, cpus=cpus, memory=memory, tasks_per_gpu=shares)


def _pack(sweep: Sweep, fit: int, most: int, origin: Origin) -> Pack:
    """Return how many workers there are: as many as may run at once, on as few nodes as hold them.

    One, where neither the search nor the node says how many that are.
    """
    workers = min(sweep.at_once or (sweep.trials if fit < UNLIMITED else 1), sweep.trials)
    nodes = min(-(-workers // fit), most)
    workers = min(workers, nodes * fit)
    return Pack(workers=workers, nodes=nodes, per_node=min(fit, workers), origin=origin)


def _cost(job: PreparedJob, gpus: int) -> int | None:
    """Return the GPU-seconds that a job with so many GPUs takes at most; None without a budget."""
    limit = job.request.walltime
    return gpus * limit.seconds if job.sweep and job.sweep.budget and limit else None


def _placement(trial: Placement, row: Row, nodes: int, per_node: int) -> Placement:
    """Return the workers, so many on each node, each with what this task has."""
    workers = replace(row, tasks=nodes * per_node, tasks_per_node=per_node)
    group = replace(
        trial.groups[0],
        nodes=nodes,
        tasks=workers.tasks,
        tasks_per_node=per_node,
        cpus_per_task=row.cpus,
        cpus=row.cpus * per_node,
        gpus=row.gpus * -(-per_node // row.tasks_per_gpu),
        memory=None if trial.groups[0].memory is None else (row.memory or 0) * per_node,
    )
    return Placement(groups=(group,), rows=(workers,))
