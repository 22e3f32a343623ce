"""Conditions: the jobs for which a value of a site file applies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

from hpcdist.documents.fields import Model

When = Literal["always", "single_node", "multi_node"]
Library = Literal["nccl", "rccl", "oneccl"]

NO_FRAMEWORK: Final = "none"
"""The name that conditions have for jobs without a framework."""


class Condition(Model, frozen=True, kw_only=True):
    """When something applies: all conditions must hold.

    ``when``: the job's number of nodes. ``min_nodes`` and ``max_nodes``: the fewest and most. ``library``:
    the job requests GPUs of that collectives library (NVIDIA: nccl, AMD: rccl, Intel: oneccl).
    ``container``: only inside a container, or only outside. ``frameworks``: the job's framework is one of
    these; ``none``: it has none. ``not_frameworks``: it is none of these. ``node_types``: all of the job's
    nodes are of these types. ``partitions``: all are in these.
    """

    when: When = "always"
    min_nodes: int | None = None
    max_nodes: int | None = None
    library: Library | None = None
    container: bool | None = None
    frameworks: tuple[str, ...] = ()
    not_frameworks: tuple[str, ...] = ()
    node_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions as words, for messages."""
        inside = (
            None if self.container is None else "in a container" if self.container else "outside containers"
        )
        when = None if self.when == "always" else self.when
        least = f"from {self.min_nodes} nodes on" if self.min_nodes else None
        most = f"up to {self.max_nodes} nodes" if self.max_nodes else None
        lists = (
            f"{what} {'/'.join(names)}"
            for what, names in (
                ("framework", self.frameworks),
                ("framework not", self.not_frameworks),
                ("nodes", self.node_types),
                ("partition", self.partitions),
            )
            if names
        )
        return tuple(word for word in (when, least, most, self.library, inside, *lists) if word)


class ConditionalText(Condition, frozen=True, kw_only=True):
    """A line, or an item of a list, that only some jobs have.

    ``value``: the text.
    """

    value: str


class JobFacts(Model, frozen=True):
    """The facts of a job that conditions check.

    ``library`` is that of its nodes' GPUs: None if unknown, or if there are several. ``gpus``: it requests
    some. ``node_types``: those that its nodes may have. ``partitions``: the site's names of theirs.
    """

    nodes: int
    library: Library | None = None
    container: bool = False
    gpus: bool = True
    framework: str | None = None
    node_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def satisfies(self, condition: Condition) -> bool:
        """Whether all conditions hold that can be checked before the job runs."""
        several = self.nodes > 1
        return (
            condition.when in ("always", "multi_node" if several else "single_node")
            and (condition.min_nodes or 1) <= self.nodes <= (condition.max_nodes or self.nodes)
            and condition.library in (None, self.library if self.gpus else None)
            and condition.container in (None, self.container)
            and self._has_framework(condition)
            and _are_all_in(self.node_types, condition.node_types)
            and _are_all_in(self.partitions, condition.partitions)
        )

    def _has_framework(self, condition: Condition) -> bool:
        own = self.framework or NO_FRAMEWORK
        return (not condition.frameworks or own in condition.frameworks) and (
            own not in condition.not_frameworks
        )


def _are_all_in(own: Collection[str], allowed: Collection[str]) -> bool:
    return not allowed or (bool(own) and set(own) <= set(allowed))


def applying(texts: Iterable[str | ConditionalText], job: JobFacts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts that a job has, each with its condition in words."""
    for item in texts:
        if isinstance(item, str):
            yield item, ()
        elif job.satisfies(item):
            yield item.value, (", ".join(item.words),) * bool(item.words)


def text_of(item: str | ConditionalText) -> str:
    """Return the text of an item, with or without conditions."""
    return item if isinstance(item, str) else item.value
