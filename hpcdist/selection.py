"""Selection: which partition and node type each replica goes to, and the reasons when there is none.

One pool for all replicas wins over several; the site's default partition is tried first. Only where no
single pool takes everything do replicas go to different ones, which makes the job heterogeneous; and
parameter servers leave the nodes with GPUs to the workers, where the site has others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from hpcdist.errors import Path, PlanError, Problem, did_you_mean
from hpcdist.experiment import Experiment, Replicas
from hpcdist.fields import Model
from hpcdist.layer import Topology
from hpcdist.placement import Crowd, by_node, place
from hpcdist.plan import Placement
from hpcdist.pool import Need, Pool, need_of, pools, with_memory
from hpcdist.replica import Replica, replicas
from hpcdist.site import Site
from hpcdist.units import Walltime

Where = Callable[[Path], str]


class Block(Model, frozen=True):
    """Equal replicas in a row, before a pool is chosen; ``first`` stands for all."""

    first: Replica
    count: int


def select(
    experiment: Experiment,
    site: Site,
    walltime: Walltime | None,
    where: Where,
    topology: Topology,
) -> Placement:
    """Choose pools and place all tasks.

    Raises:
        PlanError: with numbers, and with what would fit, when the site cannot take it.
    """
    runs = _runs(experiment, topology)
    allowed = [_allowed(experiment, site, run.first) for run in runs]
    ps_on = (experiment.environment.replicas or Replicas()).ps_on
    if experiment.batch.constraint:  # of all nodes, and so of the servers'
        ps_on = ps_on or "worker_nodes"
    reasons: list[Problem] = []
    for choice in _choices(runs, allowed, site, ps_on):
        problems = list(_problems(runs, choice, site, walltime))
        if not problems:
            placement = place(_crowds(runs, choice, site, where), spread=topology.spread)
            placement = by_node(placement) if topology.task == "node" else placement
            problems = list(_size_problems(placement, choice, site, walltime))
            if not problems:
                return placement
        reasons = reasons or problems
    raise PlanError(*reasons)


def _runs(experiment: Experiment, topology: Topology) -> list[Block]:
    def kind(replica: Replica) -> Replica:
        return replace(replica, index=0)

    found = []
    for _, members in groupby(replicas(experiment, per_gpu=topology.task != "replica"), key=kind):
        equal = list(members)
        found.append(Block(equal[0], len(equal)))
    return found


def _allowed(experiment: Experiment, site: Site, replica: Replica) -> list[Pool]:
    """Return the pools that the file leaves open for this replica."""
    partition, constraints = experiment.batch.partition, [experiment.batch.constraint]
    for key, value in replica.node_selector:
        chosen = site.node_selectors.get(key, {}).get(value)
        if key == "partition":
            partition = value
        elif key == "constraint":
            constraints.append(value)
        elif chosen:
            partition = chosen.partition or partition
            constraints.append(chosen.constraint)
    if partition and site.partitions and partition not in site.partitions:
        hint = did_you_mean(partition, site.partitions)
        raise PlanError(
            Problem(f"site {site.name} has no partition {partition!r}", ("batch", "partition"), hint)
        )
    return [_constrained(pool, partition, constraints) for pool in pools(site) if _is_open(pool, partition)]


def _is_open(pool: Pool, partition: str | None) -> bool:
    return partition is None or pool.partition in (partition, None)


def _constrained(pool: Pool, partition: str | None, constraints: Sequence[str | None]) -> Pool:
    texts = dict.fromkeys(text for text in (pool.constraint, *constraints) if text)
    named = pool if pool.partition else replace(pool, partition=partition, submit_as=partition)
    return replace(named, constraint="&".join(texts) or None)


def _choices(
    runs: Sequence[Block], allowed: Sequence[list[Pool]], site: Site, ps_on: str | None
) -> Iterator[list[Pool]]:
    """Yield one pool for each run: first every pool that all may use, then each run's own first fit."""
    asked = ps_on == "cpu_nodes" and any(run.first.role == "ps" for run in runs)
    apart = [] if ps_on == "worker_nodes" else list(_servers_apart(runs, allowed, site, asked=asked))
    yield from apart
    if asked and not apart:
        path = ("environment", "replicas", "ps_on")
        hint = "remove it, and they sit beside the workers"
        message = f"site {site.name} has no nodes without GPUs that could take them"
        raise PlanError(Problem(message, path, hint))
    if asked:
        return
    yield from ([pool] * len(runs) for pool in _shared(allowed))
    own = []
    for run, candidates in zip(runs, allowed, strict=True):
        fitting = (pool for pool in candidates if not list(pool.misfits(need_of(run.first, site, pool))))
        own.append(next(fitting, candidates[0]))
    yield own


