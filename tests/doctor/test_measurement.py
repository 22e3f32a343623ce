"""Findings from measured bandwidths, and from settings that were tried side by side."""

from __future__ import annotations

import msgspec
import pytest

from hpcdist.doctor import candidates, measurement
from hpcdist.doctor.finding import Finding
from hpcdist.doctor.measurement import Measurement
from hpcdist.doctor.pairing import Pair
from hpcdist.errors import ConfigError
from hpcdist.site.published import Measured

NODES = ("n1", "n2", "n3", "n4")
REPORT = "report it to the centre with these numbers, and run without it until then"
LINKS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))


def measured(slow: float = 10.0, links: tuple[tuple[int, int], ...] = (), **changes: object) -> Measurement:
    """Return what four nodes measured, of which these links are slow."""
    pairs = tuple(Pair(*link, slow if link in links else 10.0, 2.0) for link in LINKS)
    whole = Measurement(
        "mpi", NODES, "mpi", {}, 4, pairs, rounds=3, planned=3, ring=8.0, all_reduce=9.0, done=True
    )
    return msgspec.structs.replace(whole, **changes)


def nodes(*rows: tuple[str, str, float, float, int]) -> list[Finding]:
    return [
        Finding(
            "bandwidth: mpi",
            name,
            "note" if kind == "slow" else "ok",
            f"best {best:g} GB/s, median {middle:g} of {count}",
            numbers=(("best", best), ("median", middle)),
        )
        for name, kind, best, middle, count in rows
    ]


RING = Finding(
    "bandwidth: mpi",
    "ring",
    "ok",
    "on the bus 8 GB/s around a ring of 4 tasks, all at once; all-reduce 9 GB/s",
)


def test_nodes_that_are_well_beside_what_was_measured_before() -> None:
    before = [Measured(library="mpi", date="2026-11-01", nodes=4, pair=20.0)]
    hint = "compare versions and variables with `measured` of the site file, and try again at another time"
    assert [*measurement.findings([measured()], before)] == [
        *nodes(*((name, "", 10.0, 10.0, 3) for name in NODES)),
        Finding(
            "bandwidth: mpi",
            "nodes",
            "ok",
            "none of 4 is slow in 3 rounds: 10 GB/s each way, 2 µs; one below 0.25 of that would show",
        ),
        Finding(
            "bandwidth: mpi", "measured", "warning", "10 GB/s, 50% of the 20 measured on 2026-11-01", hint
        ),
        RING,
    ]
    faster = [
        msgspec.structs.replace(before[0], pair=10.5),
        msgspec.structs.replace(before[0], library="nccl"),
    ]
    (found,) = [one for one in measurement.findings([measured()], faster) if one.name == "measured"]
    assert found.status == "ok"


def test_a_slow_node_and_a_slow_link_are_named_with_their_numbers() -> None:
    at_n2 = measured(1.0, ((0, 1), (1, 3), (1, 2)), confirmed=(Pair(1, 3, 1.0, 2.0),), rounds=4)
    assert [*measurement.findings([at_n2], ())] == [
        *nodes(("n2", "slow", 1.0, 1.0, 4), ("n1", "", 10.0, 10.0, 3), ("n3", "", 10.0, 10.0, 3)),
        *nodes(("n4", "", 10.0, 5.5, 4)),
        Finding(
            "bandwidth: mpi",
            "slow node",
            "warning",
            "n2 is slow: 1 GB/s at best, 0.1 of the 10 that is usual here, with n1, n4, n3",
            REPORT,
        ),
        RING,
    ]
    link = measured(1.0, ((0, 1),), confirmed=(Pair(0, 1, 1.0, 2.0),))
    assert [one for one in measurement.findings([link], ()) if one.status != "ok"] == [
        Finding(
            "bandwidth: mpi",
            "slow link",
            "warning",
            "the link between n1 and n2 is slow: 1 GB/s; with other nodes they reach 10 and 10",
            REPORT,
        )
    ]


def test_what_could_not_be_measured_is_unknown_or_a_note_and_wrong_data_an_error() -> None:
    alone = Measurement("mpi", NODES, error="it sees 1 of 4 tasks")
    ended = measured(done=False, rounds=2)
    two = Measurement(
        "torch", NODES[:2], "gloo", {}, 2, (Pair(0, 1, 1.0, 50.0),), rounds=1, planned=1, done=True
    )
    found = [*measurement.findings([alone, ended, two, measured(wrong=((0, 1),))], ())]
    shown = [one[:4] for one in found if not one.numbers and one.name not in ("ring", "measured")]
    healthy = "none of 4 is slow in 3 rounds: 10 GB/s each way, 2 µs; one below 0.25 of that would show"
    assert shown == [
        ("bandwidth: mpi", "bandwidth", "unknown", "it sees 1 of 4 tasks"),
        ("bandwidth: mpi", "nodes", "ok", healthy.replace("3 rounds", "2 rounds")),
        ("bandwidth: mpi", "bandwidth", "unknown", "it did not end; 2 of 3 rounds were measured"),
        (
            "bandwidth: gloo",
            "nodes",
            "ok",
            "1 GB/s each way, 50 µs; whether one of two nodes is slow, a third would show",
        ),
        ("bandwidth: mpi", "data", "error", "what arrived is not what was sent: n1 to n2"),
        ("bandwidth: mpi", "nodes", "ok", healthy),
    ]
    assert [one.status for one in measurement.findings([], ())] == ["note"]


