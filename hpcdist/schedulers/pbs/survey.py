"""Describes a machine of PBS Pro and OpenPBS, as JSON: pbsnodes and qstat.

Sources: pbsnodes(8B), qstat(1B) and pbs_node_attributes(7B) of OpenPBS 23.06, and its recorded answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from hpcdist.base.command import Command
from hpcdist.base.units import Walltime
from hpcdist.schedulers.surveyors import (
    SurveyAnswers,
    Surveyor,
    json_object,
    memory,
    partition_fact,
    walltime_fact,
)
from hpcdist.site.survey import (
    Fact,
    Node,
    NodeKind,
    PartitionInfo,
    SkippedPartition,
    Survey,
    counts,
    kinds_of,
)

# --- Queues as partitions: which take jobs of a user, which nodes serve them, and why others are left out
#
# Sources: pbs_queue_attributes(7B) of OpenPBS 23.06, and its recorded answers; that a Boolean which a vnode
# does not set is False: the PBS Professional Administrator's Guide, "Matching Unset Resources to Job
# Requests".

_CLOCK: Final = re.compile(r"(\d+):([0-5]\d):([0-5]\d)")
_AMOUNT: Final = re.compile(r"[\d:]+\w{0,2}")


def parts_of(
    queues: Mapping[str, Fields], hosts: Mapping[str, Sequence[Fields]], kinds: Sequence[NodeKind], user: str
) -> tuple[tuple[PartitionInfo, ...], tuple[SkippedPartition, ...]]:
    """Return the queues that take jobs of this user, and the others with the reason.

    ``hosts``: the vnodes of each. A routing queue has the nodes of all queues to which it leads.
    """
    found, skipped = [], []
    for name, queue in queues.items():
        why = _closed(queue, user) or _by_route(name, queue, queues)
        ends = [] if why else _ends(name, queues, user)
        members = {host: None for end in ends for host in _members(end, queues[end], hosts)}
        if why or not members:
            skipped.append(SkippedPartition(name, why or _unserved(queue, ends)))
        else:
            found.append(_part(name, queue, [queues[end] for end in ends], counts(kinds, members)))
    return tuple(found), tuple(skipped)


def _is(queue: Fields, key: str) -> bool:
    return str(queue.get(key)) == "True"


def _closed(queue: Fields, user: str) -> str:
    """Return why a queue takes or runs no jobs of this user, empty where it does."""
    for key, what in (("enabled", "it takes no jobs"), ("started", "its jobs wait")):
        if not _is(queue, key):
            return f"{key} = {queue.get(key, 'False')}: {what}"
    users = str(queue.get("acl_users", ""))
    if _is(queue, "acl_user_enable") and users and not _lists(users, user):
        return f"acl_users = {users}: not open to {user}"
    return ""


def _lists(users: str, user: str) -> bool:
    """Whether a list such as ``+me@*,-you@host`` lets this user in."""
    signs = [item.startswith("-") for item in users.split(",") if item.lstrip("+-").partition("@")[0] == user]
    return bool(signs) and not any(signs)


def _by_route(name: str, queue: Fields, queues: Mapping[str, Fields]) -> str:
    if not _is(queue, "from_route_only"):
        return ""
    routes = [route for route, fields in queues.items() if name in _destinations(fields)]
    return f"from_route_only = True: jobs get there by {' or '.join(routes) or 'a routing queue'}"


def _destinations(queue: Fields) -> list[str]:
    names = str(queue.get("route_destinations", "")).split(",")
    return [name.strip().partition("@")[0] for name in names if name.strip()]


def _ends(
    name: str, queues: Mapping[str, Fields], user: str, seen: frozenset[str] = frozenset()
) -> list[str]:
    """Return the execution queues that this queue leads to; an execution queue leads to itself."""
    queue = queues.get(name, {})
    if name in seen or _closed(queue, user):
        return []
    if queue.get("queue_type") != "Route":
        return [name]
    ends = (_ends(end, queues, user, seen | {name}) for end in _destinations(queue))
    return list(dict.fromkeys(end for some in ends for end in some))


def _members(name: str, queue: Fields, hosts: Mapping[str, Sequence[Fields]]) -> Iterator[str]:
    """Yield the hosts to which jobs of a queue may go.

    A vnode that names a queue takes only jobs of that queue, which (``hasnodes``) uses no other vnodes; the
    queue's default chunk may also name resources that a vnode must have.
    """
    own = name if _is(queue, "hasnodes") else ""
    labels = _labels(queue)
    for host, vnodes in hosts.items():
        if any(str(vnode.get("queue", "")) == own and _has(vnode, labels) for vnode in vnodes):
            yield host


def _labels(queue: Fields) -> dict[str, str]:
    """Return the default chunk resources of a queue, without amounts."""
    chunk = queue.get("default_chunk")
    asked = {key: str(value) for key, value in chunk.items()} if isinstance(chunk, dict) else {}
    return {key: value for key, value in asked.items() if not _AMOUNT.fullmatch(value)}


def _has(vnode: Fields, labels: Mapping[str, str]) -> bool:
    """Whether a vnode has these resources; a Boolean that it does not set is False."""
    own = vnode.get("resources_available")
    own = own if isinstance(own, dict) else {}
    return all(
        value in str(own.get(key, "False" if value == "False" else "")).split(",")
        for key, value in labels.items()
    )


def _unserved(queue: Fields, ends: Sequence[str]) -> str:
    if queue.get("queue_type") == "Route" and not ends:
        return f"it leads to no queue that takes jobs: {', '.join(_destinations(queue)) or 'none is named'}"
    labels = ", ".join(f"{key}={value}" for key, value in _labels(queue).items())
    return f"no node is for it{f', or has its default_chunk: {labels}' if labels else ''}"


def _part(name: str, queue: Fields, ends: Sequence[Fields], nodes: Mapping[str, int]) -> PartitionInfo:
    most, total = _least(_nodes(queue), _most(map(_nodes, ends))), sum(nodes.values())
    seconds = _least(_seconds(queue), _most(map(_seconds, ends)))
    routes = queue.get("queue_type") == "Route"
    remarks = [f"routes to {', '.join(_destinations(queue))}"] if routes else []
    remarks += [f"{key} = True" for key in ("acl_user_enable", "acl_group_enable") if _is(queue, key)]
    return PartitionInfo(
        name=name,
        nodes=nodes,
        max_nodes=most if most and most < total else None,
        max_walltime=Walltime(seconds) if seconds else None,
        remarks=tuple(remarks),
    )


def _limit(queue: Fields, name: str) -> str:
    limits = queue.get("resources_max")
    return str(limits.get(name, "")) if isinstance(limits, dict) else ""


def _nodes(queue: Fields) -> int | None:
    text = _limit(queue, "nodect")
    return int(text) if text.isascii() and text.isdigit() else None


def _seconds(queue: Fields) -> int | None:
    """Return a queue's longest walltime; PBS writes more than a day as hours."""
    match = _CLOCK.fullmatch(_limit(queue, "walltime"))
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


