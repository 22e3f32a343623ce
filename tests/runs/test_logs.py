from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpcdist.runs import logs
from hpcdist.runs.rundir import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "logs").mkdir()
    return RunDirectory(tmp_path)


@pytest.mark.parametrize(
    ("text", "count", "lines"),
    [
        ("", 5, []),
        ("a\nb\nc\n", 2, ["b", "c"]),
        ("a\nb\nc", 2, ["b", "c"]),
        ("a\n\n", 2, ["a", ""]),
        ("a\r50%\rb\n", 1, ["a\r50%\rb"]),
        ("a\nb\n", 0, []),
        ("x" * 200_000 + "\n" + "y\n" * 70_000, 70_001, ["x" * 200_000, *["y"] * 70_000]),
    ],
)
def test_tail(tmp_path: Path, text: str, count: int, lines: list[str]) -> None:
    (tmp_path / "x").write_text(text, newline="")
    assert logs.tail(tmp_path / "x", count) == lines


def test_follow(run: RunDirectory) -> None:
    file = run.logs / "job.out"
    story = iter(["", "one\ntw", "o\n", "", "last"])
    pauses: list[float] = []

    def write() -> bool:
        text = next(story)
        with file.open("a") as stream:
            stream.write(text)
        return text == "last"

    assert list(logs.follow(run, write, pauses.append)) == ["one", "two", "last"]
    assert len(pauses) == 4
    assert min(pauses) == 0.1


def test_follow_a_job_that_is_over(run: RunDirectory) -> None:
    (run.logs / "b.out").write_text("b\n")
    (run.logs / "a.out").write_bytes(b"a\xff\n")
    assert list(logs.follow(run, lambda: True, lambda _: None)) == ["a\ufffd", "b"]


def test_follow_a_job_without_output(run: RunDirectory) -> None:
    assert list(logs.follow(run, lambda: True, lambda _: None)) == []


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (1, ["srun", " indented", "", "mpi", " x", "horovod"]),
        (11, ["eleven", "mpi eleven"]),
        (2, []),
    ],
)
def test_of_rank(rank: int, expected: list[str]) -> None:
    lines = [
        " 1: srun",
        "1:  indented",
        " 1: ",
        "11: eleven",
        "[1,1]<stdout>:mpi",
        "[1,1]<stderr>: x",
        "[1,11]<stdout>:mpi eleven",
        "[1]<stdout>:horovod",
        "no label 1: x",
        "[0]<stdout>:zero",
    ]
    assert list(logs.of_rank(lines, rank)) == expected


@pytest.mark.parametrize(
    ("lines", "whole", "live"),
    [
        (["one", "two: 3"], ["one", "two: 3"], ["one", "two: 3"]),
        (["hpcdist: 2 tasks", " 0: hi", "srun: end", "1: ho"], ["hi"], ["hpcdist: 2 tasks", "hi"]),
        (["hpcdist: 2 tasks", "1: ho"], [], ["hpcdist: 2 tasks"]),
        (["[0]<stdout>:hi"], ["hi"], ["hi"]),
        ([], [], []),
    ],
)
def test_without_any_label_all_is_of_rank_0(lines: list[str], whole: list[str], live: list[str]) -> None:
    assert list(logs.of_rank(lines, 0)) == whole
    assert list(logs.of_rank(lines, 0, live=True)) == live
    assert list(logs.of_rank(["one"], 1)) == []


@pytest.mark.parametrize(
    ("mode", "said", "tasks", "labelled"),
    [
        ("tasks", False, (1,), False),
        ("tasks", True, (1, 3), True),
        ("tasks", None, (1,), None),
        ("tasks", None, (1, 3), True),
        ("once", None, (4,), None),
    ],
)
def test_whether_lines_are_labelled(
    run: RunDirectory, mode: str, said: object, tasks: tuple[int, ...], *, labelled: bool | None
) -> None:
    rows = [{"tasks": count} for count in tasks]
    plan = {"launch": {"mode": mode, "labelled": said}, "placement": {"rows": rows}}
    run.write("plan.json", json.dumps(plan))
    assert logs.is_labelled(run) is labelled
    assert logs.tasks_of(run) == (sum(tasks) if mode == "tasks" else None)


