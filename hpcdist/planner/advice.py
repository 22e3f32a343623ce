"""Advice: warnings about a plan that is unusual but valid; each says what to do."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hpcdist.errors import Problem, did_you_mean, warning
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.node_counts import NodeCounts
from hpcdist.experiment.replica import Replica
from hpcdist.layers.protocols import AdvisingLauncher
from hpcdist.plan import devices
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.placement import Group, Row
from hpcdist.planner import container_choice, gpu_shares, launch_advice, lost_variables, qos_advice
from hpcdist.planner.feasibility import REPLICAS
from hpcdist.planner.gpu_types import KEY, gpu_label_of, gpu_type_advice
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.node_parts import why_no_memory
from hpcdist.planner.pools import memory_in
from hpcdist.planner.visibility import advice as about_devices
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site


def advice(experiment: Experiment, site: Site, job: PreparedJob, choice: LaunchChoice) -> Iterator[Problem]:
    """Yield what the user should know before submitting."""
    for text in (*launch_advice.advice(job, site, choice.launch), *lost_variables.advice(job)):
        yield warning(text, ("run", "cmd"))
    yield from _about_the_site(experiment, site, job)
    yield from _array_size(site, job)
    yield from _about_the_image(experiment, job)
    kinds = {(block.first.path, block.first.selector_path): block.first for block in choice.replicas}
    for replica in kinds.values():
        yield from _about_a_replica(replica)
    yield from map(warning, about_devices(experiment, job, choice))
    if isinstance(choice.launcher, AdvisingLauncher) and not choice.by_user:
        yield from choice.launcher.advice(job, site.options(choice.launcher.name))
    yield from _unused(experiment, [*kinds.values()], site, job)


def _unused(
    experiment: Experiment, kinds: Sequence[Replica], site: Site, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning for each part of the experiment that has no effect on this site."""
    for variable in job.environment.task_variables:
        if variable.name in experiment.environment.env_vars:
            path = ("environment", "env_vars", variable.name)
            yield warning(f"{variable.name} has no effect: hpcdist sets it for each task", path)
    yield from dict.fromkeys(found for kind in kinds for found in _selectors(kind, site))
    groups = [*_groups_of(kinds, job)]
    yield from dict.fromkeys(_unlisted_partitions(groups, site, experiment))
    yield from dict.fromkeys(_few_cpus(groups, site))
    yield from qos_advice.advice(experiment.batch.qos, site, job)
    if job.request.qos not in site.qos:
        yield from dict.fromkeys(_limits_of_another_qos(groups, site, job))
    yield from (found for replica, group in groups for found in gpu_type_advice(replica, group, site))
    yield from dict.fromkeys(found for kind in groups for found in gpu_shares.advice(*kind, site, job))
    yield from dict.fromkeys(_memory(groups, site, job))


def _selectors(replica: Replica, site: Site) -> Iterator[Problem]:
    for key, value in replica.node_selector:
        is_read = key in ("partition", "constraint", KEY, gpu_label_of(replica, site)[0])
        if not is_read and value not in site.node_selectors.get(key, {}):
            known = f"; known: {', '.join(site.node_selectors[key])}" if key in site.node_selectors else ""
            what = f"the node selector {key}: {value} has no meaning on site {site.name} and is not used"
            yield warning(f"{what}{known}", (*replica.selector_path, key))


def _unlisted_partitions(
    groups: Sequence[tuple[Replica, Group]], site: Site, experiment: Experiment
) -> Iterator[Problem]:
    """Yield a warning for each partition that the site's file lacks, which its user may know better."""
    for replica, group in groups:
        name = group.site_partition
        if name and site.partitions and name not in site.partitions:
            own = "partition" in dict(replica.node_selector)
            path = (*replica.selector_path, "partition") if own else ("batch", "partition")
            message = f"the file of site {site.name} has no partition {name!r}, and {site.scheduler} decides"
            if group.node_type:
                message += f"; its nodes are taken to be {group.node_type}, of which all others are"
            elif group.nodes > 1 and not NodeCounts.of(experiment).paths:
                message += "; how large its nodes are is not known, so each replica gets one (`batch.nodes`)"
            yield Problem(message, path, did_you_mean(name, site.partitions), "warning")