def _most(limits: Iterable[int | None]) -> int | None:
    """Return the largest limit; None if one is None."""
    known = list(limits)
    return None if None in known else max(filter(None, known), default=None)


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


NODES: Final = Command(("pbsnodes", "-a", "-F", "json"))
QUEUES: Final = Command(("qstat", "-Q", "-f", "-F", "json"))
SERVER: Final = Command(("qstat", "-B", "-f", "-F", "json"))

Fields = Mapping[str, Any]


class PbsSurveyor(Surveyor):
    """Describes a PBS cluster."""

    commands = (NODES, QUEUES, SERVER)

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey."""
        hosts = _hosts(section(answers.text(NODES), "nodes"))
        server = next(iter(section(answers.text(SERVER), "Server").values()), {})
        kinds = kinds_of(map(_node, hosts))
        vnodes = {_name(host): host for host in hosts}
        attributes = section(answers.text(QUEUES), "Queue")
        parts, skipped = parts_of(attributes, vnodes, kinds, user)
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
    found = json_object(text).get(name)
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, dict)}


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
    amounts = [_memory(_resources(vnode).get("mem")) for vnode in host]
    types = {str(_resources(vnode)["gpu_type"]) for vnode in host if "gpu_type" in _resources(vnode)}
    return Node(
        name=_name(host),
        cpus=_sum(host, "ncpus") or None,
        memory=sum(filter(None, amounts)) or None,
        gpus=_sum(host, "ngpus"),
        gpu_type=types.pop() if len(types) == 1 else None,
    )


def _name(host: Sequence[Fields]) -> str:
    return str(_resources(host[0]).get("host") or host[0]["name"])


def _sum(host: Sequence[Fields], name: str) -> int:
    found = [str(_resources(vnode).get(name, "")) for vnode in host]
    return sum(int(text) for text in found if text.isascii() and text.isdigit())


def _memory(value: object) -> int | None:
    """Return MiB, rounded down, so that no job requests more than a node has."""
    match = re.fullmatch(r"(\d+)kb", str(value))
    return int(match[1]) // 1024 if match else memory(value)


def _facts(
    hosts: Sequence[Sequence[Fields]], server: Fields, offered: Mapping[str, Fields]
) -> Iterator[Fact]:
    yield Fact(
        "launcher", "mpirun", remarks=("pals where mpiexec comes from HPE's PALS (`mpiexec --version`)",)
    )
    default = server.get("default_queue")
    remarks = (f"default_queue = {default}",) if default and default not in offered else ()
    yield partition_fact(default, [*offered], SERVER, remarks)
    sharing = _sharing(hosts)
    shown = (f"sharing = {', '.join(sharing)}",) if sharing else ()
    yield Fact("whole_nodes", _is_exclusive(sharing) if sharing else None, str(NODES), shown, "true")
    yield Fact("request_memory", value="share")
    yield walltime_fact(dict(_defaults(server, offered)))
    typed = any("gpu_type" in _resources(vnode) for host in hosts for vnode in host)
    if typed:
        yield Fact("pbs", {"gpu_type": "gpu_type"}, str(NODES), ("a resource of vnodes",))
    else:
        remark = (
            "how jobs are asked for; `account: -P` or `-W group_list` where `-A` does not take the project"
        )
        yield Fact("pbs", remarks=(remark,), example="{account: -A}")


def _defaults(server: Fields, offered: Mapping[str, Fields]) -> Iterator[tuple[str, object]]:
    """Yield the time limit of each queue for jobs that set none."""
    for name, queue in offered.items():
        own = [fields.get("resources_default") for fields in (queue, server)]
        found = [
            defaults["walltime"] for defaults in own if isinstance(defaults, dict) and "walltime" in defaults
        ]
        if found:
            yield name, found[0]


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
