"""Plots of metrics: their rows, and the points that are left."""

from __future__ import annotations

import math
from array import array

import pytest

from hpcdist.tracking import report_data, report_plots
from hpcdist.tracking.report_data import Share
from hpcdist.tracking.report_plots import Curve, CurveSummary, Plot
from hpcdist.tracking.series import Points


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
