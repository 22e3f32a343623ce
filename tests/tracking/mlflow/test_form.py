"""Names, values, times and states as MLflow takes them."""

from __future__ import annotations

import math
import posixpath
import re
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcdist.runs.job_states import Report
from hpcdist.schedulers.job import JobState
from hpcdist.tracking import export, mlflow
from hpcdist.tracking.export import Item, Name
from hpcdist.tracking.mlflow import MetricPoint
from hpcdist.tracking.series import Points
from tests.tracking.made import AT, COMPLETED, made


@pytest.fixture
def item(tmp_path: Path) -> Item:
    [found], _ = export.read(Report(made(tmp_path, f"started 7 {AT} 0"), COMPLETED), AT)
    return found


def takes(name: str) -> bool:
    """Return what MLflow 3.17 returns of a name (mlflow/utils/validation.py)."""
    norm = posixpath.normpath(name)
    is_path = norm == name and norm != "." and not norm.startswith(("..", "/"))
    return bool(name and re.match(r"^[/\w.\- :]*$", name) and is_path and len(name) <= 250)


@pytest.mark.parametrize("name", ["loss", "val/loss", "a b:c-d.e_f", "Größe", "x" * 250])
def test_a_name_that_mlflow_takes_stays(name: str) -> None:
    assert mlflow.key(name) == name


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        *(
            ("acc@1", "acc_1-"),
            ("loss (%)", "loss ___-"),
            ("a\nb", "a_b-"),
            ("/abs", "abs-"),
            ("a//b", "a/b-"),
        ),
        *(
            ("../../x", "x-"),
            ("..x", "x-"),
            (".", "unnamed-"),
            ("", "unnamed-"),
            ("x" * 251, "x" * 240 + "-"),
        ),
    ],
)
def test_any_other_is_changed_and_marked(name: str, begin: str) -> None:
    assert re.fullmatch(re.escape(begin) + "[0-9a-f]{6}", mlflow.key(name))


@given(st.lists(st.text(max_size=300) | st.text("ab@/.", max_size=6), unique=True))
@example([".../0", "..../", "./.a"])
def test_mlflow_takes_them_all_and_none_are_mixed(names: list[str]) -> None:
    keys = [mlflow.key(name) for name in names]
    assert all(map(takes, keys))
    assert len({*keys}) == len(keys)


@pytest.mark.parametrize(
    "name", ["m.pt", "a b/c (1).txt", ".hidden/x", "..x", "e=0.1&lr=1", "Größe", "[0]", "a:b"]
)
def test_a_path_that_mlflow_takes_stays(name: str) -> None:
    assert mlflow.file_path(name) == name


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        *(
            ("a#b", "a_b-", ""),
            ("a?b.pt", "a_b-", ".pt"),
            ("d%2f..%2fx", "d_2f.-", "._2fx"),
            ("a\\b", "a_b-", ""),
        ),
        *(("x\ny/m.pt", "x_y-", "/m.pt"), ("%" * 250, "_" * 60 + "-", "")),
    ],
)
def test_any_other_path_is_changed_and_marked(name: str, begin: str, end: str) -> None:
    assert re.fullmatch(re.escape(begin) + "[0-9a-f]{6}" + re.escape(end), mlflow.file_path(name))


def test_points(item: Item) -> None:
    arrays = (array("d", [0.5, 7]), array("d", [1, math.inf]), array("d", [AT + 0.0625, 0]))
    item = item._replace(series={Name("m", 0): Points(*arrays), Name("m", 3): Points(*arrays)})
    first, second = MetricPoint("m", 1.0, AT * 1000 + 62, 0), MetricPoint("m", math.inf, AT * 1000, 7)
    other = "rank-3/m"
    assert [*mlflow.points(item)] == [first, second, first._replace(key=other), second._replace(key=other)]


def test_what_mlflow_keeps_of_a_point() -> None:
    values = (math.nan, math.inf, -math.inf, 1.5)
    most = sys.float_info.max
    assert [MetricPoint("m", value, 1, 2).stored for value in values] == [
        *(("nan", 1, 2), (most, 1, 2), (-most, 1, 2), (1.5, 1, 2))
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        (0.1, "0.1"),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1, "a"]'),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_values_of_params(value: Any, text: str) -> None:
    assert mlflow.param_text(value) == text


def test_a_value_that_was_cut_is_the_same() -> None:
    assert mlflow.is_same("x" * 6000, "x" * 7000)
    assert not mlflow.is_same("x", "xx")


def test_no_end_is_made_up() -> None:
    assert {
        state: mlflow.run_status(state) for state in JobState if mlflow.run_status(state) != "FAILED"
    } == {
        JobState.COMPLETED: "FINISHED",
        JobState.CANCELLED: "KILLED",
        JobState.PREEMPTED: "KILLED",
        JobState.PENDING: "SCHEDULED",
        JobState.UNSUBMITTED: "SCHEDULED",
        JobState.RUNNING: "RUNNING",
        JobState.SUSPENDED: "RUNNING",
        JobState.UNKNOWN: "RUNNING",
        JobState.VANISHED: "RUNNING",
    }


def test_the_name_of_a_model_has_no_slash_and_no_colon(item: Item) -> None:
    assert mlflow.model_name(item, "dir/m:1.pt") == "train-dir.m.1.pt"


def test_what_was_changed(item: Item) -> None:
    arrays = (array("d", [0.5]), array("d", [1]), array("d", [0]))
    item = item._replace(series={Name("acc@1", 0): Points(*arrays)}, tags=("fine",))
    assert [*mlflow.changes(item, {"long": "x" * 6001})] == [
        f"MLflow does not take these names of metrics: 'acc@1' is {mlflow.key('acc@1')!r}",
        "MLflow takes 6000 characters of a param; these were cut: long",
        "MLflow takes whole steps; those of these metrics were rounded down: acc@1",
    ]
    assert [*mlflow.changes(item._replace(series={}), {"a": "1"})] == []
