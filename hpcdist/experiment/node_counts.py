"""How many nodes the file asks for, and how many replicas on each: ``batch.nodes``, ``replicas.per_node``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.errors import Path, Problem
from hpcdist.experiment.amounts import MOST
from hpcdist.experiment.launch.line import user_launch
from hpcdist.experiment.model import Experiment, Replicas
from hpcdist.experiment.replica import blocks

NODES: Final[Path] = ("batch", "nodes")
PER_NODE: Final[Path] = ("environment", "replicas", "per_node")


class NodeCounts(NamedTuple):
    """The number of nodes, and of replicas on each; None where the file leaves it to the site's nodes."""

    nodes: int | None = None
    per_node: int | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> NodeCounts:
        """Return what the file says."""
        return cls(experiment.batch.nodes, (experiment.environment.replicas or Replicas()).per_node)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The keys that the file has."""
        return tuple(path for path, count in zip((NODES, PER_NODE), self, strict=True) if count is not None)


ANY_NODES: Final = NodeCounts()
"""What a file says that leaves it to the site's nodes."""


def problems(experiment: Experiment) -> Iterator[Problem]:
    """Yield the contradictions between the number of nodes and the replicas, which need no site."""
    counts, section = NodeCounts.of(experiment), experiment.environment.replicas or Replicas()
    if not counts.paths or not all(0 <= number <= MOST for number in (section.n_workers, section.n_ps)):
        return
    wrong = [*_range_problems(counts)]
    total = sum(block.count for block in blocks(experiment, per_gpu=False))
    yield from (
        wrong or _contradiction(experiment, counts, total) or _spread_problems(experiment, counts, total)
    )


def _range_problems(counts: NodeCounts) -> Iterator[Problem]:
    for path, count in zip((NODES, PER_NODE), counts, strict=True):
        if count is not None and not 1 <= count <= MOST:
            yield Problem(f"{count} is out of range", path, f"write a number from 1 to {MOST}")


def _contradiction(experiment: Experiment, counts: NodeCounts, total: int) -> list[Problem]:
    """Return a problem where so many replicas cannot be on these nodes."""
    nodes, per_node = counts
    there_are = f"there {'are' if total > 1 else 'is'} {total}: {_listed(experiment)}"
    others = total - (experiment.environment.replicas or Replicas()).n_workers

    def written(*more: str, totals: tuple[int, ...]) -> str:
        framework = "a `framework` and " * (experiment.framework is None)
        workers = [f"{framework}`n_workers: {count - others}`" for count in totals if count >= max(1, others)]
        return f"write {' or '.join((*workers, *more))}" if workers or more else ""

    if nodes and per_node and nodes * per_node != total:
        message = f"`nodes: {nodes}` times `per_node: {per_node}` is {nodes * per_node}, and {there_are}"
        own = [f"`nodes: {total // per_node}`"] if total % per_node == 0 else []
        return [Problem(message, NODES, written(*own, totals=(nodes * per_node,)))]
    if per_node and not nodes and total % per_node:
        below = total - total % per_node
        uneven = [f"`batch: {{nodes: {below // per_node + 1}}}` in its place"] if below else []
        message = f"replicas cannot be {per_node} on each node: {there_are}"
        return [Problem(message, PER_NODE, written(*uneven, totals=(below, below + per_node)))]
    if nodes and nodes > total:
        message = f"{nodes} nodes need a replica each, and {there_are}"
        return [Problem(message, NODES, written(totals=(nodes,)))]
    return []


def _listed(experiment: Experiment) -> str:
    """Return the replicas in words: ``the master and 3 workers``."""
    names = {"worker": "worker", "ps": "parameter server"}
    found: dict[str, int] = {}
    for block in blocks(experiment, per_gpu=False):
        found[block.first.role] = found.get(block.first.role, 0) + block.count
    words = [
        f"{count} {names[role]}{'s' * (count > 1)}" if role in names else f"the {role}"
        for role, count in found.items()
    ]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _spread_problems(experiment: Experiment, counts: NodeCounts, total: int) -> Iterator[Problem]:
    """Yield a problem where the command starts the processes of a node, and so each replica needs its own."""
    env = {name: str(value) for name, value in experiment.environment.env_vars.items()}
    launch = user_launch(experiment.run.command, env)
    alone = counts.nodes in (None, total) and counts.per_node in (None, 1)
    if launch and launch.runs == "per_node" and not alone:
        message = f"{launch.program} starts the processes of a node itself: each replica has one of its own"
        yield Problem(message, counts.paths[0], "remove it")
