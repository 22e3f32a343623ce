"""Nodes that were lost, or on which tasks failed first, and those of the next attempt."""

from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from .events import Event

_POINTS = {"lost": 2, "blamed": 1}
_ENOUGH = 2
_SECONDS = 14 * 86400
_MOST = 8


def suspects(events: Iterable[Event], now: float) -> List[str]:
    """Return the nodes that a run's own events make suspect, the most suspect first, and eight at most.

    As in `hpcdist.checks.nodes`, one loss does so, or two failures, in the last 14 days.
    """
    found: Dict[str, int] = {}
    for event in events:
        if event.what in _POINTS and event.at >= now - _SECONDS:
            found[event.value] = found.get(event.value, 0) + _POINTS[event.what]
    bad = sorted((-points, node) for node, points in found.items() if points >= _ENOUGH)
    return [node for _, node in bad[:_MOST]]


def blamed(
    why: str, down: Iterable[str], unreached: Iterable[str], host: str, *, several: bool
) -> List[Tuple[str, str]]:
    """Return the events, each with its node, that record against which nodes the end of an attempt speaks.

    After a ``node_failure`` those that are down, or that ssh does not reach; else, of several, the host of
    the first task to fail, empty where that is not known.
    """
    if why == "node_failure":
        return [("lost", node) for node in sorted({*down, *map(short, unreached)})]
    return [("blamed", short(host))] if why == "failure" and several and host else []


def has_suspect(nodes: Iterable[str], suspect: Sequence[str]) -> bool:
    """Return whether one of these nodes is suspect."""
    return any(short(node) in suspect for node in nodes)


def choose(
    nodes: Iterable[str], count: int, alive: Iterable[str], suspect: Sequence[str]
) -> Optional[Tuple[List[str], List[str]]]:
    """Return so many nodes of a job for its next attempt, and the spare ones; None if too few are alive.

    ``nodes``: all of the job's, those of this attempt first. Suspect ones are taken last.
    """
    known = set(alive)
    left = [node for node in nodes if node in known]
    left.sort(key=lambda node: short(node) in suspect)  # which keeps their order
    return (left[:count], left[count:]) if len(left) >= count else None


def short(node: str) -> str:
    """Return a host's name without its domain."""
    return node.partition(".")[0]
