"""Answers of nodes, and stacks that are folded."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcdist.runs import inside
from hpcdist.runs.inside import Process, StackAnswers, StackGroup, Thread


def thread(name: str, number: int, *frames: str) -> dict[str, object]:
    own = [{"name": frame, "short_filename": "train.py", "line": 7} for frame in frames]
    return {"thread_name": name, "os_thread_id": number, "frames": own}


def process(task: str, rank: str, pid: int, *threads: object, elastic: int = 0, parent: int = 1) -> list[str]:
    lines = [f"process {task} {rank} {elastic} {pid} {parent} S futex_wait my program "]
    return [*lines, f"stacks {json.dumps(threads)}"] if threads else lines


def answer(node: str, lines: Sequence[str]) -> str:
    packed = base64.b64encode(
        gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    ).decode()
    return "".join(f"{node} {packed[place : place + 80]}\n" for place in range(0, len(packed), 80))


def python(rank: int, *frames: str, node: str = "n1", pid: int = 0, parent: int = 1) -> Process:
    pid = pid or 10 + rank
    shown = tuple(f"{frame} (train.py:7)" for frame in frames)
    return Process(node, rank, rank, False, pid, parent, "my program: sleeping in futex_wait", shown)  # noqa: FBT003


def test_answers_are_read_though_their_lines_are_mixed() -> None:
    one = answer(
        "n1", process("0", "0", 10, thread("MainThread", 10, "wait", "main"), thread("io", 11, "read"))
    )
    other = answer("n2.site", process("1", "1", 11, thread("MainThread", 11, "main")))
    lines = [line for pair in zip(one.splitlines(), other.splitlines(), strict=False) for line in pair]
    rest = one.splitlines()[len(other.splitlines()) :] + other.splitlines()[len(one.splitlines()) :]
    found = inside.read("\n".join([*lines, *rest]))
    first = python(0, "wait", "main")._replace(threads=(Thread("io", ("read (train.py:7)",)),))
    assert found == StackAnswers(frozenset({"n1", "n2.site"}), (first, python(1, "main", node="n2.site")))
    assert inside.silent(found, ["n1", "n2", "n3"]) == ["n3"]
    assert inside.missing(found, 4) == [2, 3]
    assert inside.missing(found, None) == []


@pytest.mark.parametrize(
    "broken", ["", "n1 \n", "n1 !!\n", answer("n1", process("0", "0", 10))[:-9], "srun: error\n"]
)
def test_an_answer_that_is_not_whole_is_none(broken: str) -> None:
    found = inside.read(broken)
    assert found == StackAnswers(frozenset(), ())
    assert inside.silent(found, ["n1", "localhost"]) == ["n1", "localhost"]


def test_lines_that_nobody_knows_are_left_out() -> None:
    lines = [
        "missing",
        "odd",
        "process 1",
        "stacks {",
        *process("x", "-", 10),
        'stacks [{"a": 1}]',
        "error no way",
    ]
    node = Process("n1", None, None, False, 10, 1, "my program: sleeping in futex_wait", error="no way")  # noqa: FBT003
    assert inside.read(answer("n1", lines)) == StackAnswers(frozenset({"n1"}), (node,), frozenset({"n1"}))


def test_equal_stacks_are_one() -> None:
    waits = [python(rank, "allreduce", "main") for rank in (0, 1, 2, 3, 4, 5, 7)]
    child = python(2, "load", "main", pid=99, parent=12)
    found = inside.groups(StackAnswers(frozenset({"n1"}), (*waits, python(6, "read", "main"), child)))
    assert found == [
        StackGroup("main", (0, 1, 2, 3, 4, 5, 7), 7, ("allreduce (train.py:7)", "main (train.py:7)")),
        StackGroup("main", (6,), 1, ("read (train.py:7)", "main (train.py:7)")),
        StackGroup("child", (2,), 1, ("load (train.py:7)", "main (train.py:7)")),
    ]
    assert [group.title for group in found] == ["ranks 0-5,7", "rank 6", "children of rank 2"]


def test_threads_are_folded_by_their_names() -> None:
    ranks = tuple(python(rank, "main")._replace(threads=(Thread("io", ("read",)),)) for rank in (0, 1))
    found = inside.groups(StackAnswers(frozenset({"n1"}), ranks), threads=True)
    assert [(group.title, group.frames) for group in found] == [
        ("ranks 0-1", ("main (train.py:7)",)),
        ("thread io of ranks 0-1", ("read",)),
    ]


def test_a_rank_that_is_no_python_shows_what_the_kernel_knows() -> None:
    lines = [*process("3", "3", 10), *process("3", "3", 11, parent=10), *process("-", "-", 12)]
    found = inside.groups(inside.read(answer("n1", lines)))
    assert found == [StackGroup("main", (3,), 1, ("my program: sleeping in futex_wait",))]


def test_of_torchrun_its_workers_are_shown_and_else_its_agent() -> None:
    agent = process("0", "0", 10, thread("MainThread", 10, "agent"))
    workers = [
        line
        for rank in (4, 5)
        for line in process(
            "0", str(rank), 10 + rank, thread("MainThread", 10 + rank, "main"), elastic=1, parent=10
        )
    ]
    assert [group.title for group in inside.groups(inside.read(answer("n1", agent)))] == ["rank 0"]
    assert [group.title for group in inside.groups(inside.read(answer("n1", [*agent, *workers])))] == [
        "ranks 4-5"
    ]


def test_stacks_that_all_differ_are_cut_to_where_they_part() -> None:
    many = [python(rank, f"step{rank}", f"epoch{rank % 2}", "main") for rank in range(2000)]
    found = inside.groups(StackAnswers(frozenset({"n1"}), tuple(many)))
    assert [(len(group.ranks), group.frames, group.cut) for group in found] == [
        (1000, ("epoch0 (train.py:7)", "main (train.py:7)"), True),
        (1000, ("epoch1 (train.py:7)", "main (train.py:7)"), True),
    ]


def asked(folder: Path, py_spy: str) -> StackAnswers:
    """Return the answer of this machine about a job of one rank, a program in Python."""
    environment = {"PATH": "/usr/bin:/bin", "HPCDIST_JOB_DIR": str(folder), "HPCDIST_RANK": "3"}
    program = [sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        words = ["bash", "-c", inside.text("stacks.sh"), "hpcdist", str(folder), py_spy]
        path = {"PATH": "/usr/bin:/bin"}
        done = subprocess.run(words, env=path, capture_output=True, text=True, check=True)
        process.kill()
    return inside.read(done.stdout)


def test_a_node_without_py_spy_shows_what_the_kernel_knows(tmp_path: Path) -> None:
    found = asked(tmp_path, "/nowhere/py-spy")
    assert found.without == found.nodes
    [process] = found.processes
    assert (process.task, process.rank, process.main, process.error) == (3, 3, (), "")
    assert process.kernel.startswith("python")


def test_what_py_spy_may_not_read_is_an_error(tmp_path: Path) -> None:
    refused = tmp_path / "py-spy"
    refused.write_text("#!/bin/sh\necho 'Permission Denied: Try again' >&2\nexit 1\n")
    refused.chmod(0o755)
    [process] = asked(tmp_path, str(refused)).processes
    assert (process.rank, process.error.strip()) == (3, "Permission Denied: Try again")
