"""A node that is slower than its peers, or some ranks of it: the sentence with the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.nodes.measures import Measure
from hpcdist.nodes.peers import Comparison, Outlier
from hpcdist.nodes.recorded import Rank

_LATE: Final = 0.05
"""Seconds: clocks that are kept by NTP differ by some milliseconds."""

_LISTED: Final = 8


class Slow(NamedTuple):
    """A node that is slower than its peers, or some ranks of it; ``gpu`` is that of its only slow rank.

    ``excess``: by how much, 0.5 for half as much time again. ``is_certain``: neither a clock nor other work
    of rank 0 explains it.
    """

    host: str
    ranks: tuple[int, ...]
    gpu: int | None
    excess: float
    is_certain: bool
    text: str


def found(
    measure: Measure, comparison: Comparison, ranks: Sequence[Rank], gpus: Sequence[int]
) -> Iterator[Slow]:
    """Yield the slow nodes, and the slow ranks of nodes that are not slow as a whole, the slowest first.

    ``gpus``: how many the nodes of the plan have.
    """
    hosts = {each.rank: each.host for each in ranks if each.rank in measure.values}
    for host in dict.fromkeys(hosts[each.member] for each in comparison.outliers):
        own = [rank for rank, place in hosts.items() if place == host]
        outliers = [each for each in comparison.outliers if hosts[each.member] == host]
        if not measure.unit or outliers[0].excess * measure.unit >= _LATE:
            yield _slow(measure, host, own, outliers, gpus)


def _slow(
    measure: Measure, host: str, own: Sequence[int], outliers: Sequence[Outlier], gpus: Sequence[int]
) -> Slow:
    slow, worst = tuple(sorted(each.member for each in outliers)), outliers[0]
    has_gpus = len(slow) == 1 < len(own) and set(gpus) == {len(own)}
    gpu = own.index(slow[0]) if has_gpus else None
    may_be_clock = bool(measure.unit) and len(slow) == len(own)
    text = f"{_who(host, slow, own, gpu)} {_how(measure, worst)}{_since(measure, worst)}"
    if may_be_clock:
        text += f", unless the clock of {host} is ahead by so much"
    if slow == (0,):
        text += "; rank 0 often has more to do than the others"
    return Slow(host, slow, gpu, worst.excess, not may_be_clock and slow != (0,), text)


def _who(host: str, slow: Sequence[int], own: Sequence[int], gpu: int | None) -> str:
    if len(slow) == 1:
        return f"rank {slow[0]} on {host}" + (f" (GPU {gpu} of the node)" if gpu is not None else "")
    listed = ", ".join(map(str, slow[:_LISTED])) + (", ..." if len(slow) > _LISTED else "")
    return f"{host} ({'all its ranks' if len(slow) == len(own) else 'ranks'}: {listed})"


def _how(measure: Measure, worst: Outlier) -> str:
    others, count = len(measure.values) - 1, len(measure.steps) - worst.since
    if measure.unit:
        late = f"{worst.excess * measure.unit:.3g} s later than the median of {others + 1} ranks"
        return f"records each step {late} ({worst.excess:.0%} of a step), so that the others wait for it"
    figures = f"{measure.name} is {measure.shown(worst.value)}, that of the other {others} ranks"
    figures += f" {measure.shown(worst.peers)} (medians of the last {count} records)"
    return f"is slower than its peers by {worst.excess:.0%}: {figures}"


def _since(measure: Measure, worst: Outlier) -> str:
    step = measure.steps[worst.since]
    return f", since step {step:g}" if worst.since and step is not None else ""