def _shared(allowed: Sequence[list[Pool]]) -> Iterator[Pool]:
    """Yield every pool that all may use."""
    return (pool for pool in allowed[0] if all(pool in candidates for candidates in allowed))


def _servers_apart(
    runs: Sequence[Block], allowed: Sequence[list[Pool]], site: Site, *, asked: bool
) -> Iterator[list[Pool]]:
    """Yield servers on nodes without GPUs, the others in one pool; if some need GPUs, or if it is asked."""
    serves = [_serves(run.first, asked=asked) for run in runs]
    others = [candidates for candidates, apart in zip(allowed, serves, strict=True) if not apart]
    need_gpus = any(run.first.gpus for run in runs)
    if not any(serves) or not (asked or need_gpus):
        return
    servers = [run for run, apart in zip(runs, serves, strict=True) if apart]
    of_servers = [candidates for candidates, apart in zip(allowed, serves, strict=True) if apart]
    for pool in (pool for pool in _shared(others) if pool.gpus != 0 or not need_gpus):
        for other in _shared(of_servers):
            if all(_suits_servers(other, pool, run, site) for run in servers):
                yield [other if apart else pool for apart in serves]


def _serves(replica: Replica, *, asked: bool) -> bool:
    """Whether it is to go to nodes without GPUs; a parameter server that needs some cannot, even if asked."""
    return replica.role in ("ps", "evaluator") and (not replica.gpus or (asked and replica.role == "ps"))


def _suits_servers(pool: Pool, workers: Pool, run: Block, site: Site) -> bool:
    def qos(of: Pool) -> str | None:
        return site.partitions[of.partition].qos if of.partition in site.partitions else None

    fits = not list(pool.misfits(need_of(run.first, site, pool)))
    return pool.gpus == 0 and fits and qos(pool) == qos(workers)  # a job has one QOS


def _crowds(runs: Sequence[Block], choice: Sequence[Pool], site: Site, where: Where) -> list[Crowd]:
    return [
        Crowd(run.first.role, run.first.index, run.count, need, pool, _origin(run.first, site, where))
        for run, need, pool in zip(runs, _needs(runs, choice, site), choice, strict=True)
    ]


def _needs(runs: Sequence[Block], choice: Sequence[Pool], site: Site) -> list[Need]:
    """Return what each asks of a node; where some ask for memory, the others get their share of it."""
    needs = [need_of(run.first, site, pool) for run, pool in zip(runs, choice, strict=True)]
    if any(need.memory is not None for need in needs):
        return [with_memory(need, pool) for need, pool in zip(needs, choice, strict=True)]
    return needs


def _origin(replica: Replica, site: Site, where: Where) -> str:
    return where(replica.path) if replica.path else f"site {site.name}: replica"


