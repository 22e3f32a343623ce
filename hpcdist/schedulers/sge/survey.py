"""Describes a machine of Grid Engine: qhost and qconf. A slot is a CPU.

Sources: qhost(1), qconf(1), sge_pe(5), complex(5) and queue_conf(5) of Son of Grid Engine 8.1.9, tried on
Debian's 8.1.9. qhost shows only what is left of consumables, so GPUs in use are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpcdist.base.command import Command
from hpcdist.schedulers.surveyors import (
    SurveyAnswers,
    Surveyor,
    memory,
    partition_fact,
    walltime,
    walltime_fact,
)
from hpcdist.site.survey import Fact, Node, PartitionInfo, Survey, counts, kinds_of

HOSTS: Final = Command(("qhost", "-F", "-q"))
QUEUES: Final = Command(("qconf", "-sq", "*"))
COMPLEXES: Final = Command(("qconf", "-sc"))
ENVIRONMENTS: Final = Command(("qconf", "-spl"))

_RESOURCE: Final = re.compile(r"\s+h[lcf]:([^=]+)=(.*)")
_QUEUE: Final = re.compile(r"\s+(\S+)\s+(\w+)\s+\d+/\d+/(\d+)")
_GPUS: Final = ("gpu", "gpus", "ngpus")
_PER: Final = {"YES": "slot", "HOST": "host", "JOB": "job"}


class ExecutionHost(NamedTuple):
    """An execution host: its data from qhost, and its slots in each batch queue."""

    name: str
    resources: Mapping[str, str]
    queues: Mapping[str, int]


class SgeSurveyor(Surveyor):
    """Describes a Grid Engine cluster."""

    commands = (HOSTS, QUEUES, COMPLEXES, ENVIRONMENTS)

    def ask(self, user: str, answers: SurveyAnswers) -> Sequence[Command]:
        """Return the first commands; then one for each parallel environment."""
        return super().ask(user, answers) or [
            *answers.unasked(*map(_environment, answers.text(ENVIRONMENTS).split()))
        ]

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey."""
        del user
        complexes = dict(_complexes(answers.text(COMPLEXES)))
        gpu = next((name for name in _GPUS if name in complexes), None)
        hosts = [host for host in _hosts(answers.text(HOSTS)) if host.queues]
        kinds = kinds_of(_node(host, gpu) for host in hosts)
        queues = [_fields(text) for text in re.split(r"\n\s*\n", answers.text(QUEUES)) if text.strip()]
        parts = []
        for queue in queues:
            name = queue.get("qname", "")
            nodes = counts(kinds, [host.name for host in hosts if name in host.queues])
            parts.append(PartitionInfo(name, nodes, max_walltime=walltime(queue.get("h_rt", ""))))
        known = tuple(part for part in parts if part.nodes)
        return Survey(
            scheduler="sge",
            title="Grid Engine",
            kinds=kinds,
            partitions=known,
            facts=tuple(_facts(answers, complexes, gpu, known)),
            sources=(str(HOSTS), str(QUEUES)),
            failures=answers.failures,
        )


def _environment(name: str) -> Command:
    return Command(("qconf", "-sp", name))


def _hosts(text: str) -> Iterator[ExecutionHost]:
    name, resources, queues = "", dict[str, str](), dict[str, int]()
    for line in [*text.splitlines()[2:], "end"]:
        if not line.startswith(" "):
            if name not in ("", "global"):
                yield ExecutionHost(name, resources, queues)
            name, resources, queues = line.split()[0] if line.split() else "", {}, {}
        elif found := _RESOURCE.fullmatch(line):
            resources[found[1]] = found[2]
        elif (found := _QUEUE.match(line)) and "B" in found[2]:
            queues[found[1]] = int(found[3])


def _node(host: ExecutionHost, gpu: str | None) -> Node:
    left = host.resources.get(gpu or "", "0")
    return Node(
        name=host.name,
        cpus=max(host.queues.values()) or None,
        memory=memory(host.resources.get("mem_total", "")),
        gpus=int(float(left)) if re.fullmatch(r"[\d.]+", left) else None,
    )


def _complexes(text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the resources with the columns of qconf -sc."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 8 and not line.startswith("#"):  # noqa: PLR2004 - the columns of complex(5)
            yield words[0], {"type": words[2], "relop": words[3], "consumable": words[5]}


def _fields(text: str) -> dict[str, str]:
    lines = text.replace("\\\n", " ").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) > 1}


def _facts(
    answers: SurveyAnswers,
    complexes: Mapping[str, Mapping[str, str]],
    gpu: str | None,
    parts: Sequence[PartitionInfo],
) -> Iterator[Fact]:
    yield Fact("launcher", "mpirun")
    only = parts[0].name if len(parts) == 1 else None
    remark = ("Grid Engine has no default queue",) if len(parts) > 1 else ()
    yield partition_fact(only, [part.name for part in parts], QUEUES, remark)
    yield Fact(
        "request_memory", value=False, remarks=("no resource that counts memory is known: see sge.memory",)
    )
    yield walltime_fact()
    names = answers.text(ENVIRONMENTS).split()
    rules = {name: _fields(answers.text(_environment(name))).get("allocation_rule", "") for name in names}
    shown = ", ".join(f"{name} {rule}" for name, rule in rules.items())
    remarks = [f"parallel environments: {shown or 'none'}", f"resources by `{COMPLEXES}`"]
    if gpu:
        left = f"qhost shows how much of {gpu} is left"
        remarks.append(f"{left}: correct `gpus` of node_types where some were in use")
    dialect = {**_of_environments(rules), **_of_complexes(complexes, gpu)}
    yield Fact("sge", dialect, "qconf -sp NAME", tuple(remarks))


def _of_environments(rules: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for parallel environments: of several with one rule, the first."""
    first = {rule: name for name, rule in reversed([*rules.items()])}
    numbers = sorted((int(rule), name) for rule, name in first.items() if rule.isdigit())
    keys = {"whole_nodes": "$fill_up", "one_node": "$pe_slots"}
    return {
        "environments": {str(number): name for number, name in numbers},
        **{key: first[rule] for key, rule in keys.items() if rule in first},
    }


def _of_complexes(complexes: Mapping[str, Mapping[str, str]], gpu: str | None) -> dict[str, Any]:
    """Return the settings that name the resources: GPUs, and nodes for one job alone."""
    per = _PER.get(complexes[gpu]["consumable"]) if gpu else None
    found: dict[str, Any] = {"gpus": gpu if per else None}
    if gpu and per:
        found |= {"gpus_per": per, "gpu_fractions": complexes[gpu]["type"] == "DOUBLE"}
    exclusive = next((name for name, row in complexes.items() if row["relop"] == "EXCL"), None)
    return found | ({"exclusive": exclusive} if exclusive else {})


SURVEYOR: Final = SgeSurveyor()
