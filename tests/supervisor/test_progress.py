"""What counts as progress: files of the attempts, metrics and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from supervisor import progress
from supervisor.restarts import Ended, Idle

from tests.supervisor.starts import start

TRACKED = "tracked no step that an earlier one had not reached"


def written(path: Path, text: str, at: int) -> None:
    """Write a file that was changed so many seconds after the first attempt began."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1000 + at, 1000 + at))


def idle(run: Path, attempt: int, why: str = "failure", first: int = 0, element: str = "") -> Idle:
    """Count after an attempt, which began 100 s after the one before."""
    folder = run / "attempts" / element
    written(folder / str(attempt), "7 0.0 7\n", 100 * attempt)
    return progress.idle(start(run, element=element), str(folder), Ended(attempt, first, 4, why))


def line(step: object, name: str = "loss") -> str:
    return f'{{"metrics":{{"{name}":0.5,"best":1}},"step":{step},"at":1764550000.123}}\n'


def test_attempts_that_leave_nothing_new_are_counted(tmp_path: Path) -> None:
    outputs, checkpoints = (f"left nothing new in {tmp_path}/{name}" for name in ("outputs", "checkpoints"))
    found = [idle(tmp_path, 0), idle(tmp_path, 1, "preempt")]  # which may have had no time for it
    written(tmp_path / "outputs/model", "", 201)
    found.append(idle(tmp_path, 2))
    assert found == [Idle(1, outputs), Idle(1, outputs), Idle(0, outputs)]
    written(tmp_path / "checkpoints/a/b", "", 200)  # not newer than attempt 2
    written(tmp_path / "outputs/log", "", 601)
    found = [idle(tmp_path, number, first=5 * (number == 5)) for number in range(2, 6)]  # 2 is counted once
    assert found == [Idle(0, checkpoints), Idle(1, checkpoints), Idle(2, checkpoints), Idle(1, checkpoints)]
    assert (tmp_path / "attempts/4.idle").read_text() == "2\n"


def test_where_steps_are_tracked_one_must_be_reached_for_the_first_time(tmp_path: Path) -> None:
    texts = [line(5) + line(4) + line("2.5", 'a\\"b c') + '{"metr\n', line(5), "", line("1e+20")]
    found = []
    for number, text in enumerate(texts):
        written(tmp_path / f"tracking/7/0.{number}/rank-0.h.1.jsonl", text, 100 * number + 1)
        written(tmp_path / "checkpoints/new", "", 100 * number + 1)
        found.append(idle(tmp_path, number))
    assert found == [Idle(count, TRACKED) for count in (0, 1, 2, 0)]
    steps = [(tmp_path / f"attempts/{number}.steps").read_text() for number in range(4)]
    assert steps == [*['5 loss\n2.5 a\\"b c\n'] * 3, '1e+20 loss\n2.5 a\\"b c\n']


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("7_4/0.0/rank-0.h.1.jsonl", line(5), "5 loss\n"),
        ("7_14/0.0/rank-0.h.1.jsonl", line(5), ""),  # another element's
        ("7_4/0.0/other.jsonl", line(5), ""),
        ("7_4/0.0/rank-0.h.1.jsonl", '{"metrics":{"loss":0.5},"at":1.5}\n{"params":{}}\n', ""),
        ("7_4/0.0/polyaxon-0/runs/u/loss.plx", "step|timestamp|metric\n7|t|0.5\n8|t\n|t|1\n", "7 loss.plx\n"),
    ],
)
def test_the_files_of_metrics_of_an_element(tmp_path: Path, name: str, text: str, steps: str) -> None:
    written(tmp_path / "tracking" / name, text, 1)
    assert idle(tmp_path, 0, element="4").attempts == (not steps)
    found = tmp_path / "attempts/4/0.steps"
    assert (found.read_text() if found.exists() else "") == steps


def test_a_step_must_be_higher_than_that_of_its_own_metric() -> None:
    before = {b"loss": b"9", b"loss.plx": b"step"}
    assert progress.most(before, [(b"loss", b"10"), (b"loss", b"2")]) == ({**before, b"loss": b"10"}, True)
    assert progress.most(before, [(b"loss", b"9.0"), (b"loss.plx", b"0")]) == (before, False)
    assert progress.most(before, [(b"new", b"-1")]) == ({**before, b"new": b"-1"}, True)
