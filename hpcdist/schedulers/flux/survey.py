"""Describes a machine of Flux: the resource set R and the configuration, both JSON. A CPU is a core here.

Sources: flux-resource(1), RFC 20 (R), flux-config-queues(5) and flux-config-policy(5) of flux-core 0.88;
tried on one without Fluxion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hpcdist.base.command import Command
from hpcdist.base.units import Walltime
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.surveyors import SurveyAnswers, Surveyor, json_object, partition_fact
from hpcdist.site.survey import Fact, Node, PartitionInfo, Survey, counts, kinds_of

RESOURCES: Final = Command(("flux", "resource", "R"))
CONFIG: Final = Command(("flux", "config", "get"))
VERSION: Final = Command(("flux", "version"))

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class FluxSurveyor(Surveyor):
    """Describes a Flux cluster."""

    commands = (RESOURCES, CONFIG, VERSION)

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey."""
        del user
        config = json_object(answers.text(CONFIG))
        nodes = [*_nodes(json_object(answers.text(RESOURCES)))]
        kinds = kinds_of(node._replace(features=()) for node in nodes)
        parts = [
            _part(name, queue, config, {node.name for node in nodes if _serves(node, queue, config)}, kinds)
            for name, queue in _below(config, "queues").items()
        ]
        return Survey(
            scheduler="flux",
            title=_title(answers.text(VERSION)),
            kinds=kinds,
            partitions=tuple(part for part in parts if part.nodes),
            facts=tuple(_facts(config, [part.name for part in parts if part.nodes])),
            sources=(str(RESOURCES), str(CONFIG)),
            failures=answers.failures,
        )


def _below(found: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    node: Any = found
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _title(text: str) -> str:
    versions = [line.split()[-1] for line in text.splitlines() if line.startswith("libflux-core:")]
    return f"Flux {versions[0]}" if versions else "Flux"


def _nodes(resources: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the nodes, in the order of their ranks."""
    execution = _below(resources, "execution")
    hosts = [host for text in execution.get("nodelist", []) for host in hostlist.expand(str(text))]
    properties = {name: set(_ids(text)) for name, text in _below(execution, "properties").items()}
    ranks = [(rank, entry) for entry in execution.get("R_lite", []) for rank in _ids(entry.get("rank", ""))]
    for host, (rank, entry) in zip(hosts, sorted(ranks, key=lambda item: item[0]), strict=False):
        children = _below(entry, "children")
        yield Node(
            name=host,
            cpus=len(_ids(children.get("core", ""))) or None,
            gpus=len(_ids(children.get("gpu", ""))),
            features=tuple(name for name, members in properties.items() if rank in members),
        )


def _ids(text: object) -> list[int]:
    """Return the numbers of an idset such as ``0-3,7`` (RFC 22)."""
    try:
        ends = [part.split("-") for part in str(text).strip("[]").split(",") if part]
        return [number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]
    except ValueError:
        return []


def _serves(node: Node, queue: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a node has what the queue, or the parent of a virtual one, requires."""
    parent = _below(config, "queues", str(queue.get("parent", "")))
    return set((parent or queue).get("requires", [])) <= set(node.features)


def _part(
    name: str, queue: Mapping[str, Any], config: Mapping[str, Any], members: set[str], kinds: Any
) -> PartitionInfo:
    limits = _below(config, "policy", "limits") | _below(queue, "policy", "limits")
    most = _below(limits, "job-size", "max").get("nnodes")
    return PartitionInfo(
        name=name,
        nodes=counts(kinds, members),
        max_nodes=most if isinstance(most, int) and 0 <= most < len(members) else None,
        max_walltime=_walltime(limits.get("duration")),
    )


def _walltime(duration: object) -> Walltime | None:
    """Return a Flux standard duration (RFC 23): seconds, or a number with s, m, h or d."""
    text = str(duration)
    unit = _SECONDS.get(text[-1:])
    try:
        seconds = float(text[:-1] if unit else text) * (unit or 1)
        return Walltime(int(seconds)) if seconds >= 1 else None
    except (ValueError, OverflowError):
        return None


def _facts(config: Mapping[str, Any], names: Sequence[str]) -> Iterator[Fact]:
    yield Fact("launcher", "flux")
    default = _below(config, "policy", "jobspec", "defaults", "system").get("queue")
    yield partition_fact(default, names, CONFIG)
    policies = {_below(config, name).get("match-policy", "") for name in ("sched-fluxion-resource",)} - {""}
    remarks = tuple(f"match-policy = {policy}" for policy in policies)
    exclusive = True if any("nodex" in str(policy) for policy in policies) else None
    yield Fact("whole_nodes", exclusive, str(CONFIG), remarks, "true")
    yield Fact("request_memory", value=False, remarks=("flux batch cannot request memory",))
    yield Fact(
        "walltime",
        remarks=("what experiments get that say none", *_defaults(config, names)),
        example="01:00:00",
    )
    yield Fact("gpus", {"request": "gpus_per_node"}, remarks=("Flux counts GPUs and knows no types of them",))


def _defaults(config: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield the time limit of each queue for jobs that set none."""
    own = _duration(config)
    for name in names:
        if default := _duration(_below(config, "queues", name)) or own:
            yield f"a job that asks for none gets {default} in {name}"
    if own and not names:
        yield f"a job that asks for none gets {own}"


def _duration(section: Mapping[str, Any]) -> Walltime | None:
    return _walltime(_below(section, "policy", "jobspec", "defaults", "system").get("duration"))


SURVEYOR: Final = FluxSurveyor()
