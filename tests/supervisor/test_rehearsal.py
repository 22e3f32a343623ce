"""Rehearsals: when an attempt is ended, and how; what is recorded of it; which processes get KILL."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from supervisor import ranks, rehearsal
from supervisor.rehearsal import Answer, Hands, Known, Look, Rehearsal, plan

from hpcdist.studies import rehearsal_record as observed
from hpcdist.studies.rehearsal_record import Ending, RehearsedAttempt
from tests.supervisor.starts import POLICY, start

SEEDED = POLICY._replace(rehearsal="1 notice write node rank", notice=60)


@pytest.mark.parametrize(
    ("number", "now", "known", "expected"),
    [
        (0, 5000, Known(5000, 0), ("notice", 245_000)),  # half of 600 s without one minute and the notice
        (1, 100_000, Known(0, 20_000), ("write", 210_000)),  # a quarter of what is left
        (3, 500_000, Known(0, 15_000), ("rank", 520_000)),
        (3, 500_000, Known(0, 20_000), ("last", 520_000)),  # no time for another one
        (4, 500_000, Known(0, 1000), ("last", 540_000)),
        (7, 600_000, Known(0, 1000), ("last", 601_000)),
    ],
)
def test_each_end_gets_its_part_of_the_time(
    number: int, now: int, known: Known, expected: tuple[str, int]
) -> None:
    assert plan(SEEDED, 600, number, now, known) == expected


class Play:
    """An attempt with a clock of its own, whose checkpoints change at some times, in milliseconds."""

    def __init__(
        self, run: Path, kind: str, changes: Sequence[int], said: Sequence[str] | None = None
    ) -> None:
        self.now, self.alive, self.changes, self.said = 0, True, changes, said
        self.done: list[tuple[int, object]] = []
        self.start = start(run)
        self.start.job = self.start.job._replace(walltime=600)
        self.start.nodes, self.start.attempt = ["n1", "n2"], 1
        (run / "rehearsal").mkdir()
        (run / "rehearsal/first").write_text("1000\n")
        hands = Hands(self.look, self.kill, self.ring, lambda: self.alive, lambda: self.now / 1000)
        self.rehearsal = Rehearsal(self.start, POLICY._replace(rehearsal=f"1 x {kind}", notice=60), hands)
        self.rehearsal._random = SimpleNamespace(random=lambda: 0.5)  # type: ignore[assignment]

    def look(self) -> Look:
        done = sum(at <= self.now for at in self.changes)
        return Look((f"+ {done} 10 1.5 - ./step {done}",) if done else (), ())

    def kill(self, kind: str, node: int, _: int) -> Answer:
        self.done.append((self.now, (kind, node)))
        begun = self.now
        return lambda late: self.said if late or self.now >= begun + 2000 else None

    def ring(self, what: str) -> None:
        self.done.append((self.now, what))

    def until(self, end: int) -> Play:
        while self.now < end:
            self.now += 100
            self.rehearsal.tick()
        return self

    @property
    def attempt(self) -> RehearsedAttempt | None:
        text = (Path(self.start.job.run) / "rehearsal/1").read_text()
        return observed.attempt(1, text.splitlines())


SECOND = [10_000, 10_400, 20_000, 20_400, 30_000, 30_600]


@pytest.mark.parametrize(
    ("kind", "changes", "done"),
    [
        # Half of the time from the first to the second.
        ("notice", SECOND, [(16_400, "notice"), (46_400, "end"), (56_400, "kill")]),
        ("notice", [10_000, 12_000], [(13_000, "notice"), (43_000, "end"), (53_000, "kill")]),
        ("last", SECOND, [(11_400, "notice"), (41_400, "end"), (51_400, "kill")]),
        ("node", SECOND, [(16_400, ("node", 1)), (78_500, "notice")]),
        ("rank", [*range(10_000, 90_000, 100)], [(18_000, ("rank", 1)), (80_100, "notice")]),
        # While the next is written, half of what the last took later.
        ("write", SECOND, [(20_200, ("write", 0)), (82_300, "notice")]),
        ("write", [], [(270_000, ("write", 0))]),
    ],
)
def test_when_an_attempt_is_ended(
    tmp_path: Path, kind: str, changes: list[int], done: list[tuple[int, object]]
) -> None:
    play = Play(tmp_path, kind, changes, ["n2", "3"])
    assert play.until(done[-1][0] + 500).done == done


@pytest.mark.parametrize(
    ("pause", "ends_at"),
    [
        (100, 2000),  # written without a pause
        (1500, 300),  # the next one begins
        (60_000, 12_000),  # none in three times the interval, and three seconds
    ],
)
def test_a_rank_is_killed_while_a_checkpoint_is_written(tmp_path: Path, pause: int, ends_at: int) -> None:
    """The last one was 1.2 s before, if they come that seldom."""
    play = Play(tmp_path, "write", [*range(0, 90_000, pause)][1:])
    own = play.rehearsal
    play.now = own._now = 0 if pause == 100 else 1200
    own._interval, own._started, own._changed = 3000, 0, 0
    begun, course = play.now, own._await_writing()
    while next(course, "over") is None:
        play.now += 100
        own._look()
    assert play.now - begun == ends_at


def test_what_is_recorded_of_an_attempt_that_was_killed(tmp_path: Path) -> None:
    play = Play(tmp_path, "rank", SECOND, ["n2", "3", "4"]).until(17_000)
    play.alive = False  # by the kill, whose words still run
    play.until(17_500)
    play.rehearsal._hands = play.rehearsal._hands._replace(clock=lambda: 19.0)
    play.now = 19_000
    assert play.rehearsal.end(137, told=False) == (137, True)
    found = play.attempt
    assert found is not None
    assert (found.tracking, found.kind, found.began, found.code) == ("7/0.0", "rank", 0.0, 137)
    assert found.endings == (Ending(19.0, "rank", "n2", "3,4"),)
    assert [(look.at, [file.path for file in look.files]) for look in found.looks] == [
        (0.0, []),
        (10.0, ["step 1"]),
        (10.4, ["step 2"]),
    ]


@pytest.mark.parametrize(
    ("kind", "code", "told", "expected"),
    [
        ("node", 1, False, (1, True)),
        ("node", 0, False, (0, False)),
        ("node", 143, True, (143, False)),
        ("last", 143, False, (0, False)),
    ],
)
def test_what_follows_an_attempt(
    tmp_path: Path, kind: str, code: int, *, told: bool, expected: tuple[int, bool]
) -> None:
    play = Play(tmp_path, kind, SECOND, ["n1", "0"]).until(20_000)
    assert play.rehearsal.end(code, told=told) == expected


def test_an_attempt_that_ends_by_itself_is_the_last(tmp_path: Path) -> None:
    play = Play(tmp_path, "node", SECOND).until(15_000)
    play.alive = False
    assert (play.until(90_000).rehearsal.end(1, told=False), play.done) == ((1, False), [])


def test_where_nothing_can_be_killed_the_attempt_is_ended_as_at_a_limit(tmp_path: Path) -> None:
    play = Play(tmp_path, "rank", SECOND, []).until(19_000)
    found = play.attempt
    assert found is not None
    assert (found.untried, found.endings) == (("n2",), (Ending(18.5, "rank"),))
    assert play.done == [(16_400, ("rank", 1)), (18_500, "notice")]


def test_checkpoints_are_seen_and_what_was_read(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    for name in ("a b/x", "y"):
        (tmp_path / name).write_text("1234")
    link = tmp_path.parent / "link"
    link.symlink_to(tmp_path)
    first = rehearsal.look(str(link))
    assert sorted(line.split(" ", 5)[5] for line in first.files) == ["./a b/x", "./y"]
    os.utime(tmp_path / "y", (time.time(), (tmp_path / "y").stat().st_mtime))
    state = (tmp_path / "y").stat()
    again = rehearsal.look(str(link))
    assert (len(again.files), [line.split()[0] for line in again.read]) == (2, [str(state.st_ino)])
    assert rehearsal.look(str(link)) == Look(again.files, ())


@pytest.mark.parametrize(
    ("mode", "environment", "rank"),
    [
        ("tasks", {"HPCDIST_RANK": "3"}, (False, 3)),
        ("tasks", {"HPCDIST_RANK": "1", "RANK": "5", "PMI_RANK": "1"}, (True, 5)),  # torchrun's worker
        ("tasks", {"HPCDIST_RANK": "1", "PMI_RANK": "1"}, (False, 1)),  # torchrun
        ("tasks", {"RANK": "5"}, None),  # the shell that waits for a task
        ("once", {"OMPI_COMM_WORLD_RANK": "2"}, (True, 2)),
        ("once", {"PMI_RANK": "4"}, (True, 4)),
        ("once", {"PMIX_RANK": "7"}, (True, 7)),
        ("once", {"HOROVOD_RANK": "6"}, (True, 6)),
        ("once", {}, None),
        ("tasks", {"HPCDIST_RANK": "0", "RANK": "none"}, (False, 0)),
    ],
)
def test_a_rank_is_known_by_its_environment(
    mode: str, environment: Mapping[str, str], rank: tuple[bool, int] | None
) -> None:
    assert ranks.rank_of(environment, mode) == rank


def begun(folder: Path, *environments: Mapping[str, str], stdin: Any = None) -> list[subprocess.Popen[bytes]]:
    """Start a process for each rank; return them when they run."""
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    mark = {"HPCDIST_FAILURE": str(folder / "failure")}
    there = [
        subprocess.Popen(words, env={**mark, **own}, stdin=stdin, stdout=subprocess.PIPE)
        for own in environments
    ]
    for process in there:
        assert process.stdout is not None
        process.stdout.readline()
    return there


def killed(
    folder: Path, kind: str, mode: str, there: list[subprocess.Popen[bytes]]
) -> tuple[list[str], list[int]]:
    """End ranks; return what that says, and which processes are over."""
    words = [sys.executable, "-ISB", ranks.__file__, kind, str(folder / "failure"), str(folder), "1", mode]
    answer = rehearsal.killing(words, {})
    while (found := answer(False)) is None:  # noqa: FBT003
        time.sleep(0.1)
    over = [number for number, process in enumerate(there) if process.poll() == -9]
    for process in there:
        process.kill()
        process.communicate()
    return list(found), over


TORCHRUN = ({"HPCDIST_RANK": "0"}, {"HPCDIST_RANK": "0", "RANK": "0"}, {"HPCDIST_RANK": "0", "RANK": "1"})


def test_one_worker_of_a_torchrun_is_killed(tmp_path: Path) -> None:
    (node, rank), over = killed(tmp_path, "rank", "tasks", begun(tmp_path, *TORCHRUN))
    assert (node, over) == (os.uname().nodename, [int(rank) + 1])


def test_all_ranks_of_a_node_are_killed(tmp_path: Path) -> None:
    said, over = killed(tmp_path, "node", "tasks", begun(tmp_path, *TORCHRUN))
    assert (said, over) == ([os.uname().nodename, "0", "0", "1"], [0, 1, 2])


def test_the_rank_that_writes_a_checkpoint_is_killed(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    there = begun(tmp_path, {"OMPI_COMM_WORLD_RANK": "0"}, {"OMPI_COMM_WORLD_RANK": "1"})
    with (tmp_path / "new").open() as file:
        there += begun(tmp_path, {"OMPI_COMM_WORLD_RANK": "2"}, stdin=file)
    assert killed(tmp_path, "write", "once", there) == ([os.uname().nodename, "2"], [2])


def test_where_there_is_no_rank_nothing_is_said(tmp_path: Path) -> None:
    assert killed(tmp_path, "rank", "once", begun(tmp_path, {})) == ([], [])


def test_the_ranks_of_a_node_are_signalled_and_nothing_else(tmp_path: Path) -> None:
    there = begun(tmp_path, *TORCHRUN, {})
    words = [sys.executable, "-ISB", ranks.__file__, "signal", str(tmp_path / "failure"), "10"]
    subprocess.run(words, check=True)
    for process in there[:3]:
        process.wait(10)
    over = [process.poll() for process in there]
    for process in there:
        process.kill()
        process.communicate()
    assert over == [-10, -10, -10, None]


def test_of_an_elastic_rank_its_program_is_signalled_alone(tmp_path: Path) -> None:
    """Horovod starts each by a shell, and the run's file stays above the program."""
    failure = tmp_path / "failure.0.0"
    elastic = Path(ranks.__file__).parents[1] / "elastic.py"
    cmd = "trap 'exit 3' USR1; echo up; while :; do sleep 0.1; done"
    program = shlex.join([sys.executable, "-ISB", str(elastic), "rank", "bash", "-c", cmd])
    environment = {**os.environ, "HPCDIST_FAILURE": str(failure), "HOROVOD_RANK": "0"}
    words = ["bash", "-c", f"{program}; echo ended $?"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "up\n"
        subprocess.run([sys.executable, "-ISB", ranks.__file__, "signal", str(failure), "10"], check=True)
        assert shell.stdout.read() == "ended 3\n"
    assert failure.read_text() == f"3 0 {os.uname().nodename}\n"