def _problems(
    runs: Sequence[Block], choice: Sequence[Pool], site: Site, walltime: Walltime | None
) -> Iterator[Problem]:
    for run, pool in zip(runs, choice, strict=True):
        need = need_of(run.first, site, pool)
        for misfit in pool.misfits(need):
            yield Problem(
                f"{_title(pool)} has {misfit} by {run.first.name}", run.first.path, _fitting(run, site)
            )
        yield from _sharing_problems(run.first)
    yield from _memory_problems(runs, _needs(runs, choice, site))
    for pool in dict.fromkeys(choice):
        longest = site.partitions[pool.partition].longest if pool.partition in site.partitions else None
        yield from _walltime_problems(pool, site, walltime, longest)


def _memory_problems(runs: Sequence[Block], needs: Sequence[Need]) -> Iterator[Problem]:
    """Memory is asked by the node; what replicas get that ask for none must then be known."""
    silent = [run.first for run, need in zip(runs, needs, strict=True) if need.memory is None]
    if silent and len(silent) < len(needs):
        path = silent[0].path or ("environment", "replicas")
        message = f"{silent[0].name} asks for no memory though others do, and what a node has is not known"
        yield Problem(message, path, "write it for all replicas, or for none")


def _sharing_problems(replica: Replica) -> Iterator[Problem]:
    more, fewer = max(replica.gpus, replica.tasks), min(replica.gpus, replica.tasks)
    if fewer and more % fewer:
        yield Problem(
            f"{replica.gpus} GPUs cannot be shared evenly by the {replica.tasks} processes of {replica.name}",
            replica.path,
            "make one a multiple of the other",
        )


def _walltime_problems(
    pool: Pool, site: Site, walltime: Walltime | None, limit: Walltime | None, nodes: int = 0
) -> Iterator[Problem]:
    if walltime and limit and walltime > limit:
        size = f" to a job of {nodes} node{'s' * (nodes != 1)}" if nodes else ""
        message = f"{_title(pool)} allows {limit}{size}, {walltime} asked"
        yield Problem(message, ("batch", "walltime"), _allowing(site, walltime, nodes))


def _size_problems(
    placement: Placement, choice: Sequence[Pool], site: Site, walltime: Walltime | None
) -> Iterator[Problem]:
    for pool in dict.fromkeys(choice):
        groups = [
            group
            for group in placement.groups
            if (group.site_partition, group.node_type) == (pool.partition, pool.node_type)
        ]
        nodes = sum(group.nodes for group in groups)
        if nodes > pool.nodes:
            tasks = max(group.tasks_per_node for group in groups)
            message = f"{_title(pool)} gives a job {pool.nodes} node{'s' * (pool.nodes != 1)}, "
            message += f"{nodes} are needed ({tasks} task{'s' * (tasks != 1)} a node)"
            larger = [other.partition for other in pools(site) if other.partition and other.nodes >= nodes]
            hint = f"large enough: {', '.join(dict.fromkeys(filter(None, larger)))}" if larger else ""
            yield Problem(message, ("environment", "replicas"), hint or "ask for fewer replicas")
        elif pool.partition in site.partitions:
            limit = site.partitions[pool.partition].walltime_of(nodes)
            yield from _walltime_problems(pool, site, walltime, limit, nodes)


def _title(pool: Pool) -> str:
    if pool.partition is None:
        return "the site"
    return f"partition {pool.partition}" + (f" ({pool.node_type} nodes)" if pool.node_type else "")


def _fitting(run: Block, site: Site) -> str:
    fits = [p for p in pools(site) if p.partition and not list(p.misfits(need_of(run.first, site, p)))]
    names = list(dict.fromkeys(pool.partition or "" for pool in fits))
    if names:
        return f"partition {' and '.join(names)} fit{'s' if len(names) == 1 else ''}"
    return f"no partition of site {site.name} fits"


def _allowing(site: Site, walltime: Walltime, nodes: int) -> str:
    limits = {
        name: partition.walltime_of(nodes) if nodes else partition.longest
        for name, partition in site.partitions.items()
    }
    names = [name for name, limit in limits.items() if limit is None or limit >= walltime]
    return f"long enough: {', '.join(names)}" if names else "no partition allows so long a job"