def _few_cpus(groups: Sequence[tuple[Replica, Group]], site: Site) -> Iterator[Problem]:
    """Yield a warning for each replica with GPUs that has one CPU a task, as nobody says how many."""
    for replica, group in groups:
        is_known = group.node_type or group.site_partition in site.partitions
        if replica.gpus and not (is_known or replica.cpus or site.replica.cpus):
            message = f"{replica.name} gets one CPU a task: how many its nodes have is not known"
            yield Problem(message, (*replica.path, "gpu"), "write `cpu: {requests: N}`", "warning")


def _limits_of_another_qos(
    groups: Sequence[tuple[Replica, Group]], site: Site, job: PreparedJob
) -> Iterator[Problem]:
    """Yield a warning for what a job exceeds of its partition by a QOS that the partition does not name."""
    qos, walltime = job.request.qos, job.request.walltime
    for _, group in groups:
        partition = site.partitions.get(group.site_partition or "")
        if partition is None or qos == partition.qos:
            continue
        unknown = f"whether {qos} allows more is not known"
        limit, most = partition.walltime_of(group.nodes), partition.max_nodes
        if limit and walltime and walltime > limit:
            known = f"partition {group.site_partition} allows {limit}, {walltime} requested"
            yield warning(f"{known}; {unknown}", ("batch", "walltime"))
        if most and group.nodes > most:
            known = f"partition {group.site_partition} gives a job {most} nodes, {group.nodes} are needed"
            yield warning(f"{known}; {unknown}", ("batch", "qos"))


