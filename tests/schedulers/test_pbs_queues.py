"""Which queues are partitions of a site, and why the others are not."""

from __future__ import annotations

from typing import Any

from hpcdist.base.units import Walltime
from hpcdist.schedulers.pbs.survey import parts_of
from hpcdist.site.survey import Node, PartitionInfo, SkippedPartition, kinds_of

OPEN = {"queue_type": "Execution", "enabled": "True", "started": "True"}
ROUTE = {**OPEN, "queue_type": "Route"}


def vnode(**resources: object) -> dict[str, Any]:
    return {"resources_available": resources}


def look(
    queues: dict[str, dict[str, Any]], **hosts: dict[str, Any]
) -> tuple[tuple[PartitionInfo, ...], tuple[SkippedPartition, ...]]:
    kinds = kinds_of(Node(name, cpus=8) for name in hosts)
    return parts_of(queues, {name: [host] for name, host in hosts.items()}, kinds, "hu1")


def test_a_boolean_that_a_vnode_does_not_set_is_false() -> None:
    """As on Polaris, whose queues ask for build=False, demand=False, ss11=False, system=polaris."""
    chunk = {"build": "False", "demand": "False", "ss11": "False", "system": "polaris"}
    queues = {
        "prod": {**OPEN, "default_chunk": chunk},
        "demand": {**OPEN, "default_chunk": {"demand": "True"}},
    }
    hosts = {"n1": vnode(system="polaris"), "n2": vnode(system="polaris", demand="True")}
    assert look(queues, **hosts) == (
        (PartitionInfo("prod", {"cpu": 1}), PartitionInfo("demand", {"cpu": 1})),
        (),
    )


def test_a_queue_without_nodes_is_not_left_out_in_silence() -> None:
    queues: dict[str, dict[str, Any]] = {
        "new": {**OPEN, "default_chunk": {"system": "sophia", "ncpus": 8}},
        "own": {**OPEN, "hasnodes": "True"},
    }
    assert look(queues, n1=vnode(system="polaris")) == (
        (),
        (
            SkippedPartition("new", "no node is for it, or has its default_chunk: system=sophia"),
            SkippedPartition("own", "no node is for it"),
        ),
    )


def test_a_routing_queue_has_the_nodes_and_the_widest_limits_of_where_it_leads() -> None:
    limits: dict[str, Any] = {"nodect": 1, "walltime": "00:30:00"}
    queues: dict[str, dict[str, Any]] = {
        "short": {**OPEN, "from_route_only": "True", "resources_max": limits},
        "long": {**OPEN, "from_route_only": "True", "resources_max": {"nodect": 2, "walltime": "48:00:00"}},
        "stopped": {**OPEN, "started": "False"},
        "inner": {**ROUTE, "from_route_only": "True", "route_destinations": "long@head,outer"},
        "outer": {
            **ROUTE,
            "route_destinations": "short,inner,stopped",
            "resources_max": {"walltime": "24:00:00"},
        },
    }
    hosts = {name: vnode() for name in ("n1", "n2", "n3")}
    assert look(queues, **hosts) == (
        (
            PartitionInfo(
                "outer", {"cpu": 3}, max_nodes=2, max_walltime=Walltime(24 * 3600),
                remarks=("routes to short, inner, stopped",),
            ),
        ),
        (
            SkippedPartition("short", "from_route_only = True: jobs get there by outer"),
            SkippedPartition("long", "from_route_only = True: jobs get there by inner"),
            SkippedPartition("stopped", "started = False: its jobs wait"),
            SkippedPartition("inner", "from_route_only = True: jobs get there by outer"),
        ),
    )  # fmt: skip


def test_a_routing_queue_that_leads_nowhere() -> None:
    queues = {
        "a": {**ROUTE, "route_destinations": "b"},
        "b": {**ROUTE, "route_destinations": "a"},
        "c": ROUTE,
    }
    assert look(queues, n1=vnode()) == (
        (),
        (
            SkippedPartition("a", "it leads to no queue that takes jobs: b"),
            SkippedPartition("b", "it leads to no queue that takes jobs: a"),
            SkippedPartition("c", "it leads to no queue that takes jobs: none is named"),
        ),
    )


def test_queues_that_are_closed_to_this_user() -> None:
    def acl(users: str) -> dict[str, Any]:
        return {**OPEN, "acl_user_enable": "True", "acl_users": users}

    queues = {
        "theirs": acl("hu2@head"),
        "mine": acl("hu2@head,+hu1@*"),
        "banned": acl("hu1@head,-hu1@bad"),
        "off": {**OPEN, "enabled": "False"},
    }
    remarks = ("acl_user_enable = True",)
    assert look(queues, n1=vnode()) == (
        (PartitionInfo("mine", {"cpu": 1}, remarks=remarks),),
        (
            SkippedPartition("theirs", "acl_users = hu2@head: not open to hu1"),
            SkippedPartition("banned", "acl_users = hu1@head,-hu1@bad: not open to hu1"),
            SkippedPartition("off", "enabled = False: it takes no jobs"),
        ),
    )
