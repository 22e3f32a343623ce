"""What the runs of a study come to: laws, spread, efficiency, costs, and what is missing."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.errors import ConfigError
from hpcdist.runs.job_states import Report
from hpcdist.studies import scaling_report, scaling_runs
from hpcdist.studies.scaling_results import (
    LAWS,
    Fit,
    Point,
    SizeResult,
    Spread,
    fit_law,
    study_result,
    throughput_at,
)
from hpcdist.studies.scaling_runs import Member, Ranks, StudyRun
from tests.studies import scaling_made as made
from tests.studies.scaling_made import STUDY
from tests.tracking import made_reports as others
from tests.tracking.made_reports import COMPLETED, FAILED
from tests.wording import Wording

SIZES = (1, 2, 4, 8, 16, 32)
SHARES = st.floats(0, 1)
RATES = st.floats(1e-3, 1e9)


def fitted(law: str, points: list[Point]) -> Fit:
    found = fit_law(law, points)
    assert found is not None
    return found


def measured(law: str, one_node: float, parameters: dict[str, float]) -> list[Point]:
    return [(n, one_node * LAWS[law].at(n, parameters)) for n in SIZES]


@pytest.mark.parametrize("law", ["Amdahl", "Gustafson"])
@given(one_node=RATES, serial=SHARES)
def test_a_serial_share_is_found_again(law: str, one_node: float, serial: float) -> None:
    found = fitted(law, measured(law, one_node, {"serial": serial}))
    assert found.one_node == pytest.approx(one_node)
    assert found.parameters["serial"] == pytest.approx(serial, abs=1e-6)
    assert [nodes for nodes, _ in found.residuals] == [*SIZES]
    assert max(abs(each) for _, each in found.residuals) < 1e-6


@given(one_node=RATES, contention=SHARES, coherency=st.floats(0, 0.1))
def test_contention_and_coherency_are_found_again(
    one_node: float, contention: float, coherency: float
) -> None:
    parameters = {"contention": contention, "coherency": coherency}
    found = fitted("universal", measured("universal", one_node, parameters))
    assert found.one_node == pytest.approx(one_node)
    assert found.parameters == pytest.approx(parameters, abs=1e-6)


def test_a_maximum_is_where_throughput_is_highest() -> None:
    found = fitted("universal", measured("universal", 100, {"contention": 0.02, "coherency": 0.0005}))
    assert found.peak == pytest.approx(math.sqrt(0.98 / 0.0005))
    assert found.peak
    assert throughput_at(found, found.peak) > max(throughput_at(found, found.peak * by) for by in (0.9, 1.1))
    assert fitted("universal", [(n, 100.0 * n) for n in SIZES]).peak is None


@given(st.lists(st.tuples(st.sampled_from(SIZES), RATES), min_size=3), st.sampled_from([*LAWS]), RATES)
def test_whatever_was_measured_no_parameter_is_below_zero_and_units_do_not_matter(
    points: list[Point], law: str, unit: float
) -> None:
    found, scaled = fit_law(law, points), fit_law(law, [(n, x * unit) for n, x in points])
    enough = len({n for n, _ in points}) >= len(LAWS[law].columns)
    if not enough:
        assert found is scaled is None
    if found and scaled:
        assert min(found.parameters.values()) >= 0
        assert [scaled.one_node, *scaled.parameters.values()] == pytest.approx(
            [found.one_node * unit, *found.parameters.values()], rel=1e-3, abs=1e-9
        )


def test_no_other_share_fits_noise_better() -> None:
    points = [(1, 101.0), (1, 99.0), (2, 190.0), (2, 198.0), (4, 350.0), (8, 610.0)]
    found = fitted("Amdahl", points)

    def error(one_node: float, serial: float) -> float:
        law = LAWS["Amdahl"].at
        return sum((one_node * law(n, {"serial": serial}) / x - 1) ** 2 for n, x in points)

    # The squares are of n / X, whose errors are those of X up to their own squares.
    least = error(found.one_node, found.parameters["serial"])
    around = [(a, b) for a in (0.97, 1.03) for b in (0.8, 1.2)]
    assert all(error(found.one_node * a, found.parameters["serial"] * b) > least for a, b in around)


def test_a_speed_up_above_the_ideal_is_no_negative_share() -> None:
    points = [(n, 100.0 * n**1.2) for n in SIZES]
    assert fitted("Amdahl", points).parameters == {"serial": 0.0}
    assert fitted("Gustafson", points).parameters == {"serial": 0.0}
    assert fitted("universal", points).parameters == {"contention": 0.0, "coherency": 0.0}


def test_as_many_sizes_as_parameters_fit_exactly() -> None:
    found = fitted("Amdahl", [(1, 100.0), (2, 160.0)])
    assert (found.law, found.is_exact, found.peak) == ("Amdahl", True, None)
    assert [found.one_node, *found.parameters.values()] == pytest.approx([100, 0.25])
    assert [each for _, each in found.residuals] == pytest.approx([0, 0], abs=1e-9)
    assert not fitted("Amdahl", [(1, 100.0), (2, 160.0), (4, 200.0)]).is_exact


@pytest.mark.parametrize("points", [[], [(1, 100.0)], [(1, 100.0), (1, 90.0)], [(1, 0.0), (2, math.nan)]])
def test_too_few_sizes_have_no_fit(points: list[Point]) -> None:
    assert [fit_law(law, points) for law in LAWS] == [None, None, None]


SPEEDS = {(1, 1): 90.0, (1, 2): 110.0, (2, 1): 180.0, (2, 2): 200.0, (4, 1): 300.0, (4, 2): 300.0}


def test_sizes_are_compared_with_the_smallest_one(tmp_path: Path) -> None:
    found = study_result(STUDY, made.study(tmp_path, SPEEDS))
    assert (found.metric, found.left_out, found.largest_efficient) == ("images_per_second", (), 2)
    assert found.unit == "GPU-hours"
    assert found.sizes[1:] == (
        SizeResult(
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
        SizeResult(
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
    found = study_result(STUDY, [(report, member)])
    [size] = found.sizes
    assert (size.gpus, found.unit) == (2, "GPU-hours")
    assert size.million == pytest.approx(1e6 / 100 * 8 / 3600)


def test_strong_scaling_has_the_law_of_amdahl(tmp_path: Path) -> None:
    strong = msgspec.structs.replace(STUDY, mode="strong")
    found = study_result(strong, made.study(tmp_path, SPEEDS, of=strong, gpus=0))
    assert [fit.law for fit in found.fits] == ["Amdahl", "universal"]
    assert found.unit == "node-hours"
    assert found.sizes[2].million == pytest.approx(1e6 / 300 * 4 / 3600)


def test_a_share_of_communication_is_shown(tmp_path: Path) -> None:
    member = Member(STUDY, 1, 1)
    report = made.run(tmp_path, member, {"samples/s": [5.0], "horovod/allreduce/share": [0.25]})
    [size] = study_result(STUDY, [(report, member)]).sizes
    assert (size.communication, size.thousand_steps) == (0.25, None)


def test_what_has_not_completed_does_not_count_and_is_named(tmp_path: Path) -> None:
    found = made.study(tmp_path, {(1, 1): 100.0, (1, 2): 100.0, (2, 1): 150.0})
    failed = Member(STUDY, 2, 2)
    found.append((made.run(tmp_path, failed, {"images_per_second": [9.0]}, status=FAILED), failed))
    silent = Member(STUDY, 4, 1)
    found.append((made.run(tmp_path, silent, {"loss": [1.0]}), silent))
    shown = study_result(STUDY, found)
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
        ConfigError, match=r"4 ranks of .* recorded images_per_second, .* --metric NAME:first takes"
    ):
        study_result(STUDY, [pair])
    choices: tuple[Ranks, ...] = ("sum", "first")
    found = [study_result(STUDY, [pair], ranks=choice).sizes[0].throughput for choice in choices]
    assert found == [Spread(400, 400, 400), Spread(100, 100, 100)]
    chosen = msgspec.structs.replace(STUDY, ranks="sum")
    assert study_result(chosen, [pair]).sizes[0].throughput.median == 400


def test_what_was_lost_of_the_metrics_is_told(tmp_path: Path) -> None:
    report, member = with_ranks(tmp_path, [100.0] * 4)
    [file, *_] = sorted(report.run.directory.path.glob("tracking/**/*.jsonl"))
    file.write_text(file.read_text() + "junk\n" * 2)
    found = study_result(STUDY, [(report, member)], ranks="sum")
    assert found.lost == ("train-1-nodes-1: 2 damaged lines of what it recorded were skipped",)


def test_a_rank_that_never_wrote_is_named(tmp_path: Path) -> None:
    pair = with_ranks(tmp_path, [100.0, 90.0])
    found = study_result(STUDY, [pair], ranks="sum")
    [run], [size] = found.runs, found.sizes
    assert (size.throughput.median, run.summed, run.ranks, run.without) == (190, 2, 4, (2, 3))
    text = "train-1-nodes-1: images_per_second is the sum of 2 of 4 ranks: ranks 2, 3 recorded none"
    assert found.lost == (text,)
    data = scaling_report.as_data(found)
    [own] = data["runs"]
    assert (own["ranks"], own["ranks_summed"], own["ranks_without"], data["lost"]) == (4, 2, [2, 3], [text])
    first = study_result(STUDY, [pair], ranks="first")
    assert (first.lost, first.runs[0].summed, first.runs[0].without) == ((), None, ())


@pytest.mark.parametrize("value", [1e308, 5e-324, 0.0, -5.0, math.inf])
def test_a_value_that_is_no_throughput_is_named(tmp_path: Path, value: float) -> None:
    member = Member(STUDY, 1, 1)
    pairs = [(made.run(tmp_path, member, {"images_per_second": [value] * 2}), member)]
    shown = study_result(msgspec.structs.replace(STUDY, nodes=(1,), repeat=1), pairs)
    assert (shown.sizes, shown.left_out, scaling_report.figure(shown)) == (
        (),
        ("1 node, repetition 1: train-1-nodes-1 has no value of images_per_second from 1e-30 to 1e+30",),
        None,
    )


def test_the_largest_and_the_smallest_throughput_have_a_plot(tmp_path: Path) -> None:
    speeds = {(1, 1): 1e-30, (2, 1): 1e30, (4, 1): 1.0}
    shown = study_result(STUDY, made.study(tmp_path, speeds))
    assert scaling_report.figure(shown)


def test_a_run_that_was_removed_is_told_from_one_that_was_never_submitted(tmp_path: Path) -> None:
    one = msgspec.structs.replace(STUDY, nodes=(1, 2), repeat=1)
    pairs = made.study(tmp_path, {(1, 1): 100.0}, of=one)
    assert study_result(one, pairs).left_out == ("2 nodes, repetition 1: was not submitted",)
    scaling_runs.mark_submitted([StudyRun(pairs[0][0].run, pairs[0][1])])
    assert study_result(one, pairs).left_out == ("2 nodes, repetition 1: its run was removed",)
    assert scaling_runs.unfinished_study(scaling_runs.study_runs(tmp_path), one.digest) is None


def test_a_study_that_has_only_begun() -> None:
    shown = study_result(STUDY, [])
    assert (shown.sizes, shown.fits, shown.largest_efficient, len(shown.left_out)) == ((), (), None, 6)
    assert scaling_report.figure(shown) is None


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
        study_result(STUDY, [(report, member)], metric)
    wording(str(caught.value))


def test_without_numpy_only_the_laws_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    found = study_result(STUDY, made.study(tmp_path, SPEEDS))
    assert (len(found.sizes), found.fits) == (3, ())
    text = "no laws are fitted: numpy is not installed; run `pip install 'hpcdist[report]'`"
    assert found.lost == (text,)
