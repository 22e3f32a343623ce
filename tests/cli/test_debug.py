"""``hpcdist debug`` beside the processes of a job on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hpcdist.cli.jobs import debug
from hpcdist.runs.inside import Process, RankedJob, StackAnswers
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.schedulers.base import Nodes
from tests.slurm.process import until

from .conftest import RANKS, Hpcdist

HANGS: Final = """\
import os, pathlib, time

def lost():
    pathlib.Path("up." + os.environ["RANK"]).touch()
    time.sleep(1000)

def allreduce():
    pathlib.Path("up." + os.environ["RANK"]).touch()
    time.sleep(1000)

def main():
    lost() if os.environ["RANK"] == "1" else allreduce()

main()
"""


@pytest.fixture
def job(hpcdist: Hpcdist, folder: Path) -> Iterator[str]:
    """A run of three ranks, of which one is elsewhere."""
    (folder / "hangs.py").write_text(HANGS)
    text = RANKS.replace('echo "rank $RANK of $WORLD_SIZE"', f"{sys.executable} hangs.py")
    (folder / "ranks.yml").write_text(text)
    assert hpcdist("submit", "ranks.yml").code == 0
    until(lambda: len([*folder.glob("up.*")]) == 3, "all ranks to begin")
    yield "ranks-1"
    hpcdist("cancel", "ranks-1")


def test_the_rank_that_is_elsewhere_is_named(job: str, real: Hpcdist) -> None:
    done = real("debug", job)
    expected = """\
ranks-1: 3 ranks on 1 node, 2 stacks

ranks 0,2
  allreduce (hangs.py:9)
  main (hangs.py:12)
  <module> (hangs.py:14)

rank 1
  lost (hangs.py:5)
  main (hangs.py:12)
  <module> (hangs.py:14)
"""
    assert (done.code, done.out, done.err) == (0, expected, "")


def test_as_json(job: str, real: Hpcdist) -> None:
    done = real("debug", job, "--json")
    assert (done.code, json.loads(done.out)) == (
        0,
        {
            "name": "ranks-1",
            "nodes": ["localhost"],
            "silent_nodes": [],
            "missing_ranks": [],
            "stacks": [
                stack([0, 2], "allreduce (hangs.py:9)"),
                stack([1], "lost (hangs.py:5)"),
            ],
            "problems": [],
        },
    )


def stack(ranks: list[int], innermost: str) -> dict[str, object]:
    frames = [innermost, "main (hangs.py:12)", "<module> (hangs.py:14)"]
    return {"kind": "main", "ranks": ranks, "processes": len(ranks), "frames": frames, "cut": False}


def test_what_is_not_known_is_a_warning() -> None:
    record = Record("a", "t0", "toy", "slurm", "", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    nodes = Nodes("7", ("n1", "n2"), (0, 1))
    job = RankedJob(Run(RunDirectory(Path("/runs/a-1")), record), "/runs/a-1/jobs/7", nodes, (nodes,), 4)
    refused = Process("n1", 0, 0, False, 9, 1, "python: sleeping", error="Permission Denied: Try")  # noqa: FBT003
    every = frozenset({"n1", "n2"})
    assert [
        str(problem)
        for answers in (
            StackAnswers(frozenset({"n1"}), ()),
            StackAnswers(every, (refused,)),
            StackAnswers(every, tuple(refused._replace(task=task, error="") for task in range(4)), every),
        )
        for problem in debug.problems(job, answers)
    ] == [
        "no answer from 1 of 2 nodes: n2; `hpcdist exec a-1 --node n2 -- true` shows why",
        "no process of ranks 1-3: not begun yet, or ended",
        f"py-spy cannot read 1 process, the first on n1: Permission Denied: Try; {debug.FORBIDDEN}",
        f"there is no py-spy on n1, n2; {debug.MISSING}",
    ]
