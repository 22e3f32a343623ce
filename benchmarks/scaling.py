"""How the throughput of a training grows: with tasks on this machine, and with nodes of the test Slurm.

There `hpcdist scale` measures what the same program reaches in a script that is written by hand.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.clusters import booted
from tests.slurm.cluster import Cluster
from tests.slurm.process import SYSTEM_PATH
from tests.slurm.requirements import missing

CHECKOUT = Path(__file__).resolve().parents[1]
TASKS = (1, 2, 4)
NODES = (1, 2)
ROUNDS = 9
ENVIRONMENT = {"PATH": f"{CHECKOUT}/.venv/bin:{SYSTEM_PATH}"}
Way = Callable[[Cluster, Path], Sequence[float]]
PROGRAM = """
import statistics, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
gradients = torch.ones(1 << 18)
times = []
for step in range(330):
    begun = time.perf_counter()
    time.sleep(0.02)
    dist.all_reduce(gradients)
    gradients /= dist.get_world_size()
    times.append(time.perf_counter() - begun)
if dist.get_rank() == 0:
    print(f"speed {dist.get_world_size() / statistics.median(times[30:]):.2f}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""
"""Each step waits, as for a GPU, and exchanges 1 MiB: computing would measure who else uses this machine."""

EXPERIMENT = """version: 1
name: ours
framework: pytorch
environment: {replicas: {n_workers: 1, per_node: 1}}
tracking: {metrics: {steps_per_second: 'speed ([0-9.]+)'}}
run: {cmd: python train.py}
batch: {partition: a100, walltime: 10m}
"""
BY_HAND = """#!/bin/bash
#SBATCH --partition=a100 --ntasks-per-node=1 --cpus-per-task=1 --mem=500M --time=10 --output=by-hand.out
export MASTER_ADDR=$(scontrol show hostnames | head -n1) MASTER_PORT=29511
export GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK PYTHONUNBUFFERED=1
srun --mpi=pmix --label bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS exec python train.py'
"""
"""What users of this site copy from each other: the network and the threads are set, as hpcdist sets them."""


def images_per_second(directory: Path, tasks: int) -> float:
    """Train for two short epochs, by `hpcdist submit` alone."""
    python = Path(sys.executable)
    words = [
        "submit",
        "examples/image_classification.yml",
        "--site=local",
        "--wait",
        f"--set=name=tasks-{tasks}",
    ]
    settings = ["-p", "epochs=2", f"--set=environment.replicas.n_workers={tasks - 1}"]
    environment = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    argv = [str(python.with_name("hpcdist")), *words, *settings]
    subprocess.run(argv, cwd=directory, env=environment, check=True, capture_output=True)
    (metrics,) = directory.glob(f"runs/tasks-{tasks}-*/outputs/metrics.json")
    return float(json.loads(metrics.read_text())["images_per_second"])


def by_scale(cluster: Cluster, directory: Path) -> list[float]:
    """Return the throughput of each size by `hpcdist scale`."""
    return scaled(cluster, directory, NODES, "ours.yml")


def by_hand(cluster: Cluster, directory: Path) -> list[float]:
    """Return the same of a script that is written by hand."""
    return started_by_hand(cluster, directory, NODES, _printed)


def _printed(directory: Path) -> float:
    found = re.search(r"speed ([0-9.]+)", (directory / "by-hand.out").read_text())
    return float(found[1]) if found else 0.0


def scaled(cluster: Cluster, directory: Path, nodes: Sequence[int], *experiment: str) -> list[float]:
    """Return the throughput of each size that `hpcdist scale` reports of an experiment, with its options."""
    sizes = f"--nodes={','.join(map(str, nodes))}"
    words = ["scale", *experiment, "--site=testbed", sizes, "--chain", "--wait", "--json"]
    argv = [str(CHECKOUT / ".venv/bin/python"), "-m", "hpcdist", *words]
    done = cluster.run(argv, cwd=directory, env=ENVIRONMENT, check=True)
    return [float(size["throughput"]["median"]) for size in json.loads(done.stdout)["sizes"]]


def started_by_hand(
    cluster: Cluster, directory: Path, nodes: Sequence[int], read: Callable[[Path], float]
) -> list[float]:
    """Return what each size of ``by-hand.sh`` left behind, as it is read there."""
    speeds = []
    for size in nodes:
        argv = ["sbatch", "--wait", f"--nodes={size}", "by-hand.sh"]
        cluster.run(argv, cwd=directory, env=ENVIRONMENT, check=True)
        speeds.append(read(directory))
    return speeds


def in_turns(ways: Sequence[Way], rounds: int, prepare: Callable[[Path], object]) -> list[list[float]]:
    """Return the median throughput of each size by each way, which take turns in being first.

    What else runs on this machine slows some runs down: of each size the median run counts. ``prepare`` fills
    the empty folder of the cluster's user in which all run.
    """
    speeds: dict[Way, list[Sequence[float]]] = {way: [] for way in ways}
    with booted() as (cluster, directory):
        prepare(directory)
        for turn in range(rounds):
            for way in [*ways][:: -1 if turn % 2 else 1]:
                speeds[way].append(way(cluster, directory))
                print(f"round {turn + 1}, {way.__name__}: {speeds[way][-1]}", file=sys.stderr, flush=True)
    return [[*map(statistics.median, zip(*each, strict=True))] for each in speeds.values()]


def efficiency() -> None:
    """Print the efficiency on two nodes by both ways; of each run the median step counts."""
    if problem := missing(accounting=False):
        print(f"efficiency by `hpcdist scale`: not measured: {problem}")
        return
    ours, theirs = map(_efficiency, in_turns((by_scale, by_hand), ROUNDS, _prepare))
    print(
        f"efficiency on {NODES[-1]} nodes: by hpcdist scale {ours:.3f}, by hand {theirs:.3f}   "
        f"x{ours / theirs:.3f}   goal 0.98 to 1.02",
        flush=True,
    )


def _prepare(directory: Path) -> None:
    for name, text in {"train.py": PROGRAM, "ours.yml": EXPERIMENT, "by-hand.sh": BY_HAND}.items():
        (directory / name).write_text(text)


def _efficiency(speeds: Sequence[float]) -> float:
    """Return the efficiency on the last size against the first."""
    return speeds[-1] / speeds[0] / NODES[-1] * NODES[0]


def main() -> None:
    """Print a row for each number of tasks; beyond the number of cores none can be faster."""
    if not find_spec("horovod"):
        print("scaling: not measured: there is no Horovod; `tools/setup full` installs it")
        return
    print(f"Horovod, a convolutional network on the {os.cpu_count()} cores of this machine")
    print("tasks  images/s  to 1 task")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(CHECKOUT / "examples")
        speeds: list[float] = []
        for tasks in TASKS:
            speeds.append(images_per_second(Path(folder), tasks))
            print(f"{tasks:>5}  {speeds[-1]:>8.0f}  x{speeds[-1] / speeds[0]:.2f}", flush=True)
    efficiency()


if __name__ == "__main__":
    main()
