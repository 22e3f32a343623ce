"""Findings from the bandwidths that a job measured: the network's, and which node or link is slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Final

import msgspec

from hpcdist import __version__
from hpcdist.doctor import pairing
from hpcdist.doctor.finding import Finding, Status
from hpcdist.doctor.pairing import Pair
from hpcdist.site.published import Measured

SLOW: Final = 0.75
"""Less than this share of what was measured before is a warning."""

_REPORT: Final = "report it to the centre with these numbers, and run without it until then"
_COMPARABLE: Final = 3
"""So many nodes show which of them is slow."""


class Measurement(msgspec.Struct, frozen=True):
    """What one launch of bandwidth.py wrote.

    ``kind``: mpi or torch; ``library``: mpi, nccl or gloo. ``nodes``: their names by number. ``pairs``,
    ``confirmed``: of the rounds, and of the last one for those that looked slow. ``wrong``: from and to which
    node data changed. ``ring``, ``all_reduce``: bandwidth on the bus in GB/s. ``variables``: the values that
    tasks have of those that are tried, None where it is not set. ``done``: it ended.
    """

    kind: str
    nodes: tuple[str, ...]
    library: str = ""
    versions: dict[str, str] = {}
    tasks: int = 0
    pairs: tuple[Pair, ...] = ()
    confirmed: tuple[Pair, ...] = ()
    wrong: tuple[tuple[int, int], ...] = ()
    rounds: int = 0
    planned: int = 0
    ring: float = 0.0
    is_ring_right: bool = True
    all_reduce: float = 0.0
    variables: dict[str, tuple[str | None, ...]] = {}
    error: str = ""
    done: bool = False

    @property
    def all_pairs(self) -> list[Pair]:
        """Return the pairs of all rounds."""
        return [*self.pairs, *self.confirmed]

    @property
    def usual(self) -> float:
        """What a node usually reaches with another one, in GB/s."""
        return pairing.usual(self.all_pairs)

    @property
    def latency(self) -> float:
        """The median of the pairs in microseconds; 0 without any."""
        return median(pair.latency for pair in self.pairs) if self.pairs else 0.0

    def slow(self) -> pairing.Slow:
        """Return what is slow, and was so when it was measured again."""
        return pairing.verdict([*self.pairs], [*self.confirmed])

    def shares(self) -> dict[int, str]:
        """Return how slow the slow nodes are, the slowest first."""
        best, usual = pairing.best(self.all_pairs), self.usual
        own = {node: best[node] for node in self.slow().nodes}
        return {
            node: f"{speed:.3g} GB/s at best, {speed / usual:.2g} of the {usual:.3g} that is usual here"
            for node, speed in own.items()
        }


def read(text: str) -> Measurement | None:
    """Return the measurement in this text, None if it is none."""
    try:
        found = msgspec.json.decode(text, type=Measurement)
    except msgspec.DecodeError:
        return None
    named = all(0 <= node < len(found.nodes) for pair in found.all_pairs for node in pair[:2])
    named &= all(0 <= node < len(found.nodes) for ends in found.wrong for node in ends)
    return found if named else None


def kept(one: Measurement, day: str) -> Measured | None:
    """Return what a site file keeps of a measurement of this day; None if it did not end, or is wrong.

    A slow node or link slows down what all tasks do together, which is left out then.
    """
    if one.error or not one.done or one.wrong or not one.is_ring_right or not one.usual:
        return None
    slow = one.slow()
    is_well = not slow.nodes and not slow.links
    return Measured(
        library=one.library,
        date=day,
        nodes=len(one.nodes),
        pair=_rounded(one.usual),
        ring=_rounded(one.ring) if is_well else None,
        all_reduce=_rounded(one.all_reduce) if is_well else None,
        latency=_rounded(one.latency),
        versions={"hpcdist": __version__, **one.versions},
    )


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def findings(found: Iterable[Measurement], before: Iterable[Measured]) -> Iterator[Finding]:
    """Yield the findings of these measurements; ``before``: those of the site file."""
    found = [*found]
    if not found:
        detail = "the job's Python has neither mpi4py nor PyTorch on all tasks, so it was not measured"
        yield Finding("bandwidth", "bandwidth", "note", detail, "install mpi4py, built with the site's MPI")
    known = {one.library: one for one in before}
    for one in found:
        yield from _findings(one, known.get(one.library))


def _findings(one: Measurement, before: Measured | None) -> Iterator[Finding]:
    group = f"bandwidth: {one.library or one.kind}"
    if one.error:
        hint = "try a launcher that has it: `--set batch.launcher=mpirun`" if one.kind == "mpi" else ""
        yield Finding(group, "bandwidth", "unknown", " ".join(one.error.split())[:300], hint)
        return
    if one.wrong or not one.is_ring_right:
        links = ", ".join(f"{one.nodes[start]} to {one.nodes[end]}" for start, end in one.wrong) or "the ring"
        hint = "do not train here before this is fixed: report it to the centre, with the names of the nodes"
        yield Finding(group, "data", "error", f"what arrived is not what was sent: {links}", hint)
    if one.pairs:
        slow = one.slow()
        yield from _nodes(group, one, slow)
        yield from _verdict(group, one, slow)
    if before and one.usual:
        yield _compared(group, one.usual, before)
    if one.done and one.tasks > 1:
        detail = f"on the bus {one.ring:.3g} GB/s around a ring of {one.tasks} tasks, all at once; "
        yield Finding(group, "ring", "ok", f"{detail}all-reduce {one.all_reduce:.3g} GB/s")
    if not one.done:
        detail = f"it did not end; {one.rounds} of {one.planned} rounds were measured"
        yield Finding(group, "bandwidth", "unknown", detail, "the network may be very slow, or hang")


def _nodes(group: str, one: Measurement, slow: pairing.Slow) -> Iterator[Finding]:
    """Yield each node, the slowest first."""
    speeds: dict[int, list[float]] = {}
    for pair in one.all_pairs:
        for node in pair[:2]:
            speeds.setdefault(node, []).append(pair.bandwidth)
    for node in sorted(speeds, key=lambda node: max(speeds[node])):
        best, middle = max(speeds[node]), median(speeds[node])
        detail = f"best {best:.3g} GB/s, median {middle:.3g} of {len(speeds[node])}"
        numbers = (("best", best), ("median", middle))
        status: Status = "note" if node in slow.nodes else "ok"
        yield Finding(group, one.nodes[node], status, detail, numbers=numbers)


def _verdict(group: str, one: Measurement, slow: pairing.Slow) -> Iterator[Finding]:
    best, usual = pairing.best(one.all_pairs), one.usual
    for node, share in one.shares().items():
        partners = [one.nodes[pair.left + pair.right - node] for pair in one.all_pairs if node in pair[:2]]
        detail = f"{one.nodes[node]} is slow: {share}, with {', '.join(dict.fromkeys(partners))}"
        yield Finding(group, "slow node", "warning", detail, _REPORT)
    for left, right in slow.links:
        speed = max(pair.bandwidth for pair in one.all_pairs if pair[:2] == (left, right))
        names = f"{one.nodes[left]} and {one.nodes[right]}"
        others = f"with other nodes they reach {best[left]:.3g} and {best[right]:.3g}"
        detail = f"the link between {names} is slow: {speed:.3g} GB/s; {others}"
        yield Finding(group, "slow link", "warning", detail, _REPORT)
    latency = f"{one.latency:.3g} µs"
    if len(best) < _COMPARABLE:
        detail = f"{usual:.3g} GB/s each way, {latency}; whether one of two nodes is slow, a third would show"
        yield Finding(group, "nodes", "ok", detail)
    elif not slow.nodes and not slow.links:
        detail = f"none of {len(best)} is slow in {one.rounds} rounds: {usual:.3g} GB/s each way, {latency}; "
        detail += f"one below {pairing.visible(one.all_pairs):.2g} of that would show"
        yield Finding(group, "nodes", "ok", detail)


def _compared(group: str, usual: float, before: Measured) -> Finding:
    share = usual / before.pair
    detail = f"{usual:.3g} GB/s, {share:.0%} of the {before.pair:.3g} measured on {before.date}"
    if share >= SLOW:
        return Finding(group, "measured", "ok", detail)
    hint = "compare versions and variables with `measured` of the site file, and try again at another time"
    return Finding(group, "measured", "warning", detail, hint)
