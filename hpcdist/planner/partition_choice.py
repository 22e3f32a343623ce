"""Selection: the partition and node type of each replica, or the reasons why no nodes fit.

One pool for all replicas wins over several; the site's default partition is tried first. Replicas go to
different pools, as a heterogeneous job, only where no single pool takes them all. A job that is too large
for one partition goes to a partition of unknown size only if the file names it. Parameter servers leave
the nodes with GPUs to the workers, where the site has others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from hpcdist.base.errors import Path, PlanError, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Experiment, Replicas
from hpcdist.experiment.replicas import Block, NodeCounts, Replica
from hpcdist.plan.placement import Group, Placement
from hpcdist.plan.values import Where
from hpcdist.planner.feasibility import PlacementRequest, Refusal, nearness, refusals_in, try_placement
from hpcdist.planner.gpus import gpu_type_of, is_model, pools_of_type
from hpcdist.planner.launcher_choice import LaunchRequest
from hpcdist.planner.pools import UNLIMITED, Pool, need_of, pools, unlisted
from hpcdist.planner.steps import own_nodes_of
from hpcdist.site.model import Site


def select(
    experiment: Experiment,
    site: Site,
    walltime: Walltime | None,
    where: Where,
    asked: LaunchRequest,
) -> Placement:
    """Choose pools and place all tasks.

    Raises:
        PlanError: with numbers, and with what would fit, when the site cannot take it.
    """
    counts = NodeCounts.of(experiment)
    own, batch = own_nodes_of(experiment, site), experiment.batch
    request = PlacementRequest(
        asked.replicas, site, walltime, asked.topology, where, counts, batch.qos, own, batch.account
    )
    allowed = [_allowed(experiment, site, run.first, where) for run in request.runs]
    if not any(run.first.gpus for run in request.runs):
        allowed = [_without_gpus(candidates, site.default_cpu_partition) for candidates in allowed]
    ps_on = (experiment.environment.replicas or Replicas()).ps_on
    if experiment.batch.constraint:  # of all nodes, and so of the servers'
        ps_on = ps_on or "worker_nodes"
    refused: list[list[Refusal]] = []
    typed = [
        pools_of_type(candidates, gpu_type_of(run.first, site))
        for run, candidates in zip(request.runs, allowed, strict=True)
    ]
    preferred = _choices(request.runs, typed, site, ps_on) if typed != allowed else ()
    for choice in chain(preferred, _choices(request.runs, allowed, site, ps_on)):
        if _is_guess(choice, allowed, refused):
            continue
        placement, refusals = try_placement(request, choice)
        if placement:
            return _explained(placement, request, choice, experiment)
        refused.append(refusals)
    from hpcdist.planner.alternatives import with_suggestions  # only where nothing fits

    raise PlanError(*with_suggestions(request, max(refused, key=nearness), apart=ps_on == "cpu_nodes"))


def _is_guess(
    choice: Sequence[Pool], allowed: Sequence[list[Pool]], refused: Sequence[list[Refusal]]
) -> bool:
    """Whether a pool of the choice has an unknown size, while partitions of known size are too small."""
    too_large = any(refusal.too_large for refusals in refused for refusal in refusals)
    asked = len({pool.partition for candidates in allowed for pool in candidates}) == 1
    return too_large and not asked and any(pool.nodes == UNLIMITED for pool in choice)


def _explained(
    placement: Placement, request: PlacementRequest, choice: Sequence[Pool], experiment: Experiment
) -> Placement:
    """Return the placement with the reason why each group is in its partition."""

    def explained(group: Group) -> Group:
        own = [
            run
            for run, pool in zip(request.runs, choice, strict=True)
            if (pool.partition, pool.node_type) == (group.site_partition, group.node_type)
        ]
        apart = len({pool.gpus for pool in choice}) > 1 and all(run.first.role in _SERVERS for run in own)
        return replace(group, reason=_why(request._replace(runs=own), group, experiment, apart=apart))

    return replace(placement, groups=tuple(map(explained, placement.groups)))


_SERVERS = ("ps", "evaluator")


def _why(request: PlacementRequest, group: Group, experiment: Experiment, *, apart: bool) -> str:
    """Return why these replicas are in this partition."""
    site = request.site
    _, named, _ = _partition(experiment, site, request.runs[0].first, request.where)
    if named or not site.partitions:
        return named
    if len(site.partitions) == 1:
        return "the only partition"
    kind = gpu_type_of(request.runs[0].first, site)
    if kind and is_model(group.gpu_type or group.node_type or "", kind):
        return f"it has {kind} GPUs, as the node selector asks"
    if default := _default(site, group.site_partition, gpus=any(run.first.gpus for run in request.runs)):
        return default
    if apart:
        return "these need no GPUs, and leave those of other nodes to the workers"
    against = refusals_in(request, pools(site)[0])
    return f"the first that fits: {against[0].problem.message}" if against else "the first that fits"


def _default(site: Site, partition: str | None, *, gpus: bool) -> str:
    """Return which default of the site this partition is, empty if it is not one."""
    if partition == site.default_cpu_partition and not gpus:
        return "the default partition of jobs without GPUs"
    if partition == pools(site)[0].partition:
        return "the default partition" if site.default_partition else "the first of the site"
    return ""


def _partition(
    experiment: Experiment, site: Site, replica: Replica, where: Where
) -> tuple[str | None, str, Path]:
    """Return the partition that the experiment names for this replica, the reason, and the key's path."""
    path: Path = ("batch", "partition")
    partition, named = experiment.batch.partition, ""
    if partition:
        named = f"named by {where(('batch', 'partition'))}"
    for key, value in replica.node_selector:
        chosen = None if key == "constraint" else site.node_selectors.get(key, {}).get(value)
        if meant := value if key == "partition" else chosen and chosen.partition:
            partition, named = meant, f"named by node_selector {key}: {value}"
            path = (*replica.selector_path, key)
    return partition, named, path


