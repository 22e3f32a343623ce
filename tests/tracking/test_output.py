"""Metrics found in the output of runs by the experiment's expressions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import series
from hpcdist.tracking.series import SeriesKey
from tests.tracking.test_series import line, wrote

LOSS = {"metrics": {"loss": r"loss[ =](\S+)"}, "step": r"epoch (\d+)"}


def run(
    folder: Path, tracking: object, log: str, *, name: str = "job.out", labelled: bool = False
) -> RunDirectory:
    """Return a run with this output."""
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / name).write_text(log)
    plan: dict[str, Any] = {"identity": {"tracking": tracking}, "launch": {"labelled": labelled}}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "events").write_text(
        "started 7_3 1800000000 0\nstarted 7_12 1800000000 0\nstarted 9 1800000000 0\n"
    )
    return RunDirectory(folder)


def curves(directory: RunDirectory) -> dict[SeriesKey, list[tuple[float, float]]]:
    return {
        key: [*zip(points.steps, points.values, strict=True)]
        for key, points in series.read(directory, directory.plan()).series.items()
    }


def test_a_step_holds_for_its_line_and_those_after_it(tmp_path: Path) -> None:
    log = "loss 9\nepoch 1 loss=1\nepoch 2\nloss 0.5 lr 3\nloss nan\nloss none\nepoch x\nloss 2e-1\n"
    values = curves(run(tmp_path, LOSS, log))[SeriesKey("9", "loss", 0)]
    assert values[:3] == [(0, 9), (1, 1), (2, 0.5)]
    assert [step for step, _ in values[3:]] == [2, 2]
    assert values[4] == (2, 0.2)


def test_without_an_expression_for_the_step_values_are_counted(tmp_path: Path) -> None:
    assert curves(run(tmp_path, {"metrics": {"a": "a(\\d)"}}, "a5\na6\n")) == {
        SeriesKey("9", "a", 0): [(0, 5), (1, 6)]
    }


def test_ranks_are_those_of_the_labels(tmp_path: Path) -> None:
    log = "0: epoch 1\n1: epoch 1\n1: loss 3\n0: loss 2\nloss 4\n"
    assert curves(run(tmp_path, LOSS, log, labelled=True)) == {
        SeriesKey("9", "loss", 0): [(1, 2), (1, 4)],
        SeriesKey("9", "loss", 1): [(1, 3)],
    }
    assert curves(run(tmp_path, {"metrics": {"x": "^(\\d): "}}, log)) == {
        SeriesKey("9", "x", 0): [*enumerate([0, 1, 1, 0])]
    }


def test_a_step_that_goes_back_is_that_of_a_later_attempt(tmp_path: Path) -> None:
    log = "".join(
        f"epoch {step} loss {value}\n" for step, value in ((1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (1, 3))
    )
    directory = run(tmp_path, LOSS, log)
    assert curves(directory) == {SeriesKey("9", "loss", 0): [(1, 3)]}


def test_elements_of_an_array_have_outputs_of_their_own(tmp_path: Path) -> None:
    run(tmp_path, LOSS, "loss 1\n", name="job-3.out")
    directory = run(tmp_path, LOSS, "loss 2\n", name="job-12.out")
    assert curves(directory) == {
        SeriesKey("7_3", "loss", 0): [(0, 1)],
        SeriesKey("7_12", "loss", 0): [(0, 2)],
    }


def test_what_the_program_records_itself_counts(tmp_path: Path) -> None:
    directory = run(tmp_path, LOSS, "loss 1\n")
    wrote(tmp_path, "9/0.0/rank-0", line(step=5, metrics={"loss": 0.5}))
    assert curves(directory) == {SeriesKey("9", "loss", 0): [(5, 0.5)]}


@pytest.mark.parametrize(
    "tracking",
    [
        None,
        3,
        {"metrics": 3},
        {"metrics": {"a": 3}},
        {"metrics": {"a": "("}},
        {"metrics": {"a": "a"}},
        {"step": "(a)"},
    ],
)
def test_a_plan_without_expressions_that_work(tmp_path: Path, tracking: object) -> None:
    assert curves(run(tmp_path, tracking, "a\n")) == {}


def test_an_expression_that_takes_for_ever(tmp_path: Path) -> None:
    directory = run(tmp_path, {"metrics": {"a": "(?:x+x+)+(y)"}}, "x" * 40 + "\n")
    wrote(tmp_path, "9/0.0/rank-0", line(step=5, metrics={"loss": 0.5}))
    found = series.read(directory, directory.plan(), seconds=0.2)
    assert [*found.series] == [SeriesKey("9", "loss", 0)]
    [why] = found.unread
    assert re.fullmatch(r"the expressions of `tracking` take too long on .*/job.out; .*", why)
