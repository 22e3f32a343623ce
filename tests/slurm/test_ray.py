"""Ray over two nodes of a real Slurm: all join, and the driver's end, or that of a raylet, is the job's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster, Completed
from tests.slurm.test_frameworks import learns
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("examples")]

ACTIVATE = CHECKOUT / ".frameworks" / "ray" / "bin" / "activate"
GAVE_UP = "timed out during startup"
"""In what Ray 2.60 says after 30 s."""
DRIVER = """\
import os, signal, socket, sys, ray
ray.init(logging_level="ERROR")
nodes = {node["NodeManagerHostname"]: node for node in ray.nodes()}
print(len(nodes), "nodes with", ray.cluster_resources()["CPU"], "CPUs", flush=True)

@ray.remote(num_cpus=1)
def run(code):
    if code:
        os.kill(os.getppid(), int(code))
    return socket.gethostname()

def on(name, code):
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(nodes[name]["NodeID"], soft=False)
    return run.options(scheduling_strategy=there, max_retries=0).remote(code)

if sys.argv[1] == "exit":
    print("ran on", *ray.get([on(name, 0) for name in sorted(nodes)]), flush=True)
    sys.exit(int(sys.argv[2]))
on("n2", sys.argv[2])
signal.pause()
"""


def submitted(user: User, *words: object, activate: Path = ACTIVATE, **keys: object) -> tuple[Completed, str]:
    """Submit a driver with these arguments, and return its end and its log."""
    (user.directory / "driver.py").write_text(DRIVER)
    data = {
        "framework": "ray",
        "ray": {"object_store": "100M", **keys},
        "environment": {"resources": {"cpu": {"requests": 2}}, "replicas": {"n_workers": 1, "per_node": 1}},
        "run": {"cmd": " ".join(map(str, ("source", activate, "&& python driver.py", *words)))},
        "batch": {"walltime": "5m"},
    }
    done = user.hpcdist("submit", user.write("ray", data), "--wait")
    assert "error:" not in done.stderr, done.stderr
    return done, user.log("ray-1")


def before_ray(user: User, line: str) -> Path:
    """Return what activates an environment in which this line of bash runs before ``ray``."""
    there = user.directory / "bin"
    there.mkdir()
    (there / "ray").write_text(f'#!/bin/bash\nPATH=${{PATH#*:}}\n{line}\nexec ray "$@"\n')
    (there / "ray").chmod(0o755)
    (there / "activate").write_text(f"source {ACTIVATE}\nPATH={there}:$PATH\n")
    return there / "activate"


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_the_example_runs_on_both_nodes(user: User, launcher: str) -> None:
    keys = ("--set=environment.replicas.per_node=1", f"--set=batch.launcher={launcher}")
    log = learns(user, "ray_actors", *keys, framework="ray")
    assert "on 2 nodes: n1 n2" in log


@pytest.mark.extended
def test_a_driver_that_fails_gives_the_job_its_exit_code(user: User, cluster: Cluster) -> None:
    done, log = submitted(user, "exit", 7)
    assert done.returncode == 7, log
    assert "2 nodes with 3.0 CPUs" in log
    assert "ran on n1 n2" in log
    assert "hpcdist: rank 0 on n1 was the first to fail, with exit code 7" in log
    for name in ("n1", "n2"):
        left = cluster.run(["sh", "-c", "ls -d /tmp/ray-*; pgrep raylet"], user="root", node=name)
        assert (name, left.stdout) == (name, ""), left


@pytest.mark.extended
@pytest.mark.parametrize(
    ("number", "why"),
    [
        (9, r"hpcdist: Ray on n2 has ended; its last lines are:\n"),
        (15, r"hpcdist: Ray has lost n2: its raylet was ended or cannot be reached"),
    ],
)
def test_a_job_ends_as_failed_where_a_raylet_does(user: User, number: int, why: str) -> None:
    done, log = submitted(user, "kill", number)
    assert (done.returncode, re.search(why, log) is not None) == (1, True), log
    assert user.json("status", "ray-1")[0]["state"] == "failed"


@pytest.mark.extended
def test_a_node_that_cannot_join(user: User) -> None:
    activate = before_ray(user, "[[ $* == *--head* ]] || exec sleep 1000")
    done, log = submitted(user, "exit", 0, activate=activate, start_timeout=60)
    assert done.returncode == 1, log
    assert "hpcdist: only 1 of 2 nodes have joined Ray in time: n1" in log
    assert "ran on" not in log


@pytest.mark.extended
def test_ray_starts_again_where_it_gave_a_node_too_little_time(user: User) -> None:
    gives_up = f"{{ ray \"$@\" & sleep 4; echo 'Exception: The current node {GAVE_UP}.'; exit 1; }}"
    activate = before_ray(user, f'! mkdir "$0.$HPCDIST_NODE" 2>/dev/null || {gives_up}')
    done, log = submitted(user, "exit", 0, activate=activate)
    assert (done.returncode, "ran on n1 n2" in log) == (0, True), log