def _allowed(experiment: Experiment, site: Site, replica: Replica, where: Where) -> list[Pool]:
    """Return the pools that the file leaves open for this replica, in the order to try."""
    partition, *_ = _partition(experiment, site, replica, where)
    open_ones = [pool for pool in pools(site) if _is_open(pool, partition)] or [unlisted(site, partition)]
    constraints = _constraints(experiment, site, replica)
    found = [_constrained(pool, partition, constraints) for pool in _named(open_ones, constraints, site)]
    return [_unshared(pool) for pool in found] if experiment.batch.exclusive else found


def _constraints(experiment: Experiment, site: Site, replica: Replica) -> list[str]:
    """Return the constraint on a replica's nodes: its own replaces the job's.

    Where the job and a label of the replica each name a node type, the replica's wins.
    """
    own = [value for key, value in replica.node_selector if key == "constraint"]
    chosen = (
        site.node_selectors.get(key, {}).get(value)
        for key, value in replica.node_selector
        if key not in ("partition", "constraint")
    )
    labels = [item.constraint for item in chosen if item and item.constraint]
    kinds = _kinds(site)
    batch = [experiment.batch.constraint] if experiment.batch.constraint else []
    beside = [] if kinds.keys() & batch and kinds.keys() & labels else batch
    return [*(own or beside), *labels]


def _kinds(site: Site) -> dict[str, set[str]]:
    """Return node types by the words of a constraint that select them: their name, or their constraint."""
    found: dict[str, set[str]] = {}
    for name, node in site.node_types.items():
        for word in filter(None, {name, node.constraint}):
            found.setdefault(word, set()).add(name)
    return found


def _named(candidates: list[Pool], constraints: Sequence[str], site: Site) -> list[Pool]:
    """Return the pools of the node types that a constraint names; all, where it names none of them.

    An expression (``a100|v100``) leaves the choice to the scheduler: pools of any node come first.
    """
    kinds = _kinds(site)
    for word in (word for text in constraints for word in _words(text)):
        candidates = [pool for pool in candidates if pool.node_type in kinds.get(word, ())] or candidates
    if any(_CHOICE.search(text) for text in constraints):
        return _any_first(candidates)
    return candidates


def _words(constraint: str) -> list[str]:
    """Return the features that nodes must all have; an expression is one word."""
    return [constraint] if _EXPRESSION.search(constraint) else constraint.split("&")


