"""The plots of a report: metrics and searches."""

from __future__ import annotations

import math
import random
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.runs import attempts
from hpcdist.runs.job_states import Report
from hpcdist.tracking import comparison, report_data, report_plots
from hpcdist.tracking.report_data import Share
from hpcdist.tracking.report_plots import (
    Column,
    Curve,
    CurveSummary,
    Plot,
    SearchView,
    TrialSpan,
    epsilon_squared,
    importance,
)
from hpcdist.tracking.series import Points
from tests.tracking import made_reports as made
from tests.tracking.made_reports import NOW
from tests.tracking.test_report_page import written

# --- Metrics


def series(metric: str, values: list[float], *, item: int = 0, at: float = 1000.0) -> Curve:
    times = [at + number if at else 0.0 for number in range(len(values))]
    points = Points(array("d", range(len(values))), array("d", values), array("d", times))
    return Curve.of(metric, (item, f"run-{item}"), points, 1000.0)


def test_a_plot_for_each_metric_by_name_with_a_trace_for_each_run() -> None:
    found = report_plots.plots(
        [series("loss", [3, math.nan, 1.23456789], item=1), series("loss", [2], at=0), series("acc", [0.5])]
    )
    assert found == Share(
        [
            Plot(
                "acc",
                [CurveSummary(0, "run-0", 1, 0.5, 0, (0.5, 0), (0.5, 0))],
                [{"item": 0, "label": "run-0", "x": [0], "y": [0.5], "t": [0]}],
            ),
            Plot(
                "loss",
                [
                    CurveSummary(0, "run-0", 1, 2, 0, (2, 0), (2, 0)),
                    CurveSummary(1, "run-1", 3, 1.23456789, 2, (1.23456789, 2), (3, 0)),
                ],
                [
                    {"item": 0, "label": "run-0", "x": [0], "y": [2], "t": None},
                    {
                        "item": 1,
                        "label": "run-1",
                        "x": [0, 1, 2],
                        "y": [3, None, 1.234568],
                        "t": [0, 1, 2],
                    },
                ],
            ),
        ]
    )


def test_a_series_without_a_finite_value_has_no_lowest_and_no_highest() -> None:
    [plot] = report_plots.plots([series("a", [math.nan, math.inf])]).items
    [row] = plot.rows
    assert (row.low, row.high, row.last) == (None, None, math.inf)
    assert plot.traces[0]["y"] == [None, None]


def test_the_first_of_several_equal_values_is_the_best() -> None:
    [plot] = report_plots.plots([series("a", [1, 5, 1, 5])]).items
    assert (plot.rows[0].low, plot.rows[0].high) == ((1, 0), (5, 1))


@pytest.mark.parametrize(
    ("count", "length"),
    [(1, 5000), (100, 5000), (3000, 50), pytest.param(3000, 5000, marks=pytest.mark.extended)],
)
def test_the_points_of_a_page_are_bounded(count: int, length: int) -> None:
    values = [float(number) for number in range(length)]
    share = report_plots.plots(series("m", values, item=number) for number in range(count))
    points = [len(trace["x"]) for plot in share.items for trace in plot.traces]
    assert sum(points) <= 105_000
    assert min(points) >= 30
    assert (len(points), share.left_out) == (
        min(count, report_data.MOST_SERIES),
        max(0, count - report_data.MOST_SERIES),
    )


def test_the_number_of_plots_is_bounded() -> None:
    share = report_plots.plots(series(f"{number:04}", [1]) for number in range(400))
    assert (len(share.items), share.left_out) == (300, 100)


# --- Importance of params

