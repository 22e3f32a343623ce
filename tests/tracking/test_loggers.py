"""Metrics in files that programs write anyway, among the outputs of a run."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.tracking import series
from hpcdist.tracking.series import SeriesKey
from tests.tracking.test_series import line, wrote

LIGHTNING = "epoch,step,train_loss,val_acc\n0,49,1.5,\n0,49,,0.5\n1,99,nan,\n"


def write(run: Path, name: str, text: str, at: float = 0.0) -> RunDirectory:
    file = run / "outputs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (at, at))
    (run / "events").write_text("started 7_3 1800000000 0\nstarted 9 1800000000 0\n")
    return RunDirectory(run)


def curves(run: RunDirectory) -> dict[str, list[tuple[float, float]]]:
    return {
        f"{key.job} {key.name}": [*zip(points.steps, map(float, points.values), strict=True)]
        for key, points in series.read(run, StoredPlan()).series.items()
    }


OBJECT = '{"accuracy": 0.9, "ranks": 2, "name": "x", "ok": true, "no": null}'
LINES = '{"step": 5, "epoch": 1, "loss": 2}\n\n{"step": 6, "loss": 1}\n{"step"'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("metrics.json", OBJECT, {"accuracy": [(0, 0.9)], "ranks": [(0, 2)]}),
        ("metrics.json", '[{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": 1}]', {"loss": [(1, 2), (2, 1)]}),
        ("metrics.jsonl", LINES, {"epoch": [(5, 1)], "loss": [(5, 2), (6, 1)]}),
        ("a/b/c/progress.csv", "training_iteration,reward\n1,3.5\n2,4\n", {"reward": [(1, 3.5), (2, 4)]}),
        ("a/b/c/d/progress.csv", "training_iteration,reward\n1,3.5\n", {}),
        ("metrics.txt", "1", {}),
        ("metrics.json", "[" * 100_000, {}),
        ("metrics.json", "3", {}),
        ("metrics.csv", "", {}),
        ("metrics.csv", "a\0b,c\n1,2,3,4\n\0\n", {"c": [(0, 2)]}),
    ],
    ids=range(10),
)
def test_files(tmp_path: Path, name: str, text: str, expected: dict[str, list[tuple[float, float]]]) -> None:
    found = curves(write(tmp_path, name, text))
    assert {name.removeprefix("9 "): values for name, values in found.items() if "\0" not in name} == expected


def test_lightnings_file_has_empty_cells(tmp_path: Path) -> None:
    found = curves(write(tmp_path, "lightning_logs/version_0/metrics.csv", LIGHTNING))
    assert found["9 val_acc"] == [(49, 0.5)]
    assert found["9 train_loss"][:1] == [(49, 1.5)]
    assert [step for step, _ in found["9 train_loss"]] == [49, 99]


def test_a_later_file_goes_on_where_the_one_before_had_got_to(tmp_path: Path) -> None:
    write(tmp_path, "version_1/metrics.csv", "step,loss\n2,20\n3,30\n", at=2)
    run = write(tmp_path, "version_0/metrics.csv", "step,loss\n1,1\n2,2\n", at=1)
    assert curves(run) == {"9 loss": [(1, 1), (2, 20), (3, 30)]}


def test_elements_of_an_array_have_outputs_of_their_own(tmp_path: Path) -> None:
    assert curves(write(tmp_path, "3/metrics.json", '{"loss": 1}')) == {"7_3 loss": [(0, 1)]}


def test_what_the_program_records_itself_counts(tmp_path: Path) -> None:
    wrote(tmp_path, "9/0.0/rank-0", line(step=5, metrics={"loss": 0.5}))
    run = write(tmp_path, "metrics.json", '{"loss": 1, "accuracy": 2}')
    found = series.read(run, StoredPlan()).series
    assert {key: [*points.values] for key, points in found.items()} == {
        SeriesKey("9", "loss", 0): [0.5],
        SeriesKey("9", "accuracy", 0): [2],
    }


def test_links_are_not_followed(tmp_path: Path) -> None:
    run = write(tmp_path / "run", "note", "")
    (tmp_path / "metrics.json").write_text('{"secret": 1}')
    (run.path / "outputs" / "metrics.json").symlink_to(tmp_path / "metrics.json")
    (run.path / "outputs" / "up").symlink_to(tmp_path)
    assert curves(run) == {}
    (run.path / "outputs").rename(tmp_path / "elsewhere")
    (run.path / "outputs").symlink_to(tmp_path)
    assert curves(run) == {}


def test_a_file_that_is_too_large_is_named(tmp_path: Path) -> None:
    run = write(tmp_path, "metrics.jsonl", "")
    file = tmp_path / "outputs" / "metrics.jsonl"
    with file.open("a") as stream:
        stream.truncate((1 << 30) + 1)
    assert series.read(run, StoredPlan()).unread == (f"{file} was not read: it is larger than 1024 MiB",)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "head", "line"),
    [("metrics.jsonl", "", '{"step": 1, "loss": 0.5}\n'), ("metrics.csv", "step,loss\n", "1,0.5\n")],
)
def test_a_long_file_does_not_fill_the_memory(tmp_path: Path, name: str, head: str, line: str) -> None:
    run = write(tmp_path, name, head + line * 200_000)
    tracemalloc.start()
    [points] = series.read(run, StoredPlan()).series.values()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(points.values) == 200_000
    assert peak < 60 * 200_000 + (70 << 20)  # a buffer of 64 MiB is for the event log


def test_a_large_value_of_json_is_not_read(tmp_path: Path) -> None:
    run = write(tmp_path, "metrics.json", "")
    os.truncate(run.outputs / "metrics.json", (64 << 20) + 1)
    [why] = series.read(run, StoredPlan()).unread
    assert why.endswith("metrics.json was not read: it is larger than 64 MiB")
