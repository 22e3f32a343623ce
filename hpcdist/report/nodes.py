"""The placement of a run as a map: a card a node, with the tasks on it and their GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

from hpcdist.plan import folding
from hpcdist.plan.folding import Gap, counted
from hpcdist.plan.placement import Placement, Task

_ALIKE: Final = 12
"""Of more nodes that look alike, the first and the last are drawn."""

_MOST: Final = 60
_ON_A_NODE: Final = 64


class Chip(NamedTuple):
    """A task; ``role`` is the number of its role in the run. ``more``: so many tasks like these instead."""

    rank: int = -1
    name: str = ""
    role: int = 0
    cpus: int = 0
    gpus: tuple[int, ...] = ()
    failed: bool = False
    more: int = 0


class Card(NamedTuple):
    """A node, with its name where that is known; ``more``: so many nodes like these instead."""

    node: int = -1
    host: str = ""
    chips: tuple[Chip, ...] = ()
    more: int = 0


class Map(NamedTuple):
    """The drawn nodes, the roles by their numbers, and how many nodes there are and how many left out."""

    cards: Sequence[Card]
    roles: Sequence[tuple[str, str]]
    groups: Sequence[str]
    left_out: int = 0


def drawn(placement: Placement, hosts: Sequence[str], failed: int | None, most: int) -> Map:
    """Return the map with at most so many tasks, or one node; ``failed`` is the rank that failed first."""
    roles = [*dict.fromkeys(row.role for row in placement.rows)]
    cards = [*map(_bounded, islice(_cards(placement, hosts, failed, roles), _MOST))]
    tasks = [*accumulate(len(card.chips) for card in cards)]
    cards = [card for card, count in zip(cards, tasks, strict=True) if count <= max(most, tasks[0])]
    left_out = placement.nodes - sum(card.more or 1 for card in cards)
    counts = [(role, str(placement.replicas(role))) for role in roles]
    return Map(cards, counts, [*_groups(placement)], left_out)


def _bounded(card: Card) -> Card:
    """Return the card with at most so many chips; the last counts the tasks that are not shown."""
    if len(card.chips) <= _ON_A_NODE:
        return card
    rest = sum(chip.more or 1 for chip in card.chips[_ON_A_NODE - 1 :])
    return card._replace(chips=(*card.chips[: _ON_A_NODE - 1], Chip(more=rest)))


def _groups(placement: Placement) -> Iterator[str]:
    for group in placement.groups:
        nodes = counted("node", group.node, group.nodes)
        yield f"{nodes}: {folding.kind_of(group) or 'of any kind'}"


def _cards(
    placement: Placement, hosts: Sequence[str], failed: int | None, roles: Sequence[str]
) -> Iterator[Card]:
    card = Card()
    for item in folding.shown(placement, _ALIKE):
        if isinstance(item, Gap) and item.what != "nodes":
            card = card._replace(chips=(*card.chips, Chip(more=item.count)))
            continue
        node = item.node if isinstance(item, Task) else -1
        if node != card.node or isinstance(item, Gap):
            yield from [card] if card.chips else []
            host = hosts[node] if 0 <= node < len(hosts) else ""
            card = Card(node, host)
        if isinstance(item, Gap):
            yield Card(more=item.count)
            continue
        card = card._replace(chips=(*card.chips, _chip(item, failed, roles)))
    yield from [card] if card.chips else []


def _chip(task: Task, failed: int | None, roles: Sequence[str]) -> Chip:
    name = task.role if task.role == "master" else f"{task.role} {task.index}"
    return Chip(task.rank, name, roles.index(task.role), len(task.cpus), task.gpus, task.rank == failed)
