"""The values of metrics over several attempts, ranks and elements, from files that may be damaged."""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import series
from hpcdist.tracking.series import Key, Metrics, Points

AT: Final = 1.8e9


def wrote(run: Path, place: str, *lines: str) -> None:
    """Write the file of one process: ``JOB/ATTEMPT/rank-N``."""
    file = run / "tracking" / f"{place}.node.1.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines))


def line(**entry: Any) -> str:
    return json.dumps({"at": AT, **entry}) + "\n"


def logged(steps: Iterable[float | None], value: float) -> list[str]:
    """Return the lines of one attempt, in which the metric is always the same."""
    return [line(step=step, metrics={"m": value}) for step in steps]


def read(run: Path) -> Metrics:
    return series.read(RunDirectory(run), RunDirectory(run).plan())


def curves(run: Path) -> dict[Key, list[tuple[float, float]]]:
    found = read(run)
    assert found.damaged == 0
    return {key: [*zip(points.steps, points.values, strict=True)] for key, points in found.series.items()}


def test_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == Metrics({}, [], 0)


def test_metrics_ranks_and_elements_are_series_of_their_own(tmp_path: Path) -> None:
    wrote(tmp_path, "7_0/0.0/rank-0", line(step=1, metrics={"a": 1, "b": 2}), line(params={"a": 1}))
    wrote(tmp_path, "7_0/0.0/rank-12", line(step=1, metrics={"a": 3}))
    wrote(tmp_path, "7_1/0.0/rank-0", line(step=5, metrics={"a": 4}))
    assert curves(tmp_path) == {
        Key("7_0", "a", 0): [(1, 1)],
        Key("7_0", "b", 0): [(1, 2)],
        Key("7_0", "a", 12): [(1, 3)],
        Key("7_1", "a", 0): [(5, 4)],
    }


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    values = ("inf", "-inf", "nan", 1)
    wrote(tmp_path, "7/0.0/rank-0", *(line(step=n, metrics={"a": value}) for n, value in enumerate(values)))
    [points] = read(tmp_path).series.values()
    assert [*points.values][:2] == [math.inf, -math.inf]
    assert math.isnan(points.values[2])
    assert series.summary(points) == (4, 1.0, 3.0, 1.0, 1.0)


def test_a_later_attempt_goes_on_where_the_one_before_had_got_to(tmp_path: Path) -> None:
    """Attempts count as numbers: the tenth comes after the second."""
    wrote(tmp_path, "7/0.0/rank-0", *logged(range(6), 0))
    wrote(tmp_path, "7/2.0/rank-0", *logged(range(4, 8), 2))
    wrote(tmp_path, "7/10.0/rank-0", *logged(range(6, 9), 10))
    steps = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 2), (5, 2), (6, 10), (7, 10), (8, 10)]
    assert curves(tmp_path) == {Key("7", "m", 0): steps}


def test_values_without_a_step_are_counted_over_all_attempts(tmp_path: Path) -> None:
    wrote(tmp_path, "7/0.0/rank-0", *logged([None, None], 0))
    wrote(tmp_path, "7/0.1/rank-0", *logged([None, 10, None], 1))
    assert curves(tmp_path) == {Key("7", "m", 0): [(0, 0), (1, 0), (2, 1), (10, 1), (11, 1)]}


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, unique=True).map(sorted), min_size=1, max_size=5))
def test_each_step_is_there_once_from_the_last_attempt_that_reached_it(attempts: list[list[int]]) -> None:
    points: Points | None = None
    for number, steps in enumerate(attempts):
        new = Points(array("d", steps), array("d", [number] * len(steps)), array("d", [0] * len(steps)))
        points = series.continued(points, new)
    assert points
    assert [*points.steps] == sorted({*points.steps})
    assert [*points.values] == sorted(points.values)
    assert [*points.steps][-len(attempts[-1]) :] == attempts[-1]


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        ('{"at": 1, "metrics": {"m": 9}', 0),  # the end of a program that was killed
        ("\n", 0),
        ("{}\n", 1),
        ("\0\0\0\n", 1),
        ('{"at": 1, "metrics": {"m": [1]}}\n', 1),
        ('{"at": "now", "metrics": {"m": 1}}\n', 1),
        ('{"at": 1, "metrics": {"m": "\ud800"}}\n', 1),
        ("[" * 100_000 + "\n", 1),
        ('{"at": 1, "metrics": {"m": "high"}}\n', 0),  # no number, so no value
        (f'{{"at": 1, "tags": ["{"x" * (40 << 20)}"], "metrics": {{"m": 9}}}}\n', 1),
    ],
    ids=range(10),
)
def test_a_damaged_line_costs_that_line(tmp_path: Path, text: str, damaged: int) -> None:
    file = tmp_path / "tracking/7/0.0/rank-0.node.1.jsonl"
    file.parent.mkdir(parents=True)
    whole = [line.encode() for line in logged(range(2), 1)]
    file.write_bytes(b"".join([*whole, text.encode(errors="surrogatepass"), *whole]))
    found = read(tmp_path)
    left = 3 if not text.endswith("\n") else 4  # the next line is a part of a torn one
    assert (found.damaged, len(found.series[Key("7", "m", 0)].values)) == (damaged + left % 2, left)


@pytest.mark.parametrize("name", ["7/0.0/rank-0.n.1.txt", "7/0/rank-0.n.1.jsonl", "-7/0.0/rank-0.n.1.jsonl"])
def test_files_of_other_names_are_none(tmp_path: Path, name: str) -> None:
    file = tmp_path / "tracking" / name
    file.parent.mkdir(parents=True)
    file.write_text(line(metrics={"m": 1}))
    assert read(tmp_path) == Metrics({}, [], 0)


def test_a_file_that_is_none_blocks_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "tracking" / "7" / "0.0"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "rank-0.n.1.jsonl")
    with pytest.raises(OSError, match="it is a FIFO, not a regular file"):
        read(tmp_path)