CHANCE = random.Random(1)  # noqa: S311 - nothing secret
LR = [CHANCE.random() for _ in range(60)]
NOISE = [CHANCE.random() for _ in range(60)]
OPT = [CHANCE.choice(["sgd", "adam"]) for _ in range(60)]
LOSS = [(lr - 0.5) ** 2 + 0.08 * (opt == "sgd") for lr, opt in zip(LR, OPT, strict=True)]
PARAMS: dict[str, Any] = {"noise": NOISE, "opt": OPT, "lr": LR, "same": [1] * 60}


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("missing", ["", "sklearn", "optuna"])
def test_what_the_metric_depends_on_matters_most(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        without(missing, monkeypatch)
    found = report_plots.importance(PARAMS, LOSS)
    assert found is not None
    assert [*found.shares] == ["lr", "opt", "noise"]  # though no straight line shows how
    assert found.shares["lr"] > 0.5 > found.shares["opt"]
    assert all(0 <= share <= 1 for share in found.shares.values())
    assert found.measure.startswith("epsilon squared" if missing else "fANOVA by Optuna")


def test_epsilon_squared_is_that_of_the_books() -> None:
    values = [2.0, 4, 6, 10, 12, 14, 9, 11, 13]
    groups = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    # the means are 4, 12 and 11, and 9 of all: sums of squares of 24 within the groups and 138 in all
    assert epsilon_squared(groups, values) == pytest.approx(1 - (24 / 6) / (138 / 8))
    assert epsilon_squared(["a", "b"] * 4, [1.0, 1, 2, 2, 3, 3, 4, 4]) == 0
    assert epsilon_squared([*"abcd"], [1.0, 2, 3, 4]) == 0  # a group each explains nothing


def test_numbers_of_many_values_are_four_groups() -> None:
    column = [float(number) for number in range(12)]
    assert epsilon_squared(column, [0.0] * 3 + [1] * 3 + [2] * 3 + [3] * 3) == 1


@pytest.mark.parametrize(
    ("params", "values"),
    [
        ({"a": [1, 2, 3]}, [1, 2, 3]),
        ({"a": [1, 2, 3, 4]}, [1] * 4),
        ({"a": [1] * 5}, [1, 2, 3, 4, 5]),
        ({}, []),
    ],
)
def test_of_too_little_nothing_is_said(params: dict[str, Any], values: list[float]) -> None:
    assert report_plots.importance(params, values) is None


def test_values_of_any_kind_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    odd: list[Any] = [10**400, "x", [1], None, True, 1.5]
    for missing in ("", "optuna"):
        if missing:
            without(missing, monkeypatch)
        found = report_plots.importance({"odd": odd * 2}, [1.0, 2, 3, 4, 5, 6] * 2)
        assert found is not None
        assert found.shares["odd"] == pytest.approx(1)


# --- Searches

TRIALS = [{"lr": lr, "opt": opt, "n": 1} for lr in (0.001, 0.1) for opt in ("sgd", "adam")]


def found(report: Report) -> SearchView:
    [one] = report_content([report], NOW).searches
    return one


def test_the_trials_are_shown_with_params_metric_and_times(tmp_path: Path) -> None:
    shown = found(made.search(tmp_path, TRIALS, [0.5, 0.25, None, 0.75]))
    assert (shown.metric, shown.is_maximized, shown.best) == ("loss", False, "trial 2, 0.25")
    assert (shown.numbers.items, shown.reached) == ([1, 2, 3, 4], [0.5, 0.25, None, 0.75])
    assert shown.columns.items == [
        Column("lr", [0.001, 0.001, 0.1, 0.1], is_numeric=True, is_log=True),
        Column("opt", ["sgd", "adam", "sgd", "adam"], is_numeric=False, is_log=False),
    ]
    assert shown.bars.items == [
        TrialSpan(1, "completed", 0, 60, 2),
        TrialSpan(2, "completed", 0, 60, 2),
        TrialSpan(3, "failed", 60, 120, 2),
        TrialSpan(4, "completed", 60, 120, 2),
    ]
    assert shown.gpus == [(0, 4), (60, 4), (120, 0)]
    assert shown.importance is None  # of three values


def test_without_gpus_the_trials_that_run_are_counted(tmp_path: Path) -> None:
    shown = found(made.search(tmp_path, TRIALS, [1, 2, 3], gpus=0, order="-loss"))
    assert (shown.has_gpus, shown.gpus) == (False, [(0, 2), (60, 1), (120, 0)])
    assert (shown.best, shown.reached) == ("trial 3, 3", [1, 2, 3, None])
    assert shown.data(str)["use"] == {"name": "trials that run", "t": [0, 60, 120], "n": [2, 1, 0]}


def test_other_runs_have_no_search(tmp_path: Path) -> None:
    assert report_content([made.run(tmp_path, "train", {"loss": [1.0]})], NOW).searches == []


def search(report: Report, most: int) -> SearchView | None:
    items = comparison.tracked(report.run, report.run.directory.plan())
    return report_plots.search(report.run, attempts.read(report, NOW), items, NOW, most)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    report = made.search(tmp_path, TRIALS, [1, 2, 3, 4])
    shown = search(report, most=3)
    assert shown
    assert (shown.numbers.items, shown.numbers.left_out) == ([1, 2, 3], 1)
    assert [column.values for column in shown.columns.items] == [[0.001, 0.001, 0.1], ["sgd", "adam", "sgd"]]


def test_results_are_those_of_all_trials_also_of_those_that_are_not_shown(tmp_path: Path) -> None:
    report = made.search(tmp_path, [*TRIALS, *TRIALS], [1, 2, 3, 4, 5, 6, 7, 0.5])
    few, every = (search(report, most) for most in (6, 100))
    assert few
    assert every
    assert (few.numbers.left_out, few.best) == (2, "trial 8, 0.5")
    assert (few.best, few.gpus) == (every.best, every.gpus)
    spread = (0, 1, 2, 4, 5, 6)
    assert few.importance == importance(
        {name: [TRIALS[place % 4][name] for place in spread] for name in ("lr", "opt")},
        [(1, 2, 3, 4, 5, 6, 7, 0.5)[place] for place in spread],
    )


def test_the_page_shows_importance_and_a_plot_for_each_param(tmp_path: Path) -> None:
    lr = [0.1 * number for number in range(1, 9)]
    report = made.search(tmp_path, [{"lr": one, "n": number % 2} for number, one in enumerate(lr)], lr)
    read = written(report)
    text = " ".join(read.text.split())
    assert "8 trials; loss, the lower the better; best: trial 1, 0.1" in text
    assert "Importance of the params fANOVA by Optuna: the share" in text
    kinds = [value for name, value in read.attributes if name == "data-kind"]
    assert kinds == ["parallel", "against", "against", "time"]


def test_secrets_among_the_params_are_masked(tmp_path: Path) -> None:
    trials = [{"api_key": f"hunter{number}22"} for number in range(3)]
    read = written(made.search(tmp_path, trials, [1, 2, 3]))
    assert "hunter" not in read.text + "".join(read.scripts)
