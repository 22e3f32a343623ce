"""Feasibility: whether a job fits these pools of nodes, and the reasons if it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import Path, Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.replicas import ANY_NODES, NODES, PER_NODE, Block, NodeCounts, Replica
from hpcdist.layers.protocols import Topology
from hpcdist.plan.placement import Group, Placement, Row, with_own_nodes
from hpcdist.plan.values import Origin, Where
from hpcdist.planner.gpus import over_share
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.planner.pools import UNLIMITED, Need, Pool, Shortfall, need_of, pools, with_memory
from hpcdist.site.fabric import JobFacts
from hpcdist.site.model import Site
from hpcdist.site.nodes import Partition

REPLICAS: Path = ("environment", "replicas")


class PlacementRequest(NamedTuple):
    """What a job requests of a site: replicas in rank order, on so many nodes, and a walltime.

    ``where`` returns origins. ``qos``: the QOS that the experiment names, which has limits of its own.
    ``own_nodes``: further nodes, for programs beside the tasks. ``account``: which pays for it.
    """

    runs: Sequence[Block]
    site: Site
    walltime: Walltime | None
    topology: Topology
    where: Where
    counts: NodeCounts = ANY_NODES
    qos: str | None = None
    own_nodes: int = 0
    account: str | None = None

    def is_lifted(self, pool: Pool) -> bool:
        """Whether the pool's limits may not be the job's: they are those of the partition's own QOS.

        A QOS may allow more than its partition (https://slurm.schedmd.com/qos.html, ``OverPartQOS`` and
        ``PartitionTimeLimit``).
        """
        partition = self.site.partitions.get(pool.partition or "")
        return bool(self.qos and partition and self.qos != partition.qos)


class Refusal(NamedTuple):
    """Why a choice of pools is refused: the pool, and the numbers from which a hint is made.

    ``shortfall``: what ``run`` lacks on a node. ``nodes``: how many are needed where it is the ``walltime``
    or their number that is refused, 0 before they are counted.
    """

    problem: Problem
    pool: Pool | None = None
    shortfall: Shortfall | None = None
    run: Block | None = None
    nodes: int = 0
    walltime: Walltime | None = None

    @property
    def too_large(self) -> bool:
        """Whether the reason is that the pool has too few nodes."""
        return self.pool is not None and not self.walltime and self.nodes > self.pool.nodes


def try_placement(
    request: PlacementRequest, choice: Sequence[Pool]
) -> tuple[Placement | None, list[Refusal]]:
    """Place all tasks on these pools, one for each run; return why not where it cannot be done."""
    refusals = [*_node_refusals(request, choice), *_time_refusals(request, choice)]
    if refusals:
        return None, refusals
    placement = _placed(request, choice)
    if refusals := [*_count_refusals(request, placement, choice)]:
        return None, refusals
    placement = by_node(placement) if request.topology.task == "node" else placement
    refusals = [*_size_refusals(request, with_own_nodes(placement, request.own_nodes), choice)]
    return (None if refusals else placement), refusals


def refusals_in(request: PlacementRequest, pool: Pool) -> list[Refusal]:
    """Return why not all replicas fit this pool, nothing if they do."""
    return try_placement(request, [pool] * len(request.runs))[1]


def nearness(refusals: Sequence[Refusal]) -> tuple[int, int]:
    """Rank a refused choice: nodes too small (0), walltime too long (1), only too few nodes (2)."""
    stage = min(2 if refusal.nodes else 1 if refusal.walltime else 0 for refusal in refusals)
    return stage, max(refusal.pool.nodes if stage and refusal.pool else 0 for refusal in refusals)


def nodes_on(request: PlacementRequest, pool: Pool) -> int:
    """Return how many nodes of this pool the job needs, whether or not there are so many."""
    return _placed(request, [pool] * len(request.runs)).nodes


def is_within(request: PlacementRequest, pool: Pool) -> bool:
    """Whether the job needs no more nodes and GPUs of this pool than one may have."""
    placement = _placed(request, [pool] * len(request.runs))
    gpus = sum(group.nodes * group.gpus for group in placement.groups)
    return placement.nodes <= pool.nodes and (pool.max_gpus is None or gpus <= pool.max_gpus)


def title(pool: Pool) -> str:
    """Return the name of a pool for messages."""
    if pool.partition is None:
        return "the site"
    return f"partition {pool.partition}" + (f" ({pool.node_type} nodes)" if pool.node_type else "")


def counted(number: int, what: str) -> str:
    """Write a number of things: ``1 node``, ``2 nodes``."""
    return f"{number} {what}{'s' * (number != 1)}"


def _placed(request: PlacementRequest, choice: Sequence[Pool]) -> Placement:
    if request.counts.paths:
        choice = [replace(pool, packed=True) for pool in choice]
    placed = place(_replica_groups(request, choice), request.counts, spread=request.topology.spread)
    pairs = zip(request.runs, choice, strict=True)
    whole = {(pool.partition, pool.node_type): pool for run, pool in pairs if run.first.all_memory}
    groups = tuple(_with_all_memory(group, whole) for group in placed.groups)
    return replace(placed, groups=groups, rows=tuple(_with_equal_memory(row, groups) for row in placed.rows))


def _with_all_memory(group: Group, whole: Mapping[tuple[str | None, str | None], Pool]) -> Group:
    """Return a group with all memory of its nodes, if these pools have it, and jobs request memory there."""
    pool = whole.get((group.site_partition, group.node_type))
    if pool is None or not pool.request_memory:
        return group
    return replace(group, all_memory=True, memory=pool.shared_memory)


def _with_equal_memory(row: Row, groups: Sequence[Group]) -> Row:
    """Return a row whose tasks have equal parts of all memory of their nodes, if their group has that."""
    group = next(group for group in reversed(groups) if group.node <= row.node)
    if not group.all_memory:
        return row
    return replace(row, memory=group.memory and group.memory // group.tasks_per_node)


def _replica_groups(request: PlacementRequest, choice: Sequence[Pool]) -> list[ReplicaGroup]:
    return [
        ReplicaGroup(run.first.role, run.first.index, run.count, need, pool, _origin(request, run.first))
        for run, need, pool in zip(request.runs, _needs(request, choice), choice, strict=True)
    ]


def _needs(request: PlacementRequest, choice: Sequence[Pool]) -> list[Need]:
    """Return what each needs of a node; if one, or the site, requests memory, all others get a share."""
    needs = [need_of(run.first, request.site, pool) for run, pool in zip(request.runs, choice, strict=True)]
    shared = any(pool.request_memory == "share" for pool in choice)
    if shared or any(need.memory is not None for need in needs):
        return [with_memory(need, pool) for need, pool in zip(needs, choice, strict=True)]
    return needs


def _origin(request: PlacementRequest, replica: Replica) -> Origin:
    return request.where(replica.path) if replica.path else Origin("site", request.site.name, "replica")


def _node_refusals(request: PlacementRequest, choice: Sequence[Pool]) -> Iterator[Refusal]:
    for run, pool in zip(request.runs, choice, strict=True):
        for shortfall in pool.shortfalls(need_of(run.first, request.site, pool)):
            yield Refusal(_lacking(request.site, pool, shortfall, run), pool, shortfall, run)
        if pool.max_per_gpu and pool.max_per_gpu.over == "refused":
            found = over_share(run.first, pool.max_per_gpu, title(pool))
            yield from (Refusal(problem, pool) for problem in found)
        yield from map(Refusal, _sharing_problems(run.first))


def _lacking(site: Site, pool: Pool, shortfall: Shortfall, run: Block) -> Problem:
    if shortfall.size is None:
        message = f"site {site.name} does not say how many {shortfall.what} its nodes have"
        return Problem(message, run.first.path, f"add `{shortfall.what.lower()}:` to a copy of its file")
    return Problem(f"{title(pool)} has {shortfall} by {run.first.name}", run.first.path)


def _sharing_problems(replica: Replica) -> Iterator[Problem]:
    more, fewer = max(replica.gpus, replica.tasks), min(replica.gpus, replica.tasks)
    if fewer and more % fewer:
        yield Problem(
            f"{replica.gpus} GPUs cannot be shared evenly by the {replica.tasks} processes of {replica.name}",
            replica.path,
            "make one a multiple of the other",
        )


def _time_refusals(request: PlacementRequest, choice: Sequence[Pool], nodes: int = 0) -> Iterator[Refusal]:
    """Yield walltimes that are too long: for any job or, once nodes are counted, for one of that size."""
    for pool in dict.fromkeys(choice):
        partition = request.site.partitions.get(pool.partition or "")
        limit = partition and (partition.walltime_of(nodes) if nodes else partition.longest)
        if request.walltime and limit and request.walltime > limit and not request.is_lifted(pool):
            size = f" to a job of {counted(nodes, 'node')}" if nodes else ""
            message = f"{title(pool)} allows {limit}{size}, {request.walltime} requested"
            problem = Problem(message, ("batch", "walltime"))
            yield Refusal(problem, pool, nodes=nodes, walltime=request.walltime)


def _count_refusals(
    request: PlacementRequest, placement: Placement, choice: Sequence[Pool]
) -> Iterator[Refusal]:
    """Yield why there cannot be as many nodes, or replicas on each, as the file says."""
    nodes, per_node = request.counts
    if per_node:
        yield from dict.fromkeys(_per_node_refusals(placement, choice, per_node))
    elif nodes and placement.nodes > nodes:
        kinds = " and ".join(dict.fromkeys(map(title, choice)))
        message = f"{kinds}: these replicas need at least {placement.nodes} nodes, {nodes} requested"
        yield Refusal(Problem(message, NODES), choice[0], nodes=placement.nodes)


def _per_node_refusals(placement: Placement, choice: Sequence[Pool], per_node: int) -> Iterator[Refusal]:
    for group, shape in ((group, shape) for group in placement.groups for shape in placement.shapes()):
        if not group.node <= shape.node < group.node + group.nodes:
            continue
        kind = (group.site_partition, group.node_type)
        pool = next(pool for pool in choice if (pool.partition, pool.node_type) == kind)
        replicas = sum(row.tasks_per_node // row.tasks_per_replica for row in shape.rows)
        if replicas != per_node:
            message = f"a node of {title(pool)} has {replicas}, since the others are on nodes of another kind"
            hint = f"write `batch: {{nodes: {placement.nodes}}}` in its place"
            yield Refusal(Problem(message, PER_NODE, hint), pool)
            return
        for lacking in pool.shortfalls(Need(shape.tasks, shape.cpus, shape.gpus, shape.memory)):
            yield Refusal(Problem(f"{title(pool)} has {lacking} by {per_node} replicas", PER_NODE), pool)


def _size_refusals(
    request: PlacementRequest, placement: Placement, choice: Sequence[Pool]
) -> Iterator[Refusal]:
    path = next(iter(request.counts.paths), REPLICAS)
    for pool in dict.fromkeys(choice):
        groups = [
            group
            for group in placement.groups
            if (group.site_partition, group.node_type) == (pool.partition, pool.node_type)
        ]
        nodes = sum(group.nodes for group in groups)
        if request.is_lifted(pool):
            continue
        if nodes > pool.nodes:
            each = counted(max(group.tasks_per_node for group in groups), "task")
            message = f"{title(pool)} gives a job {counted(pool.nodes, 'node')}, {nodes} are needed"
            yield Refusal(Problem(f"{message} ({each} a node)", path), pool, nodes=nodes)
        elif nodes < pool.min_nodes:
            message = f"{title(pool)} requires at least {pool.min_nodes} nodes, this job needs {nodes}"
            yield Refusal(Problem(message, path), pool, nodes=nodes)
        elif (gpus := sum(group.nodes * group.gpus for group in groups)) < pool.min_gpus or (
            pool.max_gpus is not None and gpus > pool.max_gpus
        ):
            yield _gpu_refusal(pool, gpus, nodes, path)
        else:
            yield from _time_refusals(request, [pool], nodes)


def _gpu_refusal(pool: Pool, gpus: int, nodes: int, path: Path) -> Refusal:
    few = gpus < pool.min_gpus
    limit = (
        f"requires at least {counted(pool.min_gpus, 'GPU')}" if few else f"gives a job {pool.max_gpus} GPUs"
    )
    return Refusal(Problem(f"{title(pool)} {limit}, {gpus} requested", path), pool, nodes=nodes)


# --- Alternatives: for a job that does not fit a site, the partitions or sizes that would

_KEYS: Final = {"worker": "n_workers", "ps": "n_ps"}
_SIZES: Final[dict[str, Callable[[Pool], int | None]]] = {
    "GPUs": lambda pool: pool.gpus,
    "CPUs": lambda pool: pool.cpus,
    "MiB of memory": lambda pool: pool.memory,
}


class _WalltimeSpan(NamedTuple):
    """The walltime limit for jobs of ``least`` to ``most`` nodes; None: no such limit, or none known."""

    partition: str
    least: int
    most: int | None
    walltime: Walltime | None

    def __str__(self) -> str:
        if self.most is None:
            return self.partition + (f" (from {self.least} nodes on)" if self.least > 1 else "")
        if self.least == 1:
            return f"{self.partition} (up to {counted(self.most, 'node')})"
        span = str(self.most) if self.most == self.least else f"{self.least}-{self.most}"
        return f"{self.partition} ({span} nodes)"


def with_suggestions(
    request: PlacementRequest, refusals: Sequence[Refusal], *, apart: bool = False
) -> Iterator[Problem]:
    """Yield the problem of each refusal, with a hint: a partition that takes the job, else the nearest fit.

    ``apart``: the file's ``ps_on`` puts parameter servers on other nodes than the workers.
    """
    whole = [pool for pool in _candidates(request) if not refusals_in(request, pool)]
    sized = [pool for pool in whole if pool.nodes != UNLIMITED]
    for refusal in refusals:
        problem = refusal.problem
        if problem.hint or not request.site.partitions:
            yield problem
        elif whole and (sized or not refusal.too_large):
            takes = _taking(_names(sized if refusal.too_large else whole))
            yield problem._replace(hint=f"without `ps_on` {takes}" if apart else takes)
        elif whole:
            yield problem._replace(hint=_size_unknown(whole[0]))
        else:
            yield problem._replace(hint=_nearest(request, refusal))


def _candidates(request: PlacementRequest) -> list[Pool]:
    """Return the pools that the account pays for; for a job without GPUs those without, if there are some."""
    every = pools(request.site)
    found = [pool for pool in every if _is_paid(request, pool)] or [*every]
    if any(run.first.gpus for run in request.runs):
        return found
    return [pool for pool in found if not pool.gpus] or found


def _is_paid(request: PlacementRequest, pool: Pool) -> bool:
    """Whether the site would take this account for a job on such nodes."""
    job = JobFacts(
        nodes=1,
        gpus=any(run.first.gpus for run in request.runs),
        node_types=(pool.node_type,) if pool.node_type else (),
        partitions=(pool.partition,) if pool.partition else (),
    )
    rules = request.site.account.broken_rules(request.account, job) if request.account else ()
    return not any(rule.refuse for rule in rules)


def _nearest(request: PlacementRequest, refusal: Refusal) -> str:
    free = request._replace(counts=ANY_NODES)
    for pool in _candidates(request) if request.counts.paths else ():
        if not refusals_in(free, pool):
            return _without(request.counts, nodes_on(free, pool), pool)
    request = free
    if refusal.shortfall and refusal.run:
        return _node_hint(request, refusal.shortfall, refusal.run)
    if refusal.walltime:
        return _time_hint(request, refusal.walltime, refusal.nodes)
    return _size_hint(request, refusal.pool)


def _without(counts: NodeCounts, nodes: int, pool: Pool) -> str:
    """Return what to write where the pool takes the job on so many nodes, and not as the file has it."""
    fits = f"{counted(nodes, 'node')} of partition {pool.partition} {'holds' if nodes == 1 else 'hold'} them"
    if counts.per_node:
        return f"without {'`nodes` and ' * bool(counts.nodes)}`per_node` {fits}"
    return f"write `batch: {{nodes: {nodes}}}` or `--set batch.nodes={nodes}`: {fits}"


def _names(found: Iterable[Pool]) -> list[str]:
    return list(dict.fromkeys(pool.partition for pool in found if pool.partition))


def _taking(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"partition {names[0]} takes it"
    return f"partitions {', '.join(names[:-1])} and {names[-1]} take it"


def _size_unknown(pool: Pool) -> str:
    unknown = f"how many nodes partition {pool.partition} gives a job is not known"
    return f"{unknown}; to try it, write `batch: {{partition: {pool.partition}}}`"


def _node_hint(request: PlacementRequest, shortfall: Shortfall, run: Block) -> str:
    """Name partitions with such nodes, even too few or for too short a time; else the largest node size."""
    found, site = _candidates(request), request.site
    having = [pool for pool in found if not [*pool.shortfalls(need_of(run.first, site, pool))]]
    if having:
        spans = (_WalltimeSpan(pool.partition or "", pool.min_nodes, _bound(pool), None) for pool in having)
        return f"such nodes: {', '.join(dict.fromkeys(map(str, spans)))}"
    size_of = _SIZES[shortfall.what]
    best = max(found, key=lambda pool: size_of(pool) or 0)
    return f"the most is {size_of(best)} {shortfall.what} a node, on {best.partition}"


def _bound(pool: Pool) -> int | None:
    return None if pool.nodes == UNLIMITED else pool.nodes


def _time_hint(request: PlacementRequest, walltime: Walltime, nodes: int) -> str:
    """Name the partitions and job sizes that allow this walltime, the same size first; else the longest."""
    partitions = request.site.partitions
    found = _candidates(request)
    names = _names(pool for pool in found if _suits(request, pool)) or _names(found)
    spans = [span for name in names for span in _spans(name, partitions[name])]
    enough = [span for span in spans if span.walltime is None or span.walltime >= walltime]
    if enough:
        enough.sort(key=lambda span: not span.least <= nodes <= (span.most or UNLIMITED))
        return f"long enough: {', '.join(map(str, enough))}"
    longest = max(spans, key=lambda span: span.walltime.seconds if span.walltime else 0, default=None)
    return f"the longest is {longest.walltime} on {longest}" if longest else ""


def _spans(name: str, partition: Partition) -> Iterator[_WalltimeSpan]:
    counts = [count for count in partition.nodes.values() if count is not None]
    all_nodes = sum(counts) if len(counts) == len(partition.nodes) else None
    most = min((size for size in (all_nodes, partition.max_nodes) if size is not None), default=None)
    least = partition.min_nodes
    for limit in partition.limits:
        end = min(limit.nodes, most or limit.nodes)
        if end >= least:
            yield _WalltimeSpan(name, least, end, limit.walltime)
        least = max(least, limit.nodes + 1)
    if most is None or least <= most:
        yield _WalltimeSpan(name, least, most, partition.max_walltime)


def _size_hint(request: PlacementRequest, asked: Pool | None) -> str:
    """Return the number of workers, or parameter servers, that fits and is nearest to the request."""
    scaled = [run for run in request.runs if run.first.role in _KEYS]
    if not scaled:
        return ""
    run = max(scaled, key=lambda run: run.count)
    found = [(count, pool) for pool in _candidates(request) if (count := _count(request, run, pool))]
    if not found:
        return ""
    count, pool = min(found, key=lambda item: (abs(item[0] - run.count), item[1] != asked))
    others = sum(other.count for other in scaled if other.first.role == run.first.role) - run.count
    which = "smallest" if count > run.count else "largest"
    return f"the {which} that fits: `{_KEYS[run.first.role]}: {others + count}` on {pool.partition}"


def _count(request: PlacementRequest, run: Block, pool: Pool) -> int:
    """Return the number of replicas of this run that the pool takes, nearest to the request; 0 for none."""
    if not _suits(request, pool):
        return 0
    most = run.count
    if nodes_on(request, pool) < pool.min_nodes:
        most = pool.min_nodes * pool.capacity(need_of(run.first, request.site, pool))
        count = 1 + _last(most, lambda n: nodes_on(_with(request, run, n), pool) < pool.min_nodes)
    else:
        count = _last(most, lambda n: is_within(_with(request, run, n), pool))
    return count if count and not refusals_in(_with(request, run, count), pool) else 0


def _suits(request: PlacementRequest, pool: Pool) -> bool:
    """Whether the pool's nodes are large enough for each replica."""
    return not any(
        True for run in request.runs for _ in pool.shortfalls(need_of(run.first, request.site, pool))
    )


def _with(request: PlacementRequest, run: Block, count: int) -> PlacementRequest:
    """Return the request with ``count`` replicas in this run."""
    return request._replace(
        runs=[replace(run, count=count) if item is run else item for item in request.runs]
    )


def _last(most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number from 1 to ``most`` for which ``holds`` is true, 0 for none, by bisection."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if holds(middle) else (least, middle - 1)
    return least
