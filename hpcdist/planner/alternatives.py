"""Alternatives: for a job that does not fit a site, the partitions or sizes that would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.base.errors import Problem
from hpcdist.base.units import Walltime
from hpcdist.experiment.replicas import ANY_NODES, Block, NodeCounts
from hpcdist.planner.feasibility import PlacementRequest, Refusal, counted, is_within, nodes_on, refusals_in
from hpcdist.planner.pools import UNLIMITED, Pool, Shortfall, need_of, pools
from hpcdist.site.fabric import JobFacts
from hpcdist.site.nodes import Partition

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
    """Return the pools that the account pays for; for a job without GPUs, those without, if any."""
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
    """Return what to write where the pool takes the job on ``nodes`` nodes, but not on the file's."""
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
