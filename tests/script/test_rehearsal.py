"""How the script of a rehearsal finds the ranks of an attempt, and ends them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcdist.host.resources import shipped

SCRIPT = shipped("templates") / "runtime" / "rehearsal.sh"
SLEEP = "import time; print(flush=True); time.sleep(60)"


def called(*words: str, stdin: str = "") -> str:
    """Call a function of the script; return what it prints."""
    text = f'. "{SCRIPT}"; "$@"'
    done = subprocess.run(
        ["bash", "-c", text, "x", *words], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("mode", "environment", "rank"),
    [
        ("tasks", {"HPCDIST_RANK": "3"}, "t3"),
        ("tasks", {"HPCDIST_RANK": "1", "RANK": "5"}, "w5"),  # torchrun's worker
        ("tasks", {"RANK": "5"}, ""),  # the shell that waits for a task
        ("once", {"OMPI_COMM_WORLD_RANK": "2"}, "w2"),
        ("once", {"PMI_RANK": "4"}, "w4"),
        ("once", {"PMIX_RANK": "7"}, "w7"),
        ("once", {"HOROVOD_RANK": "6"}, "w6"),
        ("once", {}, ""),
        ("tasks", {"HPCDIST_RANK": "0", "RANK": "none"}, "t0"),
    ],
)
def test_a_rank_is_known_by_its_environment(mode: str, environment: Mapping[str, str], rank: str) -> None:
    text = "".join(f"{name}={value}\0" for name, value in {"PATH": "/bin", **environment}.items())
    assert called("hpcdist_rank_of", mode, stdin=text).strip() == rank


def ranks(folder: Path, *environments: Mapping[str, str]) -> list[subprocess.Popen[bytes]]:
    """Start a process for each rank; return them when they run."""
    mark = {"HPCDIST_FAILURE": str(folder / "failure")}
    there = [
        subprocess.Popen([sys.executable, "-c", SLEEP], env={**mark, **own}, stdout=subprocess.PIPE)
        for own in environments
    ]
    for process in there:
        assert process.stdout is not None
        process.stdout.readline()
    return there


TORCHRUN = ({"HPCDIST_RANK": "0"}, {"HPCDIST_RANK": "0", "RANK": "0"}, {"HPCDIST_RANK": "0", "RANK": "1"})


@pytest.mark.parametrize(("kind", "killed"), [("rank", [[1], [2]]), ("node", [[0, 1, 2]])])
def test_one_worker_of_a_torchrun_or_all_of_its_node_are_killed(
    tmp_path: Path, kind: str, killed: list[list[int]]
) -> None:
    there = ranks(tmp_path, *TORCHRUN)
    words = (kind, str(tmp_path / "failure"), str(tmp_path), "1", "1", "tasks")
    node, *said = called("hpcdist_kill_ranks", *words).split()
    over = [number for number, process in enumerate(there) if _is_over(process)]
    for process in there:
        process.kill()
        process.communicate()
    assert over in killed
    assert (node, len(said)) == (os.uname().nodename, len(over))


def test_the_rank_that_writes_a_checkpoint_is_killed(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    there = ranks(tmp_path, {"OMPI_COMM_WORLD_RANK": "0"}, {"OMPI_COMM_WORLD_RANK": "1"})
    mark = {"HPCDIST_FAILURE": str(tmp_path / "failure"), "OMPI_COMM_WORLD_RANK": "2"}
    with (tmp_path / "new").open() as file:
        writer = subprocess.Popen([sys.executable, "-c", SLEEP], env=mark, stdin=file)
    said = called("hpcdist_kill_ranks", "write", str(tmp_path / "failure"), str(tmp_path), "1", "1", "once")
    assert (said.split()[1:], writer.wait(10)) == (["2"], -9)
    for process in there:
        assert process.poll() is None
        process.kill()
        process.communicate()


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    try:
        return process.wait(1) == -9
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.parametrize(
    ("pause", "ends_at"),
    [
        (100, 2000),  # written without a pause
        (1500, 400),  # the next one begins
        (60000, 12000),  # none in three times the interval, and three seconds
    ],
)
def test_a_rank_is_killed_while_a_checkpoint_is_written(pause: int, ends_at: int) -> None:
    """The last one was 1.2 s before, if they come that seldom."""
    lines = f"""\
. "{SCRIPT}"
sleep() {{ now=$((now + 100)); }}
hpcdist_lives() {{ return 0; }}
hpcdist_look() {{
  ((now - changed >= {pause})) || return
  ((now - changed < 1000)) || started=$now
  changed=$now
}}
now=0 took=0 interval=3000 until=99999 changed=$(({pause} < 1200 ? 0 : -1200)) started=-9999
hpcdist_await_writing
echo "$now"
"""
    done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{ends_at}\n", "")
