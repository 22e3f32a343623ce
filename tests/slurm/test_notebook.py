"""A TensorBoard on a node of the real Slurm: reached there alone, by the tunnel that is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def test_a_tensorboard_is_on_the_loopback_of_its_node(cluster: Cluster, workdir: Path) -> None:
    user = User(cluster, workdir)
    file = user.write("board", {"kind": "tensorboard", "batch": {"walltime": "5m"}})
    assert user.hpcdist("submit", file).returncode == 0
    written = workdir / "runs/board-1/address.json"
    until(written.exists, "TensorBoard to be up")
    found = user.json("describe", "board-1")
    [node] = next((workdir / "runs/board-1/jobs").glob("*/nodes")).read_text().split()
    port = json.loads(written.read_text())["port"]
    assert (found["url"], found["token"]) == (f"http://localhost:{port}/", "")
    head = user.cluster.run(["uname", "-n"], user=user.name, cwd=workdir).stdout.strip()
    assert found["tunnel"] == f"ssh -N -L {port}:localhost:{port} -J hu1@{head} hu1@{node}"
    assert f"  {found['tunnel']}\n" in user.log("board-1")
    url = f"http://localhost:{port}/data/environment"
    fetched = user.hpcdist("exec", "board-1", "--", PYTHON, "-c", FETCH, url)
    assert json.loads(fetched.stdout)["data_location"] == str(workdir / "runs"), fetched.stderr
    for elsewhere in (url, f"http://{node}:{port}/"):
        there = user.cluster.run([PYTHON, "-c", FETCH, elsewhere], user=user.name, cwd=workdir)
        assert there.returncode == 1
    assert user.hpcdist("cancel", "board-1").returncode == 0
    assert user.hpcdist("wait", "board-1").returncode != 0
    assert not written.exists()
    assert user.json("describe", "board-1")["tunnel"] is None