def _memory(groups: Sequence[tuple[Replica, Group]], site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning for each memory request that the batch system does not get.

    Whole nodes whose memory is known need none.
    """
    for replica, group in groups:
        counted = replica.all_memory or _is_counted(group, site)
        lacks = group.memory is None and not (group.all_memory and site.scheduler == "slurm")
        if (replica.memory or replica.all_memory) and lacks and not (job.request.exclusive and counted):
            silent = [other for other, own in groups if own == group and replica.memory and not other.memory]
            if silent and memory_in(site, group.site_partition)[0]:
                yield _of_some(silent[0])
            else:
                why = _without_memory(site, group)
                yield warning(f"memory is not requested: {why}", (*replica.path, "memory"))


def _of_some(silent: Replica) -> Problem:
    """Return the warning where the share of one without a request cannot be worked out."""
    why = f"{silent.name} asks for none, and how much a node has is not known"
    message = f"memory is not requested: {why}; a job gets the default of its partition"
    return Problem(message, silent.path or REPLICAS, "write it for all replicas", "warning")


def _groups_of(kinds: Sequence[Replica], job: PreparedJob) -> Iterator[tuple[Replica, Group]]:
    """Yield each replica with its group of nodes.

    Of the replicas that one torchrun starts on a node only the first has a row.
    """
    groups, rows = job.placement.groups, defaultdict[str, list[Row]](list)
    for row in job.placement.rows:
        rows[row.role].append(row)
    for replica in kinds:
        later = bisect_right(rows[replica.role], replica.index, key=lambda row: row.index)
        node = rows[replica.role][later - 1].node if later else 0
        yield replica, groups[bisect_right(groups, node, key=lambda group: group.node) - 1]


def _is_counted(group: Group, site: Site) -> bool:
    """Whether it is known how much memory these nodes have, so that tasks are placed by it."""
    nodes = site.partitions[group.site_partition].nodes if group.site_partition in site.partitions else ()
    kinds = [site.node_types[kind] for kind in ([group.node_type] if group.node_type else nodes)]
    return any(kind.memory or kind.job_memory for kind in kinds)


def _without_memory(site: Site, group: Group) -> str:
    if group.all_memory:
        return f"{site.scheduler} takes a number, and how much a node has is not known; write the amount"
    return why_no_memory(site, group)


def _about_the_image(experiment: Experiment, job: PreparedJob) -> Iterator[Problem]:
    container = job.container
    if experiment.build and experiment.build.image and container is None:
        yield warning(
            f"the image {experiment.build.image} is not used (--no-container): the program runs with what "
            "the site's `modules` and `setup` give"
        )
    starter = container_choice.starter(job)
    if container and starter and not (starter.in_workdir or container.workdir):
        message = (
            f"{container.runtime} starts the image's entrypoint in the submit directory, not in the image's "
            "WORKDIR; if it needs that, write it as `run.workdir`"
        )
        yield warning(message, ("run", "entrypoint"))
    asked = [f"`{name}`" for name in ("modules", "spack_env") if getattr(experiment.batch, name)]
    if container and asked:
        yield warning(
            f"what {' and '.join(asked)} give is outside of the container: the program sees what is in "
            f"{container.image}; give --no-container to run with them"
        )


def _about_the_site(experiment: Experiment, site: Site, job: PreparedJob) -> Iterator[Problem]:
    if not site.partitions and job.placement.nodes > 1 and not NodeCounts.of(experiment).paths:
        yield warning(
            f"site {site.name} does not say how large its nodes are: each replica gets a node of its own; "
            "write `batch: {nodes: N}`, or a site file of your own (docs/how-to/add-a-site.md)"
        )
    scheduler = schedulers.get(site.scheduler)
    yield from scheduler.advice(job, site)
    if site.status == "unverified" and devices.lacks_gpu_assignment(job) and _has_part_of_a_node(job, site):
        yield warning(
            f"other jobs may be on the same nodes, and {site.scheduler} sets for no job which GPUs are "
            f"its own: tasks fail where {job.gpus.variable} is not set; ask for all GPUs of a node, or for "
            "whole nodes by `batch: {exclusive: true}`"
        )
    if job.request.walltime is None and scheduler.is_batch_system:
        yield warning(
            "no walltime is requested, so the partition's default applies; write `batch: {walltime: 2h}`"
        )
    persistence = experiment.environment.persistence
    for name in (persistence.data if persistence else ()) + experiment.environment.data_refs:
        if name not in site.volumes:
            yield warning(
                f"site {site.name} has no volume {name!r}; a site file gives its path under `volumes`"
            )


def _array_size(site: Site, job: PreparedJob) -> Iterator[Problem]:
    """Yield a warning where the batch system refuses the array unless the site has raised its limit."""
    scheduler = schedulers.get(site.scheduler)
    if job.request.array is None or job.sweep or scheduler.array_limit is None:
        return
    largest, (most, setting) = job.request.array.largest, scheduler.array_limit
    if largest > most:
        yield warning(
            f"{scheduler.name} takes indices up to {most}, unless the site has raised {setting}; "
            f"{largest} may be refused",
            ("batch", "array"),
        )


def _has_part_of_a_node(job: PreparedJob, site: Site) -> bool:
    """Whether the job has some, and as far as is known not all, of a node's GPUs."""
    for group in job.placement.groups:
        node = site.node_types.get(group.node_type or "")
        if group.gpus and not (node and node.gpus == group.gpus):
            return True
    return False


def _about_a_replica(replica: Replica) -> Iterator[Problem]:
    if replica.cpus and replica.cpus > replica.tasks and replica.cpus % replica.tasks:
        each, idle = divmod(replica.cpus, replica.tasks)
        yield warning(
            f"the {replica.cpus} CPUs of {replica.name} are {each} for each of its {replica.tasks} tasks; "
            f"{idle} stay{'s' * (idle == 1)} idle"
        )
