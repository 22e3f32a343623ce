"""The plot of a study: what Plotly draws, and that no name is markup in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpcdist.studies import scaling_report
from hpcdist.studies.scaling_results import StudyResult, study_result
from hpcdist.studies.scaling_runs import Member
from tests.studies import scaling_made as made
from tests.studies.scaling_made import STUDY
from tests.studies.test_scaling_results import SPEEDS
from tests.tracking.made_reports import HOSTILE


def drawn(result: StudyResult) -> dict[str, Any]:
    figure = scaling_report.figure(result)
    assert figure
    return figure


def test_the_plot_has_the_ideal_line_the_laws_and_each_size(tmp_path: Path) -> None:
    figure = drawn(study_result(STUDY, made.study(tmp_path, SPEEDS)))
    [ideal, gustafson, universal, measured] = figure["data"]
    assert [trace["name"] for trace in (ideal, gustafson, universal)] == ["ideal", "Gustafson", "universal"]
    assert (ideal["x"][0], ideal["y"][0]) == (1, 100)
    assert (ideal["x"][-1], ideal["y"][-1]) == pytest.approx((4, 400))
    assert (measured["x"], measured["y"]) == ([1, 2, 4], [100, 190, 300])
    assert (measured["error_y"]["array"], measured["error_y"]["arrayminus"]) == ([10, 10, 0], [10, 10, 0])
    axes = figure["layout"]["xaxis"], figure["layout"]["yaxis"]
    assert [(axis["type"], axis["title"]["text"]) for axis in axes] == [
        ("log", "nodes"),
        ("log", "images_per_second"),
    ]


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    page = scaling_report.plot_page(drawn(study_result(STUDY, made.study(tmp_path, SPEEDS))))
    assert "images_per_second" in page
    assert not re.search(r"<(?:script|link)[^>]*(?:src|href)=", page)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_markup(tmp_path: Path, name: str) -> None:
    member = Member(STUDY, 1, 1)
    found = [(made.run(tmp_path, member, {name: [5.0]}), member)]
    text = drawn(study_result(STUDY, found, name))["layout"]["yaxis"]["title"]["text"]
    assert not set("<>\"'") & {*text}
    assert text.isprintable()


def test_a_figure_is_data_for_json(tmp_path: Path) -> None:
    speeds = {(1, 1): 1e-30, (2, 1): 1e30, (4, 1): 1.0}
    figure = drawn(study_result(STUDY, made.study(tmp_path, speeds)))
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
