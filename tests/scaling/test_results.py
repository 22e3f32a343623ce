"""What the runs of a study come to: spread, efficiency, costs, laws, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from hpcdist.cli.jobs import scale
from hpcdist.errors import ConfigError
from hpcdist.runs.states import Report
from hpcdist.scaling import plot, results, study
from hpcdist.scaling.results import Size, Spread
from hpcdist.scaling.study import Found, Member, Ranks
from tests.scaling import made
from tests.scaling.made import STUDY
from tests.tracking import made_reports as others
from tests.tracking.made_reports import COMPLETED, FAILED
from tests.wording import Wording

SPEEDS = {(1, 1): 90.0, (1, 2): 110.0, (2, 1): 180.0, (2, 2): 200.0, (4, 1): 300.0, (4, 2): 300.0}


def test_sizes_are_compared_with_the_smallest_one(tmp_path: Path) -> None:
    found = results.result(STUDY, made.study(tmp_path, SPEEDS))
    assert (found.metric, found.left_out, found.largest_efficient) == ("images_per_second", (), 2)
    assert found.unit == "GPU-hours"
    assert found.sizes[1:] == (
        Size(
            nodes=2,
            tasks=8,
            gpus=8,
            runs=2,
            throughput=Spread(190, 180, 200),
            speedup=Spread(1.9, 1.8, 2.0),
            efficiency=Spread(0.95, 0.9, 1.0),
            communication=None,
            thousand_steps=pytest.approx(1000 * 8 / 3600),  # type: ignore[arg-type]
            million=pytest.approx(1e6 / 190 * 8 / 3600),  # type: ignore[arg-type]
        ),
        Size(
            nodes=4,
            tasks=16,
            gpus=16,
            runs=2,
            throughput=Spread(300, 300, 300),
            speedup=Spread(3, 3, 3),
            efficiency=Spread(0.75, 0.75, 0.75),
            communication=None,
            thousand_steps=pytest.approx(1000 * 16 / 3600),  # type: ignore[arg-type]
            million=pytest.approx(1e6 / 300 * 16 / 3600),  # type: ignore[arg-type]
        ),
    )
    assert found.sizes[0].efficiency == Spread(1, 0.9, 1.1)
    assert [fit.law for fit in found.fits] == ["Gustafson", "universal"]
    assert len(found.fits[0].residuals) == len(SPEEDS)


def test_costs_are_those_of_all_gpus_of_whole_nodes(tmp_path: Path) -> None:
    member = Member(STUDY, 2, 1)
    report = made.run(tmp_path, member, {"samples/s": [100.0]}, gpus=1, reserved=8)
    found = results.result(STUDY, [(report, member)])
    [size] = found.sizes
    assert (size.gpus, found.unit) == (2, "GPU-hours")
    assert size.million == pytest.approx(1e6 / 100 * 8 / 3600)


def test_strong_scaling_has_the_law_of_amdahl(tmp_path: Path) -> None:
    strong = msgspec.structs.replace(STUDY, mode="strong")
    found = results.result(strong, made.study(tmp_path, SPEEDS, of=strong, gpus=0))
    assert [fit.law for fit in found.fits] == ["Amdahl", "universal"]
    assert found.unit == "node-hours"
    assert found.sizes[2].million == pytest.approx(1e6 / 300 * 4 / 3600)


def test_a_share_of_communication_is_shown(tmp_path: Path) -> None:
    member = Member(STUDY, 1, 1)
    report = made.run(tmp_path, member, {"samples/s": [5.0], "horovod/allreduce/share": [0.25]})
    [size] = results.result(STUDY, [(report, member)]).sizes
    assert (size.communication, size.thousand_steps) == (0.25, None)


def test_what_has_not_completed_does_not_count_and_is_named(tmp_path: Path) -> None:
    found = made.study(tmp_path, {(1, 1): 100.0, (1, 2): 100.0, (2, 1): 150.0})
    failed = Member(STUDY, 2, 2)
    found.append((made.run(tmp_path, failed, {"images_per_second": [9.0]}, status=FAILED), failed))
    silent = Member(STUDY, 4, 1)
    found.append((made.run(tmp_path, silent, {"loss": [1.0]}), silent))
    shown = results.result(STUDY, found)
    assert [(size.nodes, size.runs) for size in shown.sizes] == [(1, 2), (2, 1)]
    assert shown.left_out == (
        "2 nodes, repetition 2: train-2-nodes-2 (failed)",
        "4 nodes, repetition 1: train-4-nodes-1 has not recorded images_per_second",
        "4 nodes, repetition 2: was not submitted",
    )
    assert [fit.law for fit in shown.fits] == ["Gustafson"]


def with_ranks(folder: Path, rates: Sequence[float]) -> tuple[Report, Member]:
    """A run on one node each of whose ranks recorded a rate of its own, at two steps."""
    member = Member(STUDY, 1, 1)
    report = made.run(folder, member, {})
    job = report.run.record.job_id or ""
    for rank, rate in enumerate(rates):
        lines = [
            {"at": 1.8e9 + step, "step": step, "metrics": {"images_per_second": rate}} for step in (0, 1)
        ]
        others.record_lines(report.run.directory.path, job, *lines, rank=rank)
    return report, member


def test_what_several_ranks_recorded_is_the_sum_or_the_first_as_it_is_chosen(tmp_path: Path) -> None:
    pair = with_ranks(tmp_path, [100.0, 100.0, 90.0, 110.0])
    with pytest.raises(
        ConfigError, match=r"4 ranks of .* recorded images_per_second, .* `--ranks first` takes"
    ):
        results.result(STUDY, [pair])
    choices: tuple[Ranks, ...] = ("sum", "first")
    found = [results.result(STUDY, [pair], ranks=choice).sizes[0].throughput for choice in choices]
    assert found == [Spread(400, 400, 400), Spread(100, 100, 100)]
    chosen = msgspec.structs.replace(STUDY, ranks="sum")
    assert results.result(chosen, [pair]).sizes[0].throughput.median == 400


def test_what_was_lost_of_the_metrics_is_told(tmp_path: Path) -> None:
    report, member = with_ranks(tmp_path, [100.0] * 4)
    [file, *_] = sorted(report.run.directory.path.glob("tracking/**/*.jsonl"))
    file.write_text(file.read_text() + "junk\n" * 2)
    found = results.result(STUDY, [(report, member)], ranks="sum")
    assert found.lost == ("train-1-nodes-1: 2 damaged lines of what it recorded were skipped",)


def test_a_rank_that_never_wrote_is_named(tmp_path: Path) -> None:
    pair = with_ranks(tmp_path, [100.0, 90.0])
    found = results.result(STUDY, [pair], ranks="sum")
    [run], [size] = found.runs, found.sizes
    assert (size.throughput.median, run.summed, run.ranks, run.without) == (190, 2, 4, (2, 3))
    text = "train-1-nodes-1: images_per_second is the sum of 2 of 4 ranks: ranks 2, 3 recorded none"
    assert found.lost == (text,)
    data = scale.as_data(found)
    [own] = data["runs"]
    assert (own["ranks"], own["ranks_summed"], own["ranks_without"], data["lost"]) == (4, 2, [2, 3], [text])
    first = results.result(STUDY, [pair], ranks="first")
    assert (first.lost, first.runs[0].summed, first.runs[0].without) == ((), None, ())


@pytest.mark.parametrize("value", [1e308, 5e-324, 0.0, -5.0, math.inf])
def test_a_value_that_is_no_throughput_is_named(tmp_path: Path, value: float) -> None:
    member = Member(STUDY, 1, 1)
    pairs = [(made.run(tmp_path, member, {"images_per_second": [value] * 2}), member)]
    shown = results.result(msgspec.structs.replace(STUDY, nodes=(1,), repeat=1), pairs)
    assert (shown.sizes, shown.left_out, plot.drawing(shown)) == (
        (),
        ("1 node, repetition 1: train-1-nodes-1 has no value of images_per_second from 1e-30 to 1e+30",),
        None,
    )


def test_the_largest_and_the_smallest_throughput_have_a_plot(tmp_path: Path) -> None:
    speeds = {(1, 1): 1e-30, (2, 1): 1e30, (4, 1): 1.0}
    shown = results.result(STUDY, made.study(tmp_path, speeds))
    assert plot.drawing(shown)


def test_a_run_that_was_removed_is_told_from_one_that_was_never_submitted(tmp_path: Path) -> None:
    one = msgspec.structs.replace(STUDY, nodes=(1, 2), repeat=1)
    pairs = made.study(tmp_path, {(1, 1): 100.0}, of=one)
    assert results.result(one, pairs).left_out == ("2 nodes, repetition 1: was not submitted",)
    study.keep_submitted([Found(pairs[0][0].run, pairs[0][1])])
    assert results.result(one, pairs).left_out == ("2 nodes, repetition 1: its run was removed",)
    assert study.unfinished(study.every(tmp_path), one.digest) is None


def test_a_study_that_has_only_begun() -> None:
    shown = results.result(STUDY, [])
    assert (shown.sizes, shown.fits, shown.largest_efficient, len(shown.left_out)) == ((), (), None, 6)
    assert plot.drawing(shown) is None


@pytest.mark.parametrize(
    ("metrics", "metric"),
    [
        ({"loss": [1.0]}, ""),
        ({"a/s": [1.0], "throughput": [1.0]}, ""),
        ({"loss": [1.0]}, "speed"),
        ({}, "speed"),
    ],
    ids=["an unclear one", "two", "an unknown one", "none"],
)
def test_which_metric_it_is(
    tmp_path: Path, metrics: dict[str, list[float]], metric: str, wording: Wording
) -> None:
    member = Member(STUDY, 1, 1)
    report = made.run(tmp_path, member, metrics, status=COMPLETED)
    with pytest.raises(ConfigError) as caught:
        results.result(STUDY, [(report, member)], metric)
    wording(str(caught.value))