@pytest.mark.parametrize("text", ["", "{", '{"kind": "mpi", "nodes": ["n1"], "pairs": [[0, 1, 1.0, 1.0]]}'])
def test_anything_but_a_measurement_is_read_as_none(text: str) -> None:
    assert measurement.read(text) is None


def test_a_measurement_is_read() -> None:
    assert measurement.read(msgspec.json.encode(measured()).decode()) == measured()


def test_a_grid_begins_with_the_job_as_it_is_and_is_bounded() -> None:
    found = candidates.grid([("NCCL_CROSS_NIC", "0,1"), ("UCX_TLS", "rc,sm|tcp")])
    assert [*map(candidates.text, found)] == [
        "as it is",
        "NCCL_CROSS_NIC=0 UCX_TLS=rc,sm",
        "NCCL_CROSS_NIC=0 UCX_TLS=tcp",
        "NCCL_CROSS_NIC=1 UCX_TLS=rc,sm",
        "NCCL_CROSS_NIC=1 UCX_TLS=tcp",
    ]
    assert candidates.grid([]) == ((),)
    assert candidates.order(3) == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert candidates.order(1) == [0]
    for wrong in (("A", "1,2,3,4,5,6,7,8,9"), ("HPCDIST_RANK", "1"), ("A B", "1"), ("A", ""), ("A", "1\t2")):
        with pytest.raises(ConfigError):
            candidates.grid([wrong])


def test_a_setting_is_proposed_only_where_it_gains_more_than_the_noise() -> None:
    tried = candidates.grid([("NCCL_CROSS_NIC", "0,1")])
    clear = {0: [10.0, 10.2, 9.9], 1: [10.1, 9.8, 10.0], 2: [13.0, 13.1, 12.9]}
    *rows, best = candidates.findings(tried, {"nccl": clear})
    assert rows[2] == Finding(
        "settings: nccl",
        "NCCL_CROSS_NIC=1",
        "ok",
        "all-reduce on the bus 13, 13.1, 12.9 GB/s",
        numbers=(("median", 13.0),),
    )
    assert best == Finding(
        "settings: nccl",
        "best",
        "note",
        "NCCL_CROSS_NIC=1: 30% faster than as it is; the noise is 0.3 GB/s",
        'write `fabric: {env: {NCCL_CROSS_NIC: "1"}}` into the site file, or these into `env_vars` of an '
        "experiment",
    )
    *_, best = candidates.findings(tried, {"nccl": {**clear, 2: [13.0, 10.0, 12.9]}})
    assert best[2:4] == ("ok", "nothing is better by more than twice the noise (3 GB/s)")
    *rows, best = candidates.findings(tried, {"nccl": {0: [10.0, 10.0], 1: [10.0]}})
    assert [one.status for one in (*rows, best)] == ["ok", "ok", "note", "unknown"]


def test_a_setting_that_the_tasks_did_not_have_is_not_compared() -> None:
    tried = candidates.grid([("NCCL_CROSS_NIC", "0,1")])
    assert [candidates.not_set(one, {"NCCL_CROSS_NIC": ("1",)}) for one in tried] == [
        "",
        "NCCL_CROSS_NIC was 1",
        "",
    ]
    assert candidates.not_set(tried[2], {"NCCL_CROSS_NIC": ("1", None)}) == "NCCL_CROSS_NIC was 1 or not set"
    assert candidates.not_set(tried[2], {}) == "NCCL_CROSS_NIC was not recorded"
    speeds = {"nccl": {0: [10.0] * 3, 2: [20.0] * 3}}
    found = [*candidates.findings(tried, speeds, {1: "NCCL_CROSS_NIC was 1"})]
    assert [one[:4] for one in found] == [
        (
            "settings",
            "NCCL_CROSS_NIC=0",
            "warning",
            "it was not measured: in the tasks NCCL_CROSS_NIC was 1",
        ),
        ("settings: nccl", "as it is", "ok", "all-reduce on the bus 10, 10, 10 GB/s"),
        ("settings: nccl", "NCCL_CROSS_NIC=1", "ok", "all-reduce on the bus 20, 20, 20 GB/s"),
        (
            "settings: nccl",
            "best",
            "note",
            "NCCL_CROSS_NIC=1: 100% faster than as it is; the noise is 0 GB/s",
        ),
    ]