def test_labels_are_unknown_without_a_plan(run: RunDirectory) -> None:
    assert logs.is_labelled(run) is None
    run.write("plan.json", '{"placement": 3}')
    assert logs.is_labelled(run) is None
    assert logs.tasks_of(run) is None


def test_a_plan_overrides_the_form_of_lines() -> None:
    lines = ["3: step", "hello"]
    assert list(logs.of_rank(lines, 0, labelled=False)) == lines
    assert list(logs.of_rank(lines, 3, labelled=False)) == []
    assert list(logs.of_rank(["hello"], 0, labelled=True, live=True)) == []


def test_only_regular_files_are_logs(run: RunDirectory) -> None:
    (run.logs / "job.out").write_text("mine\n")
    os.mkfifo(run.logs / "fifo.out")
    (run.logs / "zero.out").symlink_to("/dev/zero")
    (run.logs / "folder.out").mkdir()
    assert logs.files(run) == [run.logs / "job.out"]
    assert list(logs.follow(run, lambda: True, lambda _: None)) == ["mine"]
    for name in ("fifo.out", "zero.out"):
        for read in (logs.lines, lambda file: logs.tail(file, 1)):
            with pytest.raises(OSError, match=r"FIFO|symbolic link"):
                [*read(run.logs / name)]


def test_a_file_without_newlines_is_read_in_pieces(run: RunDirectory) -> None:
    file = run.logs / "job.out"
    file.touch()
    os.truncate(file, 1 << 40)
    first = next(iter(logs.lines(file)))
    assert (len(first), next(iter(logs.follow(run, lambda: True, lambda _: None)))) == (1 << 20, first)
    (last,) = logs.tail(file, 1)
    assert len(last) == 1 << 26


def test_a_file_that_grows_is_read_to_where_it_ended(run: RunDirectory) -> None:
    """A job may print faster than that is read."""
    file = run.logs / "job.out"
    file.write_text("line\n" * 3)
    with file.open("a") as more:
        found = [print(text, file=more, flush=True) for text in logs.lines(file)]
    assert len(found) == 3


ATTEMPTS = """\
epoch 1
epoch 2: 40%hpcdist: attempt 1 begins (job 7)
hpcdist: train: n2 (job 7)
hpcdist: attempt 1 begins (job 8) is what it printed
hpcdist: attempt 2 begins (job 7)
"""
"""The first attempt was killed in the middle of a line."""


@pytest.mark.parametrize(
    ("number", "lines"),
    [
        (0, ["epoch 1", "epoch 2: 40%"]),
        (
            1,
            [
                "hpcdist: attempt 1 begins (job 7)",
                "hpcdist: train: n2 (job 7)",
                "hpcdist: attempt 1 begins (job 8) is what it printed",
            ],
        ),
        (2, ["hpcdist: attempt 2 begins (job 7)"]),
        (3, []),
    ],
)
def test_the_lines_of_an_attempt(run: RunDirectory, number: int, lines: list[str]) -> None:
    file = run.logs / "job.out"
    file.write_text(ATTEMPTS)
    assert [*logs.OfAttempt(file, number)(logs.lines(file))] == lines
    assert [*logs.follow(run, lambda: True, lambda _: None, number)] == lines


def test_the_lines_of_an_attempt_as_they_come(run: RunDirectory) -> None:
    pieces = iter(ATTEMPTS.splitlines(keepends=True))

    def write() -> bool:
        piece = next(pieces, "")
        with (run.logs / "job.out").open("a") as stream:
            stream.write(piece)
        return not piece

    assert [*logs.follow(run, write, lambda _: None, 0)] == ["epoch 1", "epoch 2: 40%"]


def test_what_a_later_job_prints_before_its_attempt_is_of_none(run: RunDirectory) -> None:
    (run.logs / "job.out").write_text("first\n")
    (run.logs / "2-job.out").write_text("welcome\nhpcdist: attempt 1 begins (job 8)\nsecond\n")
    found = [[*logs.follow(run, lambda: True, lambda _: None, number)] for number in range(2)]
    assert found == [["first"], ["hpcdist: attempt 1 begins (job 8)", "second"]]
