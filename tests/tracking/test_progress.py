"""How far attempts got, and what the next ones did again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpcdist.runs.event_states import Attempt
from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking.files import AttemptProgress, progress


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "attempts").mkdir()
    (tmp_path / "checkpoints").mkdir()
    return RunDirectory(tmp_path)


def record(run: RunDirectory, name: str, steps: Iterable[float | None], rank: int = 0) -> Path:
    """Record a metric at these steps in this attempt of job 7."""
    folder = run.path / "tracking" / "7" / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"rank-{rank}.n1.5.jsonl"
    file.write_text("".join(f"{json.dumps(entry(step))}\n" for step in steps))
    return file


def entry(step: float | None) -> dict[str, object]:
    return {"at": 1.0, "step": step, "metrics": {"loss": 0.5, "padding": 1.0}}


def begin(run: RunDirectory, *names: str) -> list[Attempt]:
    """Write the files of these attempts of job 7, each of ten seconds that ended by a failure."""
    for number, name in enumerate(names):
        (run.path / "attempts" / str(number)).write_text(f"7 {name}\n")
    return [attempt(name, 10.0 * place) for place, name in enumerate(names)]


def attempt(name: str, at: float, job: str = "7") -> Attempt:
    start, again = map(int, name.split("."))
    return Attempt(job, (start, again), "failed", at, at, at + 10)


def test_steps_that_were_done_again_are_lost(run: RunDirectory) -> None:
    found = begin(run, "0.0", "1.0", "1.1")
    record(run, "0.0", range(100))
    record(run, "1.0", range(80, 150))
    record(run, "1.1", range(150, 160))
    assert progress(run, found) == [
        AttemptProgress(0, 99, 20),
        AttemptProgress(1, 149, 0),
        AttemptProgress(2, 159),
    ]


def test_a_program_that_records_each_tenth_step_loses_whole_intervals(run: RunDirectory) -> None:
    found = begin(run, "0.0", "1.0")
    record(run, "0.0", range(10, 101, 10))
    record(run, "1.0", range(90, 121, 10))
    assert progress(run, found) == [AttemptProgress(0, 100, 20), AttemptProgress(1, 120)]


def test_a_step_that_was_recorded_at_the_signal_is_not_lost(run: RunDirectory) -> None:
    """It lies between those of the ends of epochs."""
    found = begin(run, "0.0", "1.0")
    record(run, "0.0", [22, 44, 59])
    record(run, "1.0", [66, 88])
    assert progress(run, found) == [AttemptProgress(0, 59, 0), AttemptProgress(1, 88)]


def test_what_recorded_nothing_lost_an_unknown_number_of_steps(run: RunDirectory) -> None:
    found = begin(run, "0.0", "1.0", "2.0")
    record(run, "0.0", range(6))
    record(run, "1.0", [None, None])
    record(run, "2.0", [3])
    assert progress(run, found) == [AttemptProgress(0, 5, 3), AttemptProgress(1), AttemptProgress(2, 3)]


def test_steps_are_those_of_the_first_rank_and_damaged_lines_have_none(run: RunDirectory) -> None:
    [found] = begin(run, "0.0")
    record(run, "0.0", [999], rank=1)
    with record(run, "0.0", [1, 2]).open("a") as file:
        file.write('[1]\n{"step": 5}\n{"step": true, "metrics": 1}\n{"step": 7, "metr')
    assert progress(run, [found]) == [AttemptProgress(0, 2)]


def test_only_the_ends_of_long_files_are_read(run: RunDirectory) -> None:
    found = begin(run, "0.0", "1.0")
    file = record(run, "0.0", range(5000))
    middle = b"\0" * (1 << 21)
    file.write_bytes(file.read_bytes()[:200_000] + middle + file.read_bytes()[200_000:])
    record(run, "1.0", range(4000, 4100))
    assert progress(run, found) == [AttemptProgress(0, 4999, 1000), AttemptProgress(1, 4099)]


def test_time_since_the_last_checkpoint(run: RunDirectory) -> None:
    found = begin(run, "0.0", "1.0", "2.0")
    (run.path / "attempts" / "0.saved").write_text("4.0\n")
    (run.path / "attempts" / "1.saved").write_text("4.0\n")
    (run.path / "checkpoints" / "deep").mkdir()
    for name, at in (("old", 3), ("deep/new", 27)):
        (run.path / "checkpoints" / name).touch()
        os.utime(run.path / "checkpoints" / name, (at, at))
    expected = [
        AttemptProgress(0, None, None, 6.0),
        AttemptProgress(1, None, None, 10.0),
        AttemptProgress(2, None, None, 3.0),
    ]
    assert progress(run, found) == expected
    completed = found[2]._replace(state="completed")
    assert progress(run, [*found[:2], completed]) == [*expected[:2], AttemptProgress(2)]
    assert progress(run, [found[0]._replace(ended=None)]) == [AttemptProgress(0)]


def test_elements_of_an_array_are_followed_by_their_own_attempts(run: RunDirectory) -> None:
    for element, place in (("1", 0.0), ("2", 1.0)):
        (run.path / "attempts" / element).mkdir()
        (run.path / "attempts" / element / "0").write_text(f"7_{element} 0.0\n")
        (run.path / "attempts" / element / "0.saved").write_text(f"{place + 8}\n")
    found = [attempt("0.0", 0, "7_1"), attempt("0.0", 1, "7_2"), attempt("1.0", 20, "7_1")]
    assert progress(run, found) == [
        AttemptProgress(0, None, None, 2.0),
        AttemptProgress(0),
        AttemptProgress(),
    ]


def test_runs_of_earlier_versions_have_no_numbers(run: RunDirectory) -> None:
    (run.path / "attempts" / "0").write_text("7\n")
    assert progress(run, [attempt("0.0", 0)]) == [AttemptProgress()]
