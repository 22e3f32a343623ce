"""The chunks of a plan for PBS: equal nodes, in the order of the ranks.

What PBS refuses, and what it accepts silently though wrong, was tried on an OpenPBS 23.06.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.errors import Problem
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placement import Group, Placement
from hpcdist.schedulers.pbs.values import chunk_word_problem
from hpcdist.site.model import Site

REPLICAS: Final = ("environment", "replicas")


class Chunk(NamedTuple):
    """Consecutive nodes of one group that hold the same; ``cpus``, ``gpus`` and ``memory`` are a node's.

    ``threads`` are the CPUs of one task, of the smallest where they differ; ``used`` those of all tasks.
    """

    group: Group
    nodes: int
    tasks: int
    threads: int
    used: int
    cpus: int
    gpus: int
    memory: int | None


def chunks(job: JobSpec, site: Site) -> Iterator[Chunk]:
    """Yield the chunks in rank order; a group whose nodes hold different tasks has several.

    Where the site demands so many CPUs a GPU, what the tasks have is rounded up to that.
    """
    for group in job.placement.groups:
        last: Chunk | None = None
        for chunk in _pieces(group, job.placement, cpus_per_gpu(group, site) or 0):
            if last and last._replace(nodes=0) == chunk._replace(nodes=0):
                last = last._replace(nodes=last.nodes + chunk.nodes)
                continue
            if last:
                yield last
            last = chunk
        if last:
            yield last


def cpus_per_gpu(group: Group, site: Site) -> int | None:
    """Return how many CPUs a GPU the site demands on these nodes."""
    node = site.node_types.get(group.node_type or "")
    return node.cpus_per_gpu if node else None


def _pieces(group: Group, placement: Placement, rule: int) -> Iterator[Chunk]:
    """Yield a chunk for each shape of the group's nodes."""
    for shape in placement.shapes():
        if group.node <= shape.node < group.node + group.nodes:
            yield Chunk(
                group=group,
                nodes=shape.nodes,
                tasks=shape.tasks,
                threads=min(max(1, row.cpus // row.processes) for row in shape.rows),
                used=shape.cpus,
                cpus=max(shape.cpus, rule * shape.gpus),
                gpus=shape.gpus,
                memory=group.memory if group.memory is None or group.all_memory else shape.memory,
            )


def select(job: JobSpec, site: Site) -> str:
    """Return the value of ``-l select=``: several chunk kinds are joined by ``+``."""
    return "+".join(":".join(_words(chunk, job, site)) for chunk in chunks(job, site))


def _words(chunk: Chunk, job: JobSpec, site: Site) -> Iterator[str]:
    dialect, kind = site.pbs, chunk.group.gpu_type
    yield str(chunk.nodes)
    if dialect.cpus:
        yield f"ncpus={chunk.cpus}"
    yield f"mpiprocs={chunk.tasks}"
    if dialect.cpus and job.launch.mode == "once":
        # PBS would set OMP_NUM_THREADS to all CPUs of the chunk (tried); the task wrapper sets it itself.
        yield f"ompthreads={chunk.threads}"
    if chunk.gpus and job.request.gpu_request != "none":
        yield f"{dialect.gpus}={chunk.gpus}"
        if dialect.gpu_type and kind:
            yield f"{dialect.gpu_type}={kind}"
    if chunk.memory is not None:
        yield f"mem={chunk.memory}mb"
    for name, value in dialect.chunk.items():
        yield f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    yield from _constraints(chunk.group)


def totals(job: JobSpec, site: Site) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and field of each resource of the whole job."""
    parts = list(chunks(job, site))
    if site.pbs.cpus:
        yield "ncpus", str(sum(part.nodes * part.cpus for part in parts)), "cpus"
    gpus = sum(part.nodes * part.gpus for part in parts)
    if gpus and job.request.gpu_request != "none":
        yield site.pbs.gpus, str(gpus), "gpus"
    if all(part.memory is not None for part in parts):
        yield "mem", f"{sum(part.nodes * (part.memory or 0) for part in parts)}mb", "request_memory"


def chunk_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield what PBS would accept silently and get wrong, and what no chunk can express."""
    if site.pbs.place == "pack" and job.placement.nodes > 1:
        message = (
            f"site {site.name} packs a job onto one host, and this one needs {job.placement.nodes} nodes"
        )
        yield Problem(message, REPLICAS, "write `pbs: {place: scatter}` in the site file")
    if any(chunk.cpus < max(1, chunk.tasks) for chunk in chunks(job, site)):
        message = "a task without a CPU of its own; PBS would take it in silence"
        yield Problem(message, ("environment", "resources", "cpu"), "ask for one CPU at least")
    if site.pbs.cpus:
        yield from _rule_problems(job, site)
    words = [list(_words(chunk, job, site))[1:] for chunk in chunks(job, site)]
    for message in dict.fromkeys(filter(None, map(chunk_word_problem, words))):
        hint = "write name=value, such as model=mil_a100, there or as `pbs.chunk` of the site file"
        yield Problem(message, ("batch", "constraint"), hint)
    if site.pbs.request == "totals":
        yield from _total_problems(job, site)


def _rule_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield a problem for nodes with more CPUs requested than the site gives with their GPUs."""
    for chunk in chunks(job, site):
        rule = cpus_per_gpu(chunk.group, site)
        if rule and chunk.cpus > rule * chunk.gpus:
            gpus = f"{chunk.gpus} GPU{'s' * (chunk.gpus != 1)}"
            message = (
                f"site {site.name} gives {rule} CPUs a GPU on {chunk.group.node_type} nodes: "
                f"{rule * chunk.gpus} with {gpus} a node, {chunk.cpus} asked"
            )
            yield Problem(message, ("environment", "resources", "cpu"), "ask for fewer CPUs, or more GPUs")
            return


def rounded(job: JobSpec, site: Site) -> str | None:
    """Return why the request has more CPUs than the tasks, None where it has as many."""
    found = next((chunk.group for chunk in chunks(job, site) if chunk.cpus > chunk.used), None)
    if found is None:
        return None
    rule = f"node_types.{found.node_type}.cpus_per_gpu"
    return f"{cpus_per_gpu(found, site)} CPUs a GPU: site {site.name}: {rule}"


def _constraints(group: Group) -> list[str]:
    return [text for text in re.split("[&:]", group.constraint or "") if text]


def _total_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Totals are spread over nodes by PBS, so that several must be equal and, as far as is known, full.

    PBS takes no ``place`` beside them (``PBSE_PLACENOSELECT``).
    """
    if job.request.exclusive and site.pbs.exclusive != "none":
        message = f"site {site.name} takes totals of the whole job, with which PBS gives no node for itself"
        yield Problem(message, ("batch", "exclusive"), "remove it, or ask for all CPUs of the nodes")
    parts = list(chunks(job, site))
    if len(parts) > 1:
        message = f"site {site.name} takes totals of the whole job, and these nodes hold different tasks"
        yield Problem(message, REPLICAS, "give all replicas the same resources, as many on each node")
    elif parts[0].nodes > 1:
        node = site.node_types.get(parts[0].group.node_type or "")
        if node and node.cpus and parts[0].cpus < node.cpus:
            message = (
                f"site {site.name} takes totals of the whole job, so several nodes must be full: "
                f"they have {node.cpus} CPUs each, {parts[0].cpus} asked"
            )
            yield Problem(message, REPLICAS, "ask for all CPUs of the nodes, or for a job that fits on one")
    for group in job.placement.groups:
        if group.constraint:
            message = f"site {site.name} takes totals of the whole job, which have no constraints"
            yield Problem(message, ("batch", "constraint"), "remove it")
