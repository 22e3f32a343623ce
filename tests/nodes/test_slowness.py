"""Which rank or node is slower than its peers: what each kind of record shows, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.nodes import slowness
from hpcdist.nodes.slow import Slow
from hpcdist.nodes.slowness import Slowness
from hpcdist.runs.rundir import RunDirectory
from hpcdist.usage.samples import GpuUse, NodeUse
from tests.nodes.records import ATTEMPT, BEGAN, record, record_all, run

TO_RECORD = (
    "let each rank record the time of its own work, without what waits for others: "
    "log_metrics(step=..., compute_seconds=..., all_ranks=True)"
)


def use(node: int, percent: float, samples: int = 30) -> NodeUse:
    return NodeUse(
        "12", (0, 0), node, f"n{node}.site", samples * 30, samples, 5.0, (GpuUse(0, percent),), 0, 0.0
    )


def found(folder: Path, *uses: NodeUse) -> Slowness | None:
    directory = run(folder) if not (folder / "jobs").exists() else RunDirectory(folder)
    return slowness.of_attempt(directory, directory.plan(), ATTEMPT, uses)


def test_a_rank_that_measures_more_time_for_its_own_work(tmp_path: Path) -> None:
    directory = run(tmp_path, gpus=4)
    record_all(
        directory,
        8,
        lambda rank, step: (step, step, {"compute_seconds": 0.75 if rank == 6 else 0.5, "loss": 1}),
    )
    text = (
        "rank 6 on n1 (GPU 2 of the node) is slower than its peers by 50%: compute_seconds is 0.75, that of "
        "the other 7 ranks 0.5 (medians of the last 40 records)"
    )
    slow = Slow("n1", (6,), 2, 0.5, is_certain=True, text=text)
    assert found(tmp_path) == Slowness("12", 0, 8, BEGAN + 39, "compute_seconds", (slow,), text)


def test_a_rate_that_is_lower_on_a_whole_node_from_a_step_on(tmp_path: Path) -> None:
    directory = run(tmp_path, tasks=12)
    record_all(
        directory,
        12,
        lambda rank, step: (step, step, {"images_per_second": 50 if rank >= 8 and step >= 20 else 100}),
    )
    text = (
        "n2 (all its ranks: 8, 9, 10, 11) is slower than its peers by 100%: images_per_second is 50, that of "
        "the other 11 ranks 100 (medians of the last 20 records), since step 20"
    )
    slow = Slow("n2", (8, 9, 10, 11), None, 1.0, is_certain=True, text=text)
    assert found(tmp_path) == Slowness("12", 0, 12, BEGAN + 39, "images_per_second", (slow,), text)


def test_ranks_that_do_not_wait_for_each_other_differ_in_their_intervals(tmp_path: Path) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step * (2 if rank == 5 else 1), step, {"loss": 1}))
    slow = found(tmp_path)
    assert slow is not None
    assert (slow.by, [each.ranks for each in slow.slow]) == ("the time for a step", [(5,)])
    assert slow.slow[0].is_certain


def test_who_records_later_than_the_ranks_of_its_own_node_lets_the_others_wait(tmp_path: Path) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step + (0.25 if rank == 5 else 0), step, {"loss": 1}))
    text = (
        "rank 5 on n1 records each step 0.25 s later than the median of 8 ranks (25% of a step), "
        "so that the others wait for it"
    )
    assert found(tmp_path) == Slowness(
        "12", 0, 8, BEGAN + 39.25, "the time at which it records a step",
        (Slow("n1", (5,), None, 0.25, is_certain=True, text=text),), text,
    )  # fmt: skip


def test_a_whole_node_that_records_later_may_have_a_clock_that_is_ahead(tmp_path: Path) -> None:
    record_all(run(tmp_path), 16, lambda rank, step: (step + 0.25 * (rank // 4 == 2), step, {"loss": 1}))
    slow = found(tmp_path)
    assert slow is not None
    assert [(each.host, each.is_certain) for each in slow.slow] == [("n2", False)]
    assert slow.text.endswith(", unless the clock of n2 is ahead by so much")


def test_clocks_that_differ_by_milliseconds_show_nothing(tmp_path: Path) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step / 20 + 0.02 * (rank == 5), step, {"loss": 1}))
    slow = found(tmp_path)
    assert slow is not None
    assert slow.slow == ()


def test_rank_0_often_has_more_to_do(tmp_path: Path) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step, step, {"step_time": 2.0 if rank == 0 else 1.0}))
    slow = found(tmp_path)
    assert slow is not None
    assert [(each.ranks, each.is_certain) for each in slow.slow] == [((0,), False)]


@pytest.mark.parametrize("name", ["wait_seconds", "allreduce_time", "total_seconds", "loss", "timeouts"])
def test_what_is_no_time_of_own_work_is_not_compared(tmp_path: Path, name: str) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step, step, {name: 2.0 if rank == 5 else 1.0}))
    assert found(tmp_path) == Slowness(
        "12", 0, 8, BEGAN + 39, "the time for a step", (),
        "no rank stands out: the time for a step of 8 ranks over the last 39 records, the slowest 0% above "
        f"the median; if the ranks wait for each other, {TO_RECORD}",
    )  # fmt: skip


def test_that_nobody_stands_out_comes_with_how_much_they_differ(tmp_path: Path) -> None:
    record_all(run(tmp_path), 8, lambda rank, step: (step, step, {"compute_seconds": 1 + rank / 100}))
    slow = found(tmp_path)
    assert slow is not None
    assert slow.text == (
        "no rank stands out: compute_seconds of 8 ranks over the last 40 records, "
        "the slowest 3% above the median"
    )


@pytest.mark.parametrize(
    ("ranks", "steps", "known"),
    [
        pytest.param(0, 0, "no ranks recorded metrics", id="nobody"),
        pytest.param(1, 40, "1 rank recorded metrics", id="rank 0 alone"),
        pytest.param(2, 40, "2 ranks recorded metrics", id="two"),
        pytest.param(8, 5, "the ranks recorded fewer than 20 steps", id="few steps"),
    ],
)
def test_what_cannot_be_known_and_what_to_record(tmp_path: Path, ranks: int, steps: int, known: str) -> None:
    record_all(run(tmp_path), ranks, lambda _, step: (step, step, {"loss": 1}), steps=steps)
    slow = found(tmp_path)
    assert slow is not None
    assert slow[4:] == ("", (), f"which rank is slow is unknown: {known}; {TO_RECORD}")


def test_a_job_of_one_task_has_no_peers(tmp_path: Path) -> None:
    run(tmp_path, tasks=1)
    assert found(tmp_path) is None


@pytest.mark.parametrize(
    ("percent", "why", "is_certain"),
    [
        (95.0, "the others seem to wait for it", True),
        (20.0, "it has less to do, or its CPUs or input hold it up", False),
    ],
)
def test_the_use_of_gpus_where_ranks_record_nothing(
    tmp_path: Path, percent: float, why: str, *, is_certain: bool
) -> None:
    run(tmp_path)
    slow = found(tmp_path, *(use(node, percent if node == 3 else 50.0) for node in range(6)))
    assert slow is not None
    text = f"the GPUs of n3 were used {percent:.0f}%, 50% in the median of 6 nodes: {why}"
    assert slow[4:] == ("GPU use", (Slow("n3", (), None, percent / 50 - 1, is_certain, text),), text)


def test_gpus_that_are_used_alike(tmp_path: Path) -> None:
    run(tmp_path)
    slow = found(tmp_path, *(use(node, 50.0 + node) for node in range(6)))
    assert slow is not None
    text = "no node stands out by the use of its GPUs (6 nodes, 52% in their median)"
    assert slow[4:] == ("GPU use", (), text)


def test_few_samples_and_few_nodes_are_not_compared(tmp_path: Path) -> None:
    run(tmp_path)
    uses = [use(node, 95.0 if node == 3 else 50.0, samples=5) for node in range(6)]
    slow = found(tmp_path, *uses, use(7, 5.0), use(8, 50.0), use(9, 50.0))
    assert slow is not None
    assert slow.by == ""


def test_damaged_lines_and_files_cost_themselves(tmp_path: Path) -> None:
    directory = run(tmp_path)
    record_all(directory, 8, lambda rank, step: (step, step, {"compute_seconds": 2.0 if rank == 5 else 1.0}))
    folder = directory.path / "tracking" / "12" / "0.0"
    for file in folder.iterdir():
        file.write_bytes(
            b'\x00{"metrics":\n[]\n{"metrics":{"compute_seconds":"nan"},"at":1}\n7\n'
            + file.read_bytes()
            + b'{"at'
        )
    (folder / "rank-9.n9.1.jsonl").mkdir()
    (folder / "rank-10.n9.1.jsonl").symlink_to("/dev/zero")
    record(directory, 11, "n9", [])
    slow = found(tmp_path)
    assert slow is not None
    assert [each.ranks for each in slow.slow] == [(5,)]