_EXPRESSION: Final = re.compile(r"[][()|*,]")
_CHOICE: Final = re.compile(r"[|\[]")
"""Operators of a constraint that is more than a list of features (sbatch(1), ``--constraint``)."""


def _any_first(candidates: Sequence[Pool]) -> list[Pool]:
    """Return each partition's pool of any node before its pools of one node type."""
    order = {pool.partition: number for number, pool in enumerate(candidates)}
    return sorted(candidates, key=lambda pool: (order[pool.partition], pool.node_type is not None))


def _without_gpus(candidates: Sequence[Pool], first: str | None) -> list[Pool]:
    """Return the pools for a job without GPUs: no type of GPU is requested while other nodes are idle.

    The partition ``first`` is tried first. In each, its only node type without GPUs, else any node.
    """
    bare = Counter(pool.partition for pool in candidates if pool.node_type and pool.gpus == 0)

    def later(pool: Pool) -> bool:
        return pool.node_type is not None and not (pool.gpus == 0 and bare[pool.partition] == 1)

    order = {pool.partition: number for number, pool in enumerate(candidates)}
    return sorted(candidates, key=lambda pool: (pool.partition != first, order[pool.partition], later(pool)))


def _unshared(pool: Pool) -> Pool:
    """Return the pool for a job with whole nodes, which has all memory if it requests no amount."""
    return replace(pool, request_memory=True) if pool.request_memory == "share" else pool


def _is_open(pool: Pool, partition: str | None) -> bool:
    return partition is None or pool.partition in (partition, None)


def _constrained(pool: Pool, partition: str | None, constraints: Sequence[str]) -> Pool:
    texts = [word for text in (pool.constraint, *constraints) if text for word in _words(text)]
    texts = [*dict.fromkeys(texts)]
    if len(texts) > 1:
        texts = [f"({text})" if "|" in text and "[" not in text else text for text in texts]
    named = pool if pool.partition else replace(pool, partition=partition, submit_as=partition)
    return replace(named, constraint="&".join(texts) or None)


def _choices(
    runs: Sequence[Block], allowed: Sequence[list[Pool]], site: Site, ps_on: str | None
) -> Iterator[list[Pool]]:
    """Yield one pool for each run, in the order to try: servers apart, all in one, each in its first fit."""
    asked = ps_on == "cpu_nodes" and any(run.first.role == "ps" for run in runs)
    apart = [] if ps_on == "worker_nodes" else list(_servers_apart(runs, allowed, site, asked=asked))
    if asked and not apart:
        path = ("environment", "replicas", "ps_on")
        hint = "remove it, and they sit beside the workers"
        message = f"site {site.name} has no nodes without GPUs that could take them"
        raise PlanError(Problem(message, path, hint))
    yield from apart
    if not asked:
        yield from ([pool] * len(runs) for pool in _shared(allowed))
        yield [_first_fit(run, candidates, site) for run, candidates in zip(runs, allowed, strict=True)]


def _first_fit(run: Block, candidates: Sequence[Pool], site: Site) -> Pool:
    fitting = (pool for pool in candidates if not list(pool.shortfalls(need_of(run.first, site, pool))))
    return next(fitting, candidates[0])


def _shared(allowed: Sequence[list[Pool]]) -> Iterator[Pool]:
    """Yield every pool that all replicas may use."""
    return (pool for pool in allowed[0] if all(pool in candidates for candidates in allowed))


def _servers_apart(
    runs: Sequence[Block], allowed: Sequence[list[Pool]], site: Site, *, asked: bool
) -> Iterator[list[Pool]]:
    """Yield servers on nodes without GPUs, the others in one pool; if some need GPUs, or if ``asked``."""
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
    """Whether it must go to nodes without GPUs; if asked, also a server that needs GPUs (it fits none)."""
    return replica.role in ("ps", "evaluator") and (not replica.gpus or (asked and replica.role == "ps"))


def _suits_servers(pool: Pool, workers: Pool, run: Block, site: Site) -> bool:
    def qos(of: Pool) -> str | None:
        return site.partitions[of.partition].qos if of.partition in site.partitions else None

    fits = not list(pool.shortfalls(need_of(run.first, site, pool)))
    return pool.gpus == 0 and fits and qos(pool) == qos(workers)  # a job has one QOS
