"""Two users of one machine: what the one may do to the other's runs in folders that both may write to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS
from tests.slurm.users import User

pytestmark = pytest.mark.real


@pytest.fixture
def scratch(workdir: Path) -> Path:
    """A sticky folder in which everybody may write, as /scratch is."""
    path = Path(tempfile.mkdtemp(dir=workdir.parent.parent, prefix="scratch-"))
    path.chmod(0o1777)
    return path


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    user = User(cluster, workdir)
    user.write("one", {"run": {"cmd": "echo mine"}})
    return user


def as_stranger(user: User, command: str) -> int:
    """Run a command as hu2 and return its exit code."""
    return user.cluster.run(["bash", "-c", command], user="hu2").returncode


@pytest.mark.extended
@pytest.mark.parametrize(
    ("trap", "why"),
    [
        ("mkdir runs", "/runs belongs to hu2"),
        ("mkdir -m 777 runs", "/runs belongs to hu2"),
        ("ln -s {mine} runs", "/runs belongs to hu2"),
        ("mkdir -m 777 runs; ln -s {mine} runs/runs", "/runs belongs to hu2"),
    ],
)
def test_a_folder_of_runs_that_somebody_else_made_is_refused(
    user: User, scratch: Path, trap: str, why: str
) -> None:
    mine = user.directory / "mine"
    mine.mkdir(mode=0o700)
    os.chown(mine, USERS["hu1"], USERS["hu1"])
    assert as_stranger(user, f"cd {scratch} && {trap.format(mine=mine)}") == 0
    done = user.hpcdist("submit", "one.yml", "--runs-dir", scratch / "runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{why}; choose another directory with --runs-dir" in done.stderr
    assert [*mine.iterdir()] == []


@pytest.mark.extended
def test_ones_own_runs_in_a_sticky_folder_stay_ones_own(user: User, scratch: Path) -> None:
    runs = scratch / "runs"
    done = user.hpcdist("submit", "one.yml", "--wait", "--runs-dir", runs)
    assert done.returncode == 0, done.stderr
    assert (runs / "one-1" / "logs" / "job.out").read_text().endswith("mine\n")
    for attack in ("mv runs stolen", "mkdir runs/one-2", "ls runs", "cat runs/one-1/record.json"):
        assert as_stranger(user, f"cd {scratch} && {attack}") != 0, attack


def test_runs_of_others_are_neither_read_nor_waited_for(user: User, scratch: Path) -> None:
    trap = "mkfifo runs/a-1/record.json; ln -s /dev/zero runs/b-1/record.json"
    assert as_stranger(user, f"cd {scratch} && mkdir -m 755 runs runs/a-1 runs/b-1 && {trap}") == 0
    for words in (("status",), ("status", "--offline")):
        done = user.hpcdist(*words, "--runs-dir", scratch / "runs", timeout=30)
        assert (done.returncode, done.stdout) == (0, "")
        assert "not shown (owned by other users or unreadable): a-1, b-1" in done.stderr
    done = user.hpcdist("logs", "a-1", "--runs-dir", scratch / "runs", timeout=30)
    assert (done.returncode, "it belongs to hu2" in done.stderr) == (2, True)
