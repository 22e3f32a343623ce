"""What PBS Pro and OpenPBS say of their machine, as JSON: pbsnodes and qstat.

Sources: pbsnodes(8B), qstat(1B), pbs_node_attributes(7B) and pbs_queue_attributes(7B) of OpenPBS 23.06; the
shape of the answers is that which other programs' readers of them show. Not tried on a real one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from hpcdist.command import Command
from hpcdist.schedulers.surveyors import Answers
from hpcdist.survey import Fact, Node, NodeKind, Part, Survey, counts, kinds_of
from hpcdist.units import Memory, Walltime

NODES: Final = Command(("pbsnodes", "-a", "-F", "json"))
QUEUES: Final = Command(("qstat", "-Q", "-f", "-F", "json"))
SERVER: Final = Command(("qstat", "-B", "-f", "-F", "json"))

Fields = Mapping[str, Any]

_CLOCK: Final = re.compile(r"(\d+):([0-5]\d):([0-5]\d)")


class PbsSurveyor:
    """Looks around on a PBS."""

    def ask(self, user: str, answers: Answers) -> Sequence[Command]:
        """Return the three commands."""
        del user
        return [*answers.unasked(NODES, QUEUES, SERVER)]

    def read(self, user: str, answers: Answers) -> Survey:
        """Return what PBS says."""
        del user
        hosts = _hosts(_section(answers.text(NODES), "nodes"))
        queues = _section(answers.text(QUEUES), "Queue")
        server = next(iter(_section(answers.text(SERVER), "Server").values()), {})
        kinds = kinds_of(map(_node, hosts))
        parts = [_part(name, queue, hosts, kinds) for name, queue in queues.items() if _takes_jobs(queue)]
        return Survey(
            scheduler="pbs",
            title=f"PBS {server.get('pbs_version', '')}".strip(),
            kinds=kinds,
            parts=tuple(part for part in parts if part.nodes),
            facts=tuple(_facts(hosts, server, [part.name for part in parts if part.nodes])),
            told=(str(NODES), str(QUEUES)),
            unseen=answers.unseen,
        )


def _section(text: str, name: str) -> dict[str, Fields]:
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


def _takes_jobs(queue: Fields) -> bool:
    return queue.get("queue_type") == "Execution" and str(queue.get("enabled")) == "True"


def _part(name: str, queue: Fields, hosts: Sequence[Sequence[Fields]], kinds: Sequence[NodeKind]) -> Part:
    limits = queue.get("resources_max")
    limits = limits if isinstance(limits, dict) else {}
    members = [_name(host) for host in hosts if _serves(host, name, queue)]
    most = str(limits.get("nodect", ""))
    remarks = [] if str(queue.get("started")) == "True" else ["started = False: its jobs wait"]
    remarks += [
        f"{key} = True" for key in ("acl_user_enable", "acl_group_enable") if str(queue.get(key)) == "True"
    ]
    return Part(
        name=name,
        nodes=counts(kinds, members),
        max_nodes=int(most) if most.isdigit() and int(most) < len(members) else None,
        max_walltime=_walltime(str(limits.get("walltime", ""))),
        remarks=tuple(remarks),
    )


def _serves(host: Sequence[Fields], name: str, queue: Fields) -> bool:
    """Whether jobs of a queue may go there.

    A vnode with a queue of its own takes that one's only, and such a queue (``hasnodes``) no others;
    beside that, the queue's default chunk may name resources that a vnode must have.
    """
    own = name if str(queue.get("hasnodes")) == "True" else ""
    chunk = queue.get("default_chunk")
    asked = {key: str(value) for key, value in chunk.items()} if isinstance(chunk, dict) else {}
    labels = {key: value for key, value in asked.items() if not re.fullmatch(r"[\d:]+\w{0,2}", value)}
    return any(
        str(vnode.get("queue", "")) == own
        and all(value in str(_resources(vnode).get(key, "")).split(",") for key, value in labels.items())
        for vnode in host
    )


def _walltime(text: str) -> Walltime | None:
    """Return a walltime; PBS writes more than a day as hours."""
    match = _CLOCK.fullmatch(text)
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else 0
    return Walltime(seconds) if seconds else None


def _facts(hosts: Sequence[Sequence[Fields]], server: Fields, names: Sequence[str]) -> Iterator[Fact]:
    yield Fact(
        "launcher", "mpirun", remarks=("pals where mpiexec is that of HPE's PALS (`mpiexec --version`)",)
    )
    default = server.get("default_queue")
    known = default if default in names else None
    remarks = (f"default_queue = {default}",) if default and not known else ()
    yield Fact("default_partition", known, str(SERVER), remarks, names[0] if names else "NAME")
    sharing = sorted({str(vnode.get("sharing", "")) for host in hosts for vnode in host})
    exclusive = bool(sharing) and all(word.startswith(("default_excl", "force_excl")) for word in sharing)
    told = (f"sharing = {', '.join(sharing)}",) if sharing else ()
    yield Fact("whole_nodes", exclusive if sharing else None, str(NODES), told, "true")
    yield Fact("walltime", remarks=("what experiments get that say none",), example="01:00:00")
    typed = any("gpu_type" in _resources(vnode) for host in hosts for vnode in host)
    if typed:
        yield Fact("pbs", {"gpu_type": "gpu_type"}, str(NODES), ("a resource of vnodes",))
    else:
        remark = (
            "how jobs are asked for; `account: -P` or `-W group_list` where `-A` does not take the project"
        )
        yield Fact("pbs", remarks=(remark,), example="{account: -A}")


SURVEYOR: Final = PbsSurveyor()
