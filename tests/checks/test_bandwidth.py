"""Findings from measured bandwidths, and from settings that were tried side by side."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcdist import __version__
from hpcdist.base.errors import ConfigError
from hpcdist.checks.bandwidth import (
    bandwidth_findings,
    best_of,
    grid,
    launch_findings,
    launch_lines,
    not_set,
    order,
    setting_findings,
    shown,
    site_entries,
    slow_links,
    slow_nodes,
    tool_findings,
    usual_of,
)
from hpcdist.checks.finding import (
    AllReduce,
    CheckFinding,
    Connectivity,
    LaunchRecord,
    Pair,
    TaskRecord,
    read_record,
)
from hpcdist.runs.rundir import RunDirectory
from hpcdist.site.published import Measured
from tests.checks.hosts import GOOD

NODES = ("n1", "n2", "n3", "n4")
REPORT = "run it again; if it is slow again, report it to the centre with these numbers"


def measured(slow: float = 10.0, links: tuple[tuple[int, int], ...] = (), **changes: object) -> AllReduce:
    """Return what four nodes measured, of which these links are slow."""
    all_links = itertools.combinations(range(4), 2)
    pairs = tuple(Pair(*link, slow if link in links else 10.0) for link in all_links)
    whole = AllReduce(
        "mpi4py", "mpi4py, MPI 4", "mpi", 4, 6 * 10**9, correct=True, seconds=1.0, pairs=pairs,
        versions={"mpi": "4"},
    )  # fmt: skip
    return msgspec.structs.replace(whole, **changes)


def task(*found: AllReduce, nodes: tuple[str, ...] = NODES) -> TaskRecord:
    return TaskRecord(GOOD, Connectivity(0, 0, dict.fromkeys(nodes, ()), ""), found)


def findings(*found: AllReduce, before: tuple[Measured, ...] = (), **changes: Any) -> list[CheckFinding]:
    return [*bandwidth_findings(task(*found, **changes), before)]


def node(name: str, best: float, pairs: int = 3) -> CheckFinding:
    text = f"best {best:g} GB/s of {pairs} pairs"
    return CheckFinding("bandwidth: mpi", name, "ok", text, numbers=(("best", best),))


def test_healthy_nodes_are_compared_with_what_was_measured_before() -> None:
    before = Measured(library="mpi", date="2026-11-01", nodes=4, pair=20.0)
    hint = "compare versions and variables with `measured` of the site file, and try again at another time"
    assert findings(measured(), before=(before,)) == [
        *(node(name, 10.0) for name in NODES),
        CheckFinding("bandwidth: mpi", "nodes", "ok", "none of 4 is slow: 10 GB/s each way"),
        CheckFinding(
            "bandwidth: mpi", "measured", "warning", "10 GB/s, 50% of the 20 measured on 2026-11-01", hint
        ),
    ]
    faster = (msgspec.structs.replace(before, pair=10.5), msgspec.structs.replace(before, library="nccl"))
    (found,) = [one for one in findings(measured(), before=faster) if one.name == "measured"]
    assert found.status == "ok"


def test_a_slow_node_and_a_slow_link_are_named_with_their_numbers() -> None:
    assert findings(measured(1.0, ((0, 1), (1, 3), (1, 2)))) == [
        node("n2", 1.0),
        *(node(name, 10.0) for name in ("n1", "n3", "n4")),
        CheckFinding(
            "bandwidth: mpi",
            "slow node",
            "warning",
            "n2 is slow: 1 GB/s at best, 0.1 of the 10 that is usual here",
            REPORT,
        ),
    ]
    assert [one for one in findings(measured(1.0, ((0, 1),))) if one.status != "ok"] == [
        CheckFinding(
            "bandwidth: mpi",
            "slow link",
            "warning",
            "the link between n1 and n2 is slow: 1 GB/s; with other nodes they reach 10 and 10",
            REPORT,
        )
    ]


def test_nodes_at_a_quarter_or_above_are_not_slow() -> None:
    assert slow_nodes(measured(2.5, ((0, 1), (1, 3), (1, 2)))) == []
    assert slow_nodes(measured(2.4, ((0, 1), (1, 3), (1, 2)))) == [1]
    assert slow_links(measured(2.5, ((0, 1),))) == []
    two = AllReduce("torch", pairs=(Pair(0, 1, 0.001),))
    assert (slow_nodes(two), slow_links(two), usual_of(two)) == ([], [], 0.001)
    assert (best_of(AllReduce("torch")), usual_of(AllReduce("torch"))) == ({}, 0.0)


def test_two_slow_nodes_are_both_named_the_slowest_first() -> None:
    speed = {3: 0.2, 11: 0.1}
    links = itertools.combinations(range(32), 2)
    pairs = (Pair(*link, min(speed.get(node, 1.0) for node in link)) for link in links)
    assert slow_nodes(AllReduce("torch", pairs=(*pairs,))) == [11, 3]


def test_wrong_data_is_an_error_and_what_was_not_measured_a_note() -> None:
    found = findings(measured(wrong=((0, 1),)))
    assert found[0][:4] == ("bandwidth: mpi", "data", "error", "what arrived is not what was sent: n1 to n2")
    gloo = AllReduce("torch", network="gloo", pairs=(Pair(0, 1, 1.0),))
    assert [one[:4] for one in findings(gloo, nodes=NODES[:2]) if not one.numbers] == [
        (
            "bandwidth: gloo",
            "nodes",
            "ok",
            "1 GB/s each way; with only two nodes, a slow one cannot be identified",
        )
    ]
    assert [one.status for one in findings()] == ["note"]
    assert findings(AllReduce("horovod", network="")) == findings()
    assert [one.status for one in findings(measured(), nodes=NODES[:1])] == ["note"]  # a damaged record


@pytest.mark.parametrize("text", ["", "{", "[]", '{"allreduces": [{}]}', '{"allreduces": [{"library": 1}]}'])
def test_anything_but_a_launch_is_read_as_none(text: str) -> None:
    assert read_record(text, LaunchRecord) is None


def write(folder: Path, *found: AllReduce) -> RunDirectory:
    """Write the record of rank 0."""
    folder.chmod(0o700)
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "outputs" / "task.0.json").write_bytes(msgspec.json.encode(task(*found)))
    return RunDirectory(folder)


def test_a_site_file_keeps_what_is_right_and_complete(tmp_path: Path) -> None:
    good = Measured(
        library="mpi", date="2026-11-24", nodes=4, pair=10.0, all_reduce=9.0,
        versions={"hpcdist": __version__, "mpi": "4"},
    )  # fmt: skip
    assert site_entries(write(tmp_path, measured()), "2026-11-24") == [good]
    slow = measured(1.0, ((0, 1),))
    without = msgspec.structs.replace(good, all_reduce=None)
    assert site_entries(write(tmp_path, slow), "2026-11-24") == [without]
    bad = [measured(error="x"), measured(correct=False), measured(wrong=((0, 1),)), measured(pairs=())]
    assert site_entries(write(tmp_path, *bad, AllReduce("horovod", correct=True)), "2026-11-24") == []
    assert site_entries(RunDirectory(tmp_path / "none"), "2026-11-24") == []


NCCL_TESTS = """\
#  size      count   type  redop  root   time  algbw   busbw #wrong   time  algbw   busbw #wrong
67108864  16777216  float    sum    -1  912.3  73.56  128.73      0  908.1  73.90  129.33      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 129.03
"""
OSU = "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n1024  3.0\n67108864   50331.648\n"


@pytest.mark.parametrize(
    ("text", "group", "detail"),
    [
        (NCCL_TESTS, "nccl", "all_reduce_perf of nccl-tests: on the bus 129 GB/s over all tasks"),
        (OSU, "mpi", "osu_allreduce of the OSU benchmarks: on the bus 2 GB/s over all tasks"),
        (
            "This test requires at least two processes\n\n",
            "tool",
            "the benchmark that is installed did not measure it: This test requires at least two processes",
        ),
        (
            NCCL_TESTS.replace("129.03", "0"),
            "tool",
            "the benchmark that is installed did not measure it: # Avg bus bandwidth : 0",
        ),
        ("", "tool", "the benchmark that is installed did not measure it: it printed nothing"),
    ],
    ids=["nccl-tests", "osu", "another MPI", "one GPU", "nothing"],
)
def test_installed_benchmarks_measure_the_all_reduce(
    tmp_path: Path, text: str, group: str, detail: str
) -> None:
    directory = write(tmp_path, measured())
    assert [*tool_findings(directory, 4)] == []
    (tmp_path / "outputs" / "tool.0.txt").write_text(text)
    [found] = tool_findings(directory, 4)
    assert (found.group, found.detail) == (f"bandwidth: {group}", detail)
    [kept] = site_entries(directory, "2026-11-24")
    assert kept.all_reduce == (2.0 if group == "mpi" else 9.0)


def test_further_launches_are_compared(tmp_path: Path) -> None:
    directory = write(tmp_path)
    tried = grid([("A", "1")])
    assert launch_lines(tried) == "1\n2\tA=1\n3\tA=1\n4\n5\n6\tA=1\n"
    assert (launch_lines(((),)), [*launch_findings(directory, ((),))]) == ("", [])
    for place, number in enumerate(order(2), 1):
        value = ("1",) if number else (None,)
        one = measured(seconds=1 / (number + 1), variables={"A": value})
        failed = AllReduce("torch", error="it did not finish")
        file = tmp_path / "outputs" / f"launch-{place}.json"
        file.write_bytes(msgspec.json.encode(LaunchRecord((failed, one))))
    found = [*launch_findings(directory, tried)]
    assert [(one.name, one.status) for one in found] == [("as it is", "ok"), ("A=1", "ok"), ("best", "note")]


def test_a_grid_begins_with_the_job_as_it_is_and_is_bounded() -> None:
    found = grid([("NCCL_CROSS_NIC", "0,1"), ("UCX_TLS", "rc,sm|tcp")])
    assert [*map(shown, found)] == [
        "as it is",
        "NCCL_CROSS_NIC=0 UCX_TLS=rc,sm",
        "NCCL_CROSS_NIC=0 UCX_TLS=tcp",
        "NCCL_CROSS_NIC=1 UCX_TLS=rc,sm",
        "NCCL_CROSS_NIC=1 UCX_TLS=tcp",
    ]
    assert grid([]) == ((),)
    assert order(3) == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert order(1) == []
    for wrong in (("A", "1,2,3,4,5,6,7,8,9"), ("HPCDIST_RANK", "1"), ("A B", "1"), ("A", ""), ("A", "1\t2")):
        with pytest.raises(ConfigError):
            grid([wrong])


def test_a_setting_is_proposed_only_where_it_gains_more_than_the_noise() -> None:
    tried = grid([("NCCL_CROSS_NIC", "0,1")])
    clear = {0: [10.0, 10.2, 9.9], 1: [10.1, 9.8, 10.0], 2: [13.0, 13.1, 12.9]}
    *rows, best = setting_findings(tried, {"nccl": clear})
    assert rows[2] == CheckFinding(
        "settings: nccl",
        "NCCL_CROSS_NIC=1",
        "ok",
        "all-reduce on the bus 13, 13.1, 12.9 GB/s",
        numbers=(("median", 13.0),),
    )
    assert best == CheckFinding(
        "settings: nccl",
        "best",
        "note",
        "NCCL_CROSS_NIC=1: 30% faster than as it is; the noise is 0.3 GB/s",
        'write `fabric: {env: {NCCL_CROSS_NIC: "1"}}` into the site file, or these into `env_vars` of an '
        "experiment",
    )
    *_, best = setting_findings(tried, {"nccl": {**clear, 2: [13.0, 10.0, 12.9]}})
    assert best[2:4] == ("ok", "nothing is better by more than twice the noise (3 GB/s)")
    *rows, best = setting_findings(tried, {"nccl": {0: [10.0, 10.0], 1: [10.0]}})
    assert [one.status for one in (*rows, best)] == ["ok", "ok", "note", "unknown"]


def test_a_setting_that_the_tasks_did_not_have_is_not_compared() -> None:
    tried = grid([("NCCL_CROSS_NIC", "0,1")])
    assert [not_set(one, {"NCCL_CROSS_NIC": ("1",)}) for one in tried] == [
        "",
        "NCCL_CROSS_NIC was 1",
        "",
    ]
    assert not_set(tried[2], {"NCCL_CROSS_NIC": ("1", None)}) == "NCCL_CROSS_NIC was 1 or not set"
    assert not_set(tried[2], {}) == "NCCL_CROSS_NIC was not recorded"
    speeds = {"nccl": {0: [10.0] * 3, 2: [20.0] * 3}}
    found = [*setting_findings(tried, speeds, {1: "NCCL_CROSS_NIC was 1"})]
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
