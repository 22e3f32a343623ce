"""The job specification: request, placement and launch, before any command word or variable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import asdict

from hpcdist.base.errors import independent
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.launch_line import SLOTS
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import Block, NodeCounts, task_command
from hpcdist.experiment.search import Search
from hpcdist.experiment.trials import generation_count, most_trials
from hpcdist.layers.protocols import Topology
from hpcdist.plan.fabric_variables import job_facts
from hpcdist.plan.model import (
    Completion,
    Container,
    GpuVisibility,
    Identity,
    JobSpec,
    Launch,
    Rendezvous,
    Restarts,
    SchedulerRequest,
)
from hpcdist.plan.placement import Placement
from hpcdist.plan.trials import Sweep
from hpcdist.plan.values import DEFAULT, Origin, Where, Word, joined
from hpcdist.planner import container_choice
from hpcdist.planner.budget import budget_of, cost_of
from hpcdist.planner.gpus import binding_words, gpu_visibility, visible_by
from hpcdist.planner.launcher_choice import (
    LaunchChoice,
    must_go_on,
    must_provide_mpi,
    must_start_replicas,
    own_arguments,
    pmi_of,
)
from hpcdist.planner.placement import beside_gpus
from hpcdist.planner.pools import memory_in
from hpcdist.planner.request import gpus_of, request_of, whole_nodes
from hpcdist.planner.restarts import origins_of, restarts_of
from hpcdist.planner.steps import own_nodes_of, steps_of
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.site.nodes import VisibleBy

# --- Origins: where each field of a plan was decided; items of lists have their own origins

_BATCH_FIELDS = tuple(
    key
    for key in Batch.__struct_fields__
    if key in SchedulerRequest.__struct_fields__
    or key in {"partition", "constraint", "launcher", "directives", "gpu_visibility"}
)
"""The keys of ``batch`` that a plan has: in its request, and a few elsewhere."""
_SITE_FIELDS = {
    "walltime": "walltime",
    "launcher": "launcher",
    "qos": "partitions",
}


def origins(
    experiment: Experiment, site: Site, placement: Placement, choice: LaunchChoice, where: Where
) -> Iterator[tuple[str, Origin]]:
    """Yield the origin of each field of a plan; of a field that comes twice the last wins."""
    topology = choice.topology
    required_by = topology.required_by.split(".") if topology.required_by else ()
    yield "name", where(("name",)) if experiment.name != "experiment" else DEFAULT
    for field in _BATCH_FIELDS:
        value = experiment.batch.launcher_name if field == "launcher" else getattr(experiment.batch, field)
        if value not in (None, ()):
            yield field, where(("batch", field))
        elif field == "launcher" and topology.launchers:
            yield field, where(tuple(required_by))
        elif field in _SITE_FIELDS and getattr(site, _SITE_FIELDS[field]):
            yield field, Origin("site", site.name, _SITE_FIELDS[field])
        elif field == "requeue":
            yield field, DEFAULT
    if experiment.hptuning:
        yield "array", where(("hptuning",))
    yield "gpus", Origin("site", site.name, gpus_of(site, placement)[1])
    for field in ("environment", "request_memory", "head_node"):
        yield field, Origin("site", site.name, field)
    if counts := [where(path) for path in NodeCounts.of(experiment).paths]:
        yield "nodes", joined(counts, " and ")
    yield from _of_partitions(experiment, site, placement, choice.replicas)
    yield from _of_selectors(experiment, choice.replicas, where)
    yield from _of_program(experiment, site, placement, where)
    yield from _of_framework(experiment, topology, where)


def _of_program(
    experiment: Experiment, site: Site, placement: Placement, where: Where
) -> Iterator[tuple[str, Origin]]:
    yield "command", where(("run", "entrypoint" if experiment.run.starts_entrypoint else "cmd"))
    if experiment.build and experiment.build.image:
        yield "image", where(("build", "image"))
        _, key = site.container_in(placement.groups[0].site_partition)
        yield "container", Origin("site", site.name, f"{key}.runtime")


def _of_framework(experiment: Experiment, topology: Topology, where: Where) -> Iterator[tuple[str, Origin]]:
    if topology.elastic and topology.required_by:
        yield "elastic", where(tuple(topology.required_by.split(".")))
    if topology.gpu_visibility == "node" and experiment.batch.gpu_visibility is None:
        yield "gpu_visibility", Origin("framework", str(experiment.framework))


def _of_partitions(
    experiment: Experiment, site: Site, placement: Placement, replicas: Sequence[Block]
) -> Iterator[tuple[str, Origin]]:
    whole = whole_nodes(site, placement)
    if whole and experiment.batch.exclusive is None:
        yield "exclusive", Origin("site", site.name, whole)
    asked = any(block.first.memory for block in replicas)
    for how, key in (memory_in(site, group.site_partition) for group in placement.groups):
        if how == "share" and not asked:
            yield "memory", Origin("site", site.name, key)


def _of_selectors(
    experiment: Experiment, replicas: Sequence[Block], where: Where
) -> Iterator[tuple[str, Origin]]:
    """Yield the origins of settings of replicas that override ``batch``."""
    kinds = {block.first.selector_path: dict(block.first.node_selector) for block in replicas}
    for key in ("partition", "constraint"):
        own = [where((*path, key)) for path, selector in kinds.items() if key in selector]
        others = getattr(experiment.batch, key) and not all(key in selector for selector in kinds.values())
        if own:
            yield key, joined([*([where(("batch", key))] if others else []), *own], " and ")


# --- The job specification


def job_spec(
    experiment: Experiment,
    site: Site,
    choice: LaunchChoice,
    place: tuple[Placement, Container | None],
    where: Where,
) -> JobSpec:
    """Decide all that layers build on.

    Raises:
        PlanError: when the site cannot take the experiment; all reasons at once where they are independent.
    """
    placement, container = place
    asked, _ = gpus_of(site, placement)
    facts = job_facts(site, placement, container=container is not None, framework=experiment.framework)

    def words() -> tuple[tuple[Word, ...], Literal["task", "node", "launcher"], VisibleBy]:
        must_go_on(experiment, site, choice)
        must_start_replicas(experiment, choice)
        arguments = own_arguments(experiment, site, choice, facts, where)
        binding = binding_words(site.options(choice.launcher.name), placement)
        texts = (*binding, *(word.text for word in arguments))
        visibility = gpu_visibility(experiment, site, choice, texts, asked)
        return arguments, visibility, visible_by(site, placement, asked)

    def ask() -> tuple[SchedulerRequest, Restarts | None]:
        restarts = restarts_of(experiment, site, placement, choice.topology)
        return request_of(experiment, site, placement, facts, restarts), restarts

    (request, restarts), (arguments, visibility, visible), _, _ = independent(
        ask,
        words,
        lambda: must_provide_mpi(choice, site) if _connects_by_mpi(choice, placement) else None,
        lambda: container_choice.must_start_containers(experiment, container, choice.launcher, site),
    )
    scheduler = schedulers.get(site.scheduler)
    gpus = GpuVisibility(
        visibility=visibility,
        variable=visible,
        library=facts.library if facts.gpus else None,
        shared_nodes=scheduler.is_batch_system and not request.exclusive,
        named=scheduler.names_gpus,
    )
    if choice.launcher.lists_cpus and gpus.visibility != "launcher" and choice.mode == "tasks":
        placement = beside_gpus(placement, site, exclusive=request.exclusive)
    return JobSpec(
        identity=_identity(experiment, site, launches=choice.topology.task == "node"),
        placement=placement,
        facts=facts,
        request=request,
        gpus=gpus,
        launch=_launch(experiment, site, (placement, container), choice, arguments),
        completion=_completion(experiment, placement, choice, restarts),
        rendezvous=Rendezvous(
            suffix=site.head_node.suffix,
            by_address=site.head_node.resolve or choice.topology.by_address,
            ports=_ports(placement),
        ),
        container=container_choice.with_binds(container, experiment, site, facts, where),
        steps=steps_of(experiment, site, placement, where),
        own_nodes=own_nodes_of(experiment, site),
        sweep=_sweep(experiment, site, request, placement),
        origins=dict(
            (*origins(experiment, site, placement, choice, where), *origins_of(experiment, restarts, where))
        ),
    )


def _sweep(
    experiment: Experiment, site: Site, request: SchedulerRequest, placement: Placement
) -> Sweep | None:
    search, trials = experiment.hptuning, len(experiment.trials)
    if search is None:
        return None
    elements = request.array.size if request.array else 1
    cost = cost_of(placement, site, request.walltime, exclusive=request.exclusive)
    budget = budget_of(experiment, cost)
    return Sweep(
        trials=trials,
        params=search.names,
        at_once=search.concurrency,
        order=search.order,
        jobs=math.ceil(trials / elements),
        max_failures=search.max_failures,
        stop_at=_stop_at(search),
        policies=tuple(_policies(search)),
        budget=budget,
        cost=cost if budget else None,
        generations=generation_count(search),
        most_trials=most_trials(search),
    )


def _stop_at(search: Search) -> dict[str, tuple[tuple[int, float], ...]]:
    found: dict[str, tuple[tuple[int, float], ...]] = {}
    for stop in search.early_stopping:
        if stop.value is not None:
            limit = (1 if stop.optimization == "maximize" else -1, stop.value)
            found[stop.metric] = (*found.get(stop.metric, ()), limit)
    return found


def _policies(search: Search) -> Iterator[dict[str, str | int | float]]:
    """Yield the policies that end trials early, as the nodes read them."""
    for stop in search.early_stopping:
        if stop.policy:
            given = {key: value for key, value in asdict(stop.policy).items() if value is not None}
            yield {"metric": stop.metric, "sign": 1 if stop.optimization == "maximize" else -1, **given}


def _identity(experiment: Experiment, site: Site, *, launches: bool) -> Identity:
    return Identity(
        name=experiment.name,
        description=experiment.description,
        tags=experiment.tags,
        site=site.name,
        scheduler=site.scheduler,
        framework=experiment.framework,
        command=task_command(experiment, launches=launches),
        params=experiment.params,
        tracking=experiment.tracking,
    )


def _launch(
    experiment: Experiment,
    site: Site,
    place: tuple[Placement, Container | None],
    choice: LaunchChoice,
    arguments: tuple[Word, ...],
) -> Launch:
    placement, container = place
    launcher, topology, launch = choice.launcher, choice.topology, choice.launch
    connects_by_mpi = _connects_by_mpi(choice, placement)
    mpi = pmi_of(experiment, site, choice, placement, container) if launcher.provides_pmi else None
    own = site.options(launcher.name).rank_variables or launcher.rank_variables
    return Launch(
        launcher="once" if choice.by_user else launcher.name,
        mode=choice.mode,
        starts_processes=topology.spread or topology.task == "node",
        connects_by_mpi=connects_by_mpi,
        mpi=mpi,
        # Cray's PMI has other variables (https://slurm.schedmd.com/mpi_guide.html).
        needs_pmi=connects_by_mpi and launcher.provides_pmi and mpi != "cray_shasta",
        rank_variables=own if choice.mode == "tasks" else None,
        hostfile_line=SLOTS.get(launch.program if launch else "", launcher.hostfile_line),
        labelled=_labelled(choice, placement),
        label_in_task=placement.size > 1 and not launcher.labels_output,
        remote_shell=None if choice.by_user else launcher.remote_shell,
        orders_nodes=launcher.orders_nodes and not choice.by_user and placement.nodes > 1,
        components=schedulers.get(site.scheduler).has_components and len(placement.groups) > 1,
        arguments=arguments,
    )


def _connects_by_mpi(choice: LaunchChoice, placement: Placement) -> bool:
    return choice.topology.needs_mpi and choice.launch is None and placement.size > 1


def _labelled(choice: LaunchChoice, placement: Placement) -> bool | None:
    if choice.mode == "once" or (choice.launcher.labels_single and placement.size == 1):
        return None
    return placement.size > 1


def _completion(
    experiment: Experiment, placement: Placement, choice: LaunchChoice, restarts: Restarts | None
) -> Completion:
    roles, required = {row.role for row in placement.rows}, choice.topology.required_roles
    return Completion(
        required_roles=() if choice.mode == "once" or roles <= required else tuple(sorted(required & roles)),
        elastic=choice.topology.elastic,
        kill_on_failure=experiment.batch.kill_on_failure is not False,
        max_restarts=experiment.environment.max_restarts or 0,
        restarts=restarts,
    )


def _ports(placement: Placement) -> int:
    """Return how many ports a job has on each node: one a task, and sixteen at least."""
    most = max(count for _, count in placement.tasks_per_node())
    return min(max(16, 1 << (most - 1).bit_length()), 8192)
