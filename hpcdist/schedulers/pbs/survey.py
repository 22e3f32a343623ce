"""Describes a machine of PBS Pro and OpenPBS, as JSON: pbsnodes and qstat.

Sources: pbsnodes(8B), qstat(1B) and pbs_node_attributes(7B) of OpenPBS 23.06, and its recorded answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from hpcdist.host.command import Command
from hpcdist.schedulers.pbs import queues
from hpcdist.schedulers.surveyors import Answers
from hpcdist.site.survey import Fact, Node, Survey, kinds_of
from hpcdist.units import Memory

NODES: Final = Command(("pbsnodes", "-a", "-F", "json"))
QUEUES: Final = Command(("qstat", "-Q", "-f", "-F", "json"))
SERVER: Final = Command(("qstat", "-B", "-f", "-F", "json"))

Fields = Mapping[str, Any]


class PbsSurveyor:
    """Describes a PBS cluster."""

    def ask(self, user: str, answers: Answers) -> Sequence[Command]:
        """Return the three commands."""
        del user
        return [*answers.unasked(NODES, QUEUES, SERVER)]

    def read(self, user: str, answers: Answers) -> Survey:
        """Return the survey."""
        hosts = _hosts(section(answers.text(NODES), "nodes"))
        server = next(iter(section(answers.text(SERVER), "Server").values()), {})
        kinds = kinds_of(map(_node, hosts))
        vnodes = {_name(host): host for host in hosts}
        attributes = section(answers.text(QUEUES), "Queue")
        parts, skipped = queues.parts(attributes, vnodes, kinds, user)
        return Survey(
            scheduler="pbs",
            title=f"PBS {server.get('pbs_version', '')}".strip(),
            kinds=kinds,
            partitions=parts,
            facts=tuple(_facts(hosts, server, {part.name: attributes[part.name] for part in parts})),
            sources=(str(NODES), str(QUEUES)),
            failures=answers.failures,
            skipped=skipped,
            warnings=tuple(_warnings(hosts)),
            memory="job_memory",
        )


def section(text: str, name: str) -> dict[str, Fields]:
    """Return the nodes, the queues or the server of an answer; nothing of junk."""
    try:
        found = json.loads(text).get(name, {})
    except (ValueError, AttributeError):
        return {}
    return (
        {key: value for key, value in found.items() if isinstance(value, dict)}
        if isinstance(found, dict)
        else {}
    )


def _hosts(vnodes: Mapping[str, Fields]) -> list[list[Fields]]:
    """Return the vnodes of each host."""

    def host(vnode: Fields) -> str:
        return str(_resources(vnode).get("host", ""))

    named = [{"name": name, **vnode} for name, vnode in vnodes.items()]
    return [[*group] for _, group in groupby(sorted(named, key=host), key=host)]


def _resources(vnode: Fields) -> Fields:
    found = vnode.get("resources_available")
    return found if isinstance(found, dict) else {}


def _node(host: Sequence[Fields]) -> Node:
    memory = [_memory(_resources(vnode).get("mem")) for vnode in host]
    types = {str(_resources(vnode)["gpu_type"]) for vnode in host if "gpu_type" in _resources(vnode)}
    return Node(
        name=_name(host),
        cpus=_sum(host, "ncpus") or None,
        memory=sum(filter(None, memory)) or None,
        gpus=_sum(host, "ngpus"),
        gpu_type=types.pop() if len(types) == 1 else None,
    )


def _name(host: Sequence[Fields]) -> str:
    return str(_resources(host[0]).get("host") or host[0]["name"])


def _sum(host: Sequence[Fields], name: str) -> int:
    found = [str(_resources(vnode).get(name, "")) for vnode in host]
    return sum(int(text) for text in found if text.isascii() and text.isdigit())


def _memory(value: object) -> int | None:
    """Return MiB, rounded down: what a node does not have whole cannot be asked for."""
    match = re.fullmatch(r"(\d+)kb", str(value))
    try:
        return int(match[1]) // 1024 if match else Memory.parse(value).mib
    except ValueError:
        return None


def _facts(
    hosts: Sequence[Sequence[Fields]], server: Fields, offered: Mapping[str, Fields]
) -> Iterator[Fact]:
    yield Fact(
        "launcher", "mpirun", remarks=("pals where mpiexec is that of HPE's PALS (`mpiexec --version`)",)
    )
    default = server.get("default_queue")
    known = default if default in offered else None
    remarks = (f"default_queue = {default}",) if default and not known else ()
    yield Fact("default_partition", known, str(SERVER), remarks, next(iter(offered), "NAME"))
    sharing = _sharing(hosts)
    shown = (f"sharing = {', '.join(sharing)}",) if sharing else ()
    yield Fact("whole_nodes", _is_exclusive(sharing) if sharing else None, str(NODES), shown, "true")
    silent = ("what experiments get that say none", *_defaults(server, offered))
    yield Fact("request_memory", value="share")
    yield Fact("walltime", remarks=silent, example="01:00:00")
    typed = any("gpu_type" in _resources(vnode) for host in hosts for vnode in host)
    if typed:
        yield Fact("pbs", {"gpu_type": "gpu_type"}, str(NODES), ("a resource of vnodes",))
    else:
        remark = (
            "how jobs are asked for; `account: -P` or `-W group_list` where `-A` does not take the project"
        )
        yield Fact("pbs", remarks=(remark,), example="{account: -A}")


def _defaults(server: Fields, offered: Mapping[str, Fields]) -> Iterator[str]:
    """Yield how long the jobs of each queue may run that ask for no time."""
    for name, queue in offered.items():
        own = [fields.get("resources_default") for fields in (queue, server)]
        found = [
            defaults["walltime"] for defaults in own if isinstance(defaults, dict) and "walltime" in defaults
        ]
        if found:
            yield f"a job that asks for none gets {found[0]} in {name}"


def _sharing(hosts: Sequence[Sequence[Fields]]) -> list[str]:
    return sorted({str(vnode.get("sharing", "")) for host in hosts for vnode in host})


def _is_exclusive(sharing: Sequence[str]) -> bool:
    return bool(sharing) and all(word.startswith(("default_excl", "force_excl")) for word in sharing)


def _warnings(hosts: Sequence[Sequence[Fields]]) -> Iterator[str]:
    """Yield what cannot be seen and is dangerous: hooks are shown to managers only."""
    if any(_sum(host, "ngpus") for host in hosts) and not _is_exclusive(_sharing(hosts)):
        yield (
            "several jobs may share a node, and PBS itself gives each of them all of its GPUs: where a job "
            "has no CUDA_VISIBLE_DEVICES (there is no cgroups hook), write `whole_nodes: true`"
        )


SURVEYOR: Final = PbsSurveyor()
