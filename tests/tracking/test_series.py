"""Series over attempts, their points, and fewer points of long ones."""

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
from hpcdist.tracking.files import EntryReader, TrackedEntry
from hpcdist.tracking.series import Points, RecordedMetrics, SeriesKey, extremes, in_line, means

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


def read(run: Path) -> RecordedMetrics:
    return series.read(RunDirectory(run), RunDirectory(run).plan())


def curves(run: Path) -> dict[SeriesKey, list[tuple[float, float]]]:
    found = read(run)
    assert found.damaged == 0
    return {key: [*zip(points.steps, points.values, strict=True)] for key, points in found.series.items()}


def test_a_run_that_recorded_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == RecordedMetrics({}, [], 0)


def test_metrics_ranks_and_elements_are_series_of_their_own(tmp_path: Path) -> None:
    wrote(tmp_path, "7_0/0.0/rank-0", line(step=1, metrics={"a": 1, "b": 2}), line(params={"a": 1}))
    wrote(tmp_path, "7_0/0.0/rank-12", line(step=1, metrics={"a": 3}))
    wrote(tmp_path, "7_1/0.0/rank-0", line(step=5, metrics={"a": 4}))
    assert curves(tmp_path) == {
        SeriesKey("7_0", "a", 0): [(1, 1)],
        SeriesKey("7_0", "b", 0): [(1, 2)],
        SeriesKey("7_0", "a", 12): [(1, 3)],
        SeriesKey("7_1", "a", 0): [(5, 4)],
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
    assert curves(tmp_path) == {SeriesKey("7", "m", 0): steps}


def test_values_without_a_step_are_counted_over_all_attempts(tmp_path: Path) -> None:
    wrote(tmp_path, "7/0.0/rank-0", *logged([None, None], 0))
    wrote(tmp_path, "7/0.1/rank-0", *logged([None, 10, None], 1))
    assert curves(tmp_path) == {SeriesKey("7", "m", 0): [(0, 0), (1, 0), (2, 1), (10, 1), (11, 1)]}


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
    before, after = ("".join(logged(steps, 1)).encode() for steps in (range(2), range(2, 4)))
    file.write_bytes(before + text.encode(errors="surrogatepass") + after)
    found = read(tmp_path)
    left = 3 if not text.endswith("\n") else 4  # the next line is a part of a torn one
    assert (found.damaged, len(found.series[SeriesKey("7", "m", 0)].values)) == (damaged + left % 2, left)


@pytest.mark.parametrize("name", ["7/0.0/rank-0.n.1.txt", "7/0/rank-0.n.1.jsonl", "-7/0.0/rank-0.n.1.jsonl"])
def test_files_of_other_names_are_none(tmp_path: Path, name: str) -> None:
    file = tmp_path / "tracking" / name
    file.parent.mkdir(parents=True)
    file.write_text(line(metrics={"m": 1}))
    assert read(tmp_path) == RecordedMetrics({}, [], 0)


def test_what_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    wrote(tmp_path, "7/0.0/rank-0", *logged(range(3), 1))
    folder = tmp_path / "tracking" / "7" / "0.0"
    os.mkfifo(folder / "rank-1.n.1.jsonl")
    (folder / "rank-2.n.1.jsonl").symlink_to(folder / "rank-0.node.1.jsonl")
    (folder / "polyaxon-3").write_text("")
    (tmp_path / "tracking" / "8").symlink_to("8")
    (tmp_path / "tracking" / "9").write_text("")
    found = read(tmp_path)
    assert [*found.series[SeriesKey("7", "m", 0)].steps] == [0, 1, 2]
    assert {text.removeprefix(f"{tmp_path}/tracking/") for text in found.unread} == {
        "7/0.0/rank-1.n.1.jsonl was not read: it is a FIFO, not a regular file",
        "7/0.0/rank-2.n.1.jsonl was not read: it is a symbolic link",
        "8 was not read: Too many levels of symbolic links",
        "9 was not read: Not a directory",
    }


def test_a_file_that_grows_is_read_to_where_it_ended(tmp_path: Path) -> None:
    """A program may log faster than its file is read."""
    wrote(tmp_path, "7/0.0/rank-0", *logged(range(3), 1))
    file = tmp_path / "tracking/7/0.0/rank-0.node.1.jsonl"
    with file.open("rb") as stream, file.open("ab", buffering=0) as more:
        reader = EntryReader(stream)
        for step, _ in enumerate(reader.new()):
            more.write(b"".join(text.encode() for text in logged([3 + step], 1)))
        assert step == 2
        assert [entry.step for entry in reader.new()] == [3, 4, 5]


def test_what_is_recorded_beside_metrics_is_read_without_them(tmp_path: Path) -> None:
    wrote(tmp_path, "7/0.0/rank-0", line(step=1, metrics={"m": 1}), line(params={"a": 1}), "?\n")
    found = series.read_others(RunDirectory(tmp_path))
    assert found == RecordedMetrics({}, [("7", TrackedEntry(at=AT, params={"a": 1}))], 1)


STRANGE: Final = {
    "a step that is no number": ('"5"', "1", {0: 1.0}),
    "a step that is not finite": ('"-inf"', "1", {0: 1.0}),
    "a negative step": ("-3", "1", {-3: 1.0}),
    "a truth value as step": ("true", "1", None),
    "a truth value": ("1", "true", None),
    "NaN as a word": ("1", "NaN", None),
    "a large integer": (str(2**63), str(10**30), {2.0**63: 1e30}),
    "an integer beyond floats": ("1", "1" + "0" * 400, None),
    "a step beyond floats": ("1e999", "1", None),
    "keys that are there twice": ('1,"step":2', '1,"m":3', {2: 3.0}),
}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_numbers(tmp_path: Path, what: str) -> None:
    """Either they are values, or their line is damaged."""
    step, value, expected = STRANGE[what]
    wrote(tmp_path, "7/0.0/rank-0", f'{{"at":1,"step":{step},"metrics":{{"m":{value}}}}}\n')
    found = read(tmp_path)
    points = found.series.get(SeriesKey("7", "m", 0))
    assert (dict(zip(points.steps, points.values, strict=True)) if points else None) == expected
    assert found.damaged == (expected is None)


def test_of_a_run_with_more_names_than_there_is_room_for_the_first_are_kept(tmp_path: Path) -> None:
    """Each name costs memory, whatever it has: a program may make one of every step."""
    for number, names in ((0, ("a", "b")), (1, ("c", "a", "d"))):
        wrote(
            tmp_path, f"7/{number}.0/rank-0", *(line(step=number, metrics={name: number}) for name in names)
        )
    wrote(tmp_path, "7/0.0/rank-1", line(step=0, metrics={"a": 1}))
    found = series.read(RunDirectory(tmp_path), RunDirectory(tmp_path).plan(), most=3)
    assert {key: [*points.values] for key, points in found.series.items()} == {
        SeriesKey("7", "a", 0): [0, 1],
        SeriesKey("7", "b", 0): [0],
        SeriesKey("7", "a", 1): [1],
    }
    assert found.warnings == ("it recorded more than 3 series of metrics: those that came first are kept",)


# --- Points of one series in one line

STEPS = st.integers(-3, 12).map(float) | st.just(math.nan) | st.just(math.inf)


def points(steps: list[float]) -> Points:
    """Return points whose values are their numbers."""
    return Points(*(array("d", column) for column in (steps, range(len(steps)), range(len(steps)))))


def test_where_a_step_goes_back_the_later_values_hold() -> None:
    line = in_line(points([1, 2, 3, 2, 1, 1, 5]), 0)
    assert [*zip(line.steps, line.values, strict=True)] == [(1, 4), (1, 5), (5, 6)]


def test_what_has_no_step_follows_the_one_before_it() -> None:
    assert [*in_line(points([math.nan, math.nan, 7, math.inf]), 3).steps] == [3, 4, 7, 8]


@given(st.lists(STEPS, min_size=1, max_size=60))
def test_a_point_is_left_out_only_for_a_later_one(steps: list[float]) -> None:
    line = in_line(points(steps), 0)
    kept = [int(value) for value in line.values]
    assert [*line.steps] == sorted(line.steps)
    assert kept == sorted(kept)
    assert kept[-1] == len(steps) - 1
    assert in_line(line, 0) == line
    whole = [step for step in steps if math.isfinite(step)]
    if len(whole) == len(steps):
        for number in {*range(len(steps))} - {*kept}:
            assert any(step <= steps[number] for step in steps[number + 1 :])


# --- Fewer points

NAN: Final = math.nan
VALUES: Final = st.lists(
    st.floats(-1e308, 1e308) | st.sampled_from([NAN, math.inf, -math.inf]), min_size=1, max_size=200
)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(NAN), min_size=1, max_size=100), st.integers(1, 30))
def test_means_are_of_equal_shares(values: list[float], most: int) -> None:
    thin = means(values, most)
    assert len(thin) == min(most, len(values))
    finite = [value for value in values if math.isfinite(value)]
    assert all(math.isnan(value) or min(finite) - 1e-6 <= value <= max(finite) + 1e-6 for value in thin)
    if len(values) <= most:
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(thin, values, strict=True))


@given(VALUES, st.integers(5, 60))
def test_extremes_stay(values: list[float], most: int) -> None:
    """The first, the last, the lowest, the highest, and that there is a gap."""
    places = extremes(array("d", values), most)
    assert places == sorted({*places})
    assert len(places) <= most
    assert (places[0], places[-1]) == (0, len(values) - 1)
    kept = [values[place] for place in places]
    finite = [value for value in values if math.isfinite(value)]
    kept_finite = [value for value in kept if math.isfinite(value)]
    assert (min(kept_finite, default=0), max(kept_finite, default=0)) == (
        min(finite, default=0),
        max(finite, default=0),
    )
    assert (len(finite) < len(values)) == (len(kept_finite) < len(kept))


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([0, 9, 1, 2, 3, 4, -5, 5, 6, 0], [0, 1, 2, 6, 8, 9]),  # two shares of four between first and last
        ([0, 1, NAN, 3, 1, 1, 1, 1, 1, 0], [0, 1, 2, 3, 5, 9]),
        ([1, 2, 3], [0, 1, 2]),
    ],
)
def test_the_lowest_and_the_highest_of_each_share(values: list[float], places: list[int]) -> None:
    assert extremes(array("d", values), 8) == places
