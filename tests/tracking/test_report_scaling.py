"""A scaling study in a report: the sizes that are among its runs, the laws and the plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.runs.job_states import Report
from hpcdist.studies import scaling_report
from hpcdist.studies.scaling_runs import Member
from hpcdist.tracking import report
from hpcdist.tracking.report import StudyView
from tests.studies import scaling_made as made
from tests.studies.scaling_made import STUDY
from tests.tracking.made_reports import HOSTILE, NOW
from tests.tracking.made_reports import run as any_run
from tests.tracking.test_report_page import LIBRARY, Read, written


def studies(reports: Sequence[Report]) -> list[StudyView]:
    return [*scaling_report.sections(reports)]


def shown(*reports: Report) -> Read:
    return Read(report.html(report_content(reports, NOW), LIBRARY))


SPEEDS = {(1, 1): 100.0, (2, 1): 190.0, (4, 1): 300.0}


def test_the_sizes_of_a_study_are_a_table_with_a_plot(tmp_path: Path) -> None:
    reports = [report for report, _ in made.study(tmp_path, SPEEDS)]
    [view] = studies([*reports, any_run(tmp_path, "other", {"loss": [1.0]})])
    assert view.title == "train: weak scaling, images_per_second"
    assert [row[:7] for row in view.rows] == [
        ("1", "4", "4", "1", "100", "1.00", "1.00"),
        ("2", "8", "8", "1", "190", "1.90", "0.95"),
        ("4", "16", "16", "1", "300", "3.00", "0.75"),
    ]
    assert [line.partition(":")[0] for line in view.lines] == [
        "Gustafson",
        "universal",
        "largest size with an efficiency of at least 0.8",
    ]
    read = shown(*reports)
    [figure] = json.loads(read.scripts[0])["studies"]
    assert [trace["name"] for trace in figure["data"]] == ["ideal", "Gustafson", "universal", "measured"]
    assert ("data-study", "0") in read.attributes
    assert "var Plotly" in read.scripts[1]
    assert "universal" in read.text


def test_ranks_that_are_missing_from_a_sum_are_named(tmp_path: Path) -> None:
    member = Member(replace(STUDY, ranks="sum"), 1, 1)
    [view] = studies([made.run(tmp_path, member, {"images_per_second": [5.0]})])
    text = "train-1-nodes-1: images_per_second is the sum of 1 of 4 ranks: ranks 1, 2, 3 recorded none"
    assert view.lines[-1] == text


def test_other_runs_have_none(tmp_path: Path) -> None:
    assert studies([any_run(tmp_path, "train", {"loss": [1.0]})]) == []


def test_a_metric_that_is_not_clear_is_a_sentence(tmp_path: Path) -> None:
    report = made.run(tmp_path, Member(STUDY, 1, 1), {"loss": [1.0]})
    [view] = studies([report])
    assert (view.rows, view.figure, len(view.lines)) == ((), None, 1)
    assert "name one of loss by --metric" in view.lines[0]


@pytest.mark.extended
def test_no_name_of_a_metric_is_markup(tmp_path: Path) -> None:
    for number, name in enumerate(HOSTILE):
        folder = tmp_path / str(number)
        report = made.run(folder, Member(STUDY, 1, 1), {f"{name}/s": [5.0]})
        elements = shown(report).elements
        assert not {"img", "b"} & elements.keys()
        assert elements.get("script", 0) == written(any_run(folder, "x", {"a": [5.0]})).elements["script"]
