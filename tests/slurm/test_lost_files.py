"""Jobs on the real Slurm whose files cannot be written, are not on every node, or belong to somebody else."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.config import USERS, Node
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = pytest.mark.real

HELD = ("--set", 'batch.directives=["--hold"]')
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 2 MiB."""
    path = tmp_path_factory.mktemp("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "none", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, small: Path) -> Iterator[Cluster]:
    """Two nodes that share the small file system."""
    nodes = [Node(name, features=("a100", "nvlink"), gpu_type="a100", gpus=4) for name in ("n1", "n2")]
    with Cluster.boot(tmp_path_factory.mktemp("small-cluster"), nodes=nodes, share=(small,)) as cluster:
        yield cluster


@pytest.fixture
def user(two_nodes: Cluster, small: Path) -> Iterator[User]:
    directory = small / "work"
    directory.mkdir(mode=0o700)
    os.chown(directory, USERS["hu1"], USERS["hu1"])
    yield User(two_nodes, directory)
    two_nodes.heal()
    for path in (small / "fill", directory):
        subprocess.run(["rm", "-rf", path], check=True)


def experiment(command: str, **batch: Any) -> dict[str, Any]:
    return {
        "framework": "mpi",
        "environment": {
            "resources": {"cpu": {"limits": 16}},
            "replicas": {"n_workers": 1, "default_worker": {"resources": {"cpu": {"limits": 16}}}},
        },
        "run": {"cmd": command},
        "batch": {"walltime": "5m", **batch},
    }


def release(user: User) -> None:
    jobs = user.cluster.run(["squeue", "-h", "--me", "-o", "%i"], check=True).stdout.split()
    user.cluster.run(["scontrol", "release", *jobs], check=True)


def fill(small: Path, pages: int) -> None:
    """Leave so many pages."""
    free = os.statvfs(small)
    (small / "fill").write_bytes(b"x" * (free.f_bavail * free.f_frsize - pages * PAGE))


@pytest.mark.extended
@pytest.mark.parametrize("pages", range(9))
def test_a_disk_that_is_full_when_the_job_begins(user: User, small: Path, pages: int) -> None:
    ran = user.cluster.home() / f"ran.{pages}"
    lines = [f"echo one >>{ran}", f"# {'x' * PAGE}", f"echo rm -r important/ >>{ran}", f"echo end >>{ran}"]
    file = user.write("full", experiment("\n".join(lines)))
    assert user.hpcdist("submit", file, *HELD).returncode == 0
    fill(small, pages)
    release(user)
    done = user.hpcdist("wait", "full-1")
    whole = 2 * ["one", "rm -r important/", "end"]
    found = sorted(ran.read_text().splitlines()) if ran.exists() else []
    assert (done.returncode, found) in ((86, []), (0, sorted(whole))), done.stderr
    assert (done.returncode == 86) or pages > 4


@pytest.mark.extended
def test_packed_trials_lose_nothing_when_the_disk_fills_and_are_resumed(user: User, small: Path) -> None:
    search = {"concurrency": 2, "matrix": {"n": {"range": [0, 8, 1]}}}
    ran = user.cluster.home() / "ran.packed"
    command = f"sleep 2; echo {{{{ n }}}} >>{ran}"
    file = user.write("full", {"run": {"cmd": command}, "hptuning": search, "batch": {"pack": True}})
    assert user.hpcdist("submit", file).returncode == 0
    directory = user.directory / "runs" / "full-1"
    until(lambda: len([*directory.glob("claims/*.0")]) >= 4, "the second two trials to be claimed")
    with contextlib.suppress(OSError):  # the job may take a page in the same moment: it is full, too
        fill(small, 0)
    assert user.hpcdist("wait", "full-1").returncode not in (0, None)
    (small / "fill").unlink()
    before = user.json("sweep", "status", "full-1")["states"]
    assert before["completed"] < 8
    done = user.hpcdist("resume", "full-1")
    assert done.returncode == 0, done.stderr
    done = user.hpcdist("wait", "full-1")
    assert user.json("sweep", "status", "full-1")["states"] == {"completed": 8}, done.stderr
    ends = [
        line.split()[1].rpartition("_")[2]
        for log in directory.glob("events.*@*")
        for line in log.read_text().splitlines()
        if re.fullmatch("ended [^ ]+ [0-9]+ 0", line)
    ]
    assert sorted(ends) == list("12345678")
    assert {*ran.read_text().split()} == {*"01234567"}


@pytest.mark.extended
def test_a_first_node_that_lacks_the_files_of_the_run(user: User) -> None:
    ran = user.cluster.home() / "ran.lacks"
    assert user.hpcdist("submit", user.write("lacks", experiment(f"echo x >>{ran}")), *HELD).returncode == 0
    files = user.directory / "runs" / "lacks-1" / "runtime"
    user.cluster.run(["mount", "-t", "tmpfs", "none", files], user="root", node="n1", check=True)
    try:
        release(user)
        done = user.hpcdist("wait", "lacks-1")
    finally:
        user.cluster.run(["umount", files], user="root", node="n1", check=True)
    assert (done.returncode, ran.exists()) == (86, False)
    assert f"hpcdist: n1 has no {files}; is its file system mounted there?" in user.log("lacks-1")


def test_a_run_directory_that_somebody_else_put_there(user: User) -> None:
    ran = user.cluster.home() / "ran.stranger"
    assert user.hpcdist("submit", user.write("theirs", experiment(f"touch {ran}")), *HELD).returncode == 0
    run = user.directory / "runs" / "theirs-1"
    run.rename(run.with_name("stolen"))
    for path in (run, run / "logs"):
        path.mkdir()
        os.chown(path, USERS["hu2"], USERS["hu2"])
        path.chmod(0o777)
    release(user)
    number = (
        (run.with_name("stolen") / "record.json").read_text().partition('"job_id": "')[2].partition('"')[0]
    )
    shown = ""
    while "JobState=FAILED" not in shown:
        shown = user.cluster.run(["scontrol", "show", "job", number], check=True).stdout
        assert "COMPLETED" not in shown
    assert "ExitCode=86:0" in shown
    assert not ran.exists()
    assert f"hpcdist: {run} is not your own" in (run / "logs" / "job.out").read_text()
