"""Which rank or node of an attempt is slower than its peers: by its ranks' records, or its GPUs' use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hpcdist.nodes import gpus, peers, recorded, slow
from hpcdist.nodes.measures import Measure, measures
from hpcdist.nodes.peers import Comparison
from hpcdist.nodes.recorded import Rank
from hpcdist.nodes.slow import Slow
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.usage.samples import NodeUse

_TO_RECORD: Final = (
    "let each rank record the time of its own work, without what waits for others: "
    "log_metrics(step=..., compute_seconds=..., all_ranks=True)"
)
_NAMED: Final = 3
"""Of more nodes that are slow, the sentence has their number."""

_ALIKE: Final = 0.01
"""What ranks measure of their own work differs by more."""


class Slowness(NamedTuple):
    """What comparing the ranks, or the nodes, of an attempt came to.

    ``by``: what was compared, empty if nothing could be. ``slow``: the slowest first. ``at``: when the last
    of it was recorded. ``ranks``: how many recorded anything.
    """

    job: str
    attempt: int
    ranks: int
    at: float
    by: str
    slow: tuple[Slow, ...]
    text: str


def of_attempt(
    directory: RunDirectory, plan: StoredPlan, attempt: Numbered, uses: Iterable[NodeUse]
) -> Slowness | None:
    """Return what comparing the ranks of an attempt came to; None if it has but one."""
    ranks = recorded.read(directory, attempt)
    by, found, text = _by_ranks(_compared(ranks), ranks, plan) or ("", (), "")
    if not found:
        own = [use for use in uses if (use.job, "{}.{}".format(*use.attempt)) == (attempt.job, attempt.name)]
        by, found, text = _by_gpus(own, text) or (by, found, text)
    if not text and max(plan.tasks or 0, len(ranks)) <= 1:
        return None
    at = max((each.points[-1].at for each in ranks), default=0.0)
    return Slowness(attempt.job, attempt.number, len(ranks), at, by, found, text or _unknown(ranks))


def _compared(ranks: Sequence[Rank]) -> list[tuple[Measure, Comparison]]:
    """Return what can be compared; when steps were recorded only where nobody stands out by own work."""
    found: list[tuple[Measure, Comparison]] = []
    for one in measures(ranks):
        if not one.is_own and any(result.outliers for _, result in found):
            break
        if result := peers.compare(one.values):
            found.append((one, result))
    return found


Found = tuple[str, tuple[Slow, ...], str]
"""By what, who, and the sentence."""


def _by_ranks(
    compared: Sequence[tuple[Measure, Comparison]], ranks: Sequence[Rank], plan: StoredPlan
) -> Found | None:
    """Return who stands out by the measure by which it does most; else by which nobody does."""
    counts = [group.gpus for group in plan.groups]
    for measure, result in sorted(compared, key=_rank_of):
        if found := tuple(slow.found(measure, result, ranks, counts)):
            return measure.name, found, _sentence(found)
    own = [pair for pair in compared if pair[0].is_own]
    if not compared:
        return None
    measure, result = max(own or compared, key=lambda pair: pair[1].most)
    text = (
        f"no rank stands out: {measure.name} of {result.members} ranks over the last {result.steps} records"
    )
    text += f", the slowest {max(0.0, result.most):.0%} above the median"
    if not own or result.most < _ALIKE:
        text += f"; if the ranks wait for each other, {_TO_RECORD}"
    return measure.name, (), text


def _rank_of(pair: tuple[Measure, Comparison]) -> float:
    """Return what sorts measures of own work by how much anybody stands out, and the others behind them."""
    return -pair[1].largest if pair[0].is_own else 0.0


def _by_gpus(uses: Sequence[NodeUse], otherwise: str) -> Found | None:
    """Return the nodes whose GPUs stand out; that none does counts where nothing else was compared."""
    found, of_what = gpus.compare(uses) or ((), "")
    if not of_what or (otherwise and not found):
        return None
    return "GPU use", found, _sentence(found) or f"no node stands out by the use of its GPUs ({of_what})"


def _sentence(found: Sequence[Slow]) -> str:
    text = "; ".join(each.text for each in found[:_NAMED])
    return text + (f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else "")


def _unknown(ranks: Sequence[Rank]) -> str:
    if len(ranks) >= peers.FEWEST:
        known = f"the ranks recorded fewer than {peers.FEWEST_STEPS} steps"
    else:
        known = f"{len(ranks) or 'no'} rank{'s' * (len(ranks) != 1)} recorded metrics"
    return f"which rank is slow is unknown: {known}; {_TO_RECORD}"
