"""What `hpcdist scale` reports of the image example on 1, 2 and 4 nodes, beside a script by hand.

    python -m benchmarks.scaling_studies [ROUNDS]

Each size runs both ways at the same time on the same nodes of the test Slurm, and a node has one core of this
machine: what else slows that down, slows both ways down. The median ratio of all rounds counts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clusters import booted
from tests.slurm.cluster import Cluster
from tests.slurm.process import SYSTEM_PATH, family, until
from tests.slurm.requirements import missing

CHECKOUT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {"PATH": f"{CHECKOUT}/.venv/bin:{SYSTEM_PATH}"}
NODES = (1, 2, 4)
ROUNDS = 5
PROGRAM = "examples/image_classification.py"
PICTURES = 2
EPOCHS = 9
"""The program tells the speed of the median epoch: the first ones warm up."""
BY_HAND = f"""#!/bin/bash
#SBATCH --partition=gpu --ntasks-per-node=1 --cpus-per-task=1 --mem=1G --time=10 --output=by-hand.out
export POLYAXON_RUN_OUTPUTS_PATH=$PWD/by-hand-$SLURM_JOB_ID
export OMP_NUM_THREADS=1 HOROVOD_GLOO_IFACE=eth0
srun --mpi=pmix python {PROGRAM} --epochs={EPOCHS} --pictures={PICTURES}
"""

STUDY = (
    "examples/image_classification.yml",
    "--site=testbed",
    f"--nodes={','.join(map(str, NODES))}",
    "--chain",
    "--set=batch.partition=gpu",
    "--set=environment.replicas.per_node=1",
    *("-p", f"epochs={EPOCHS}", "-p", f"pictures={PICTURES}"),
)


class Round(NamedTuple):
    """The throughput of each size, of two studies that ran at the same time."""

    ours: Sequence[float]
    theirs: Sequence[float]

    def ratio(self, size: int) -> float:
        """Return how the efficiency by ``scale`` stands to that by hand."""
        return self.ours[size] / self.ours[0] / (self.theirs[size] / self.theirs[0])


def both(cluster: Cluster, directory: Path) -> Round:
    """Run both studies; each job by hand begins when that of its size by ``scale`` does."""
    study = _hpcdist(cluster, directory, *STUDY)["runs"]
    by_hand = [_sbatch(cluster, directory, *each) for each in zip(NODES, study, strict=True)]
    until(lambda: not cluster.run(["squeue", "-h"]).stdout, "all jobs to end", 1200, every=1)
    sizes = _hpcdist(cluster, directory, study[0]["name"])["sizes"]
    return Round([float(size["throughput"]["median"]) for size in sizes], [*_written(directory, by_hand)])


def give_cores(cluster: Cluster) -> None:
    """Bind each node to a core of this machine, in turn; what starts there later inherits it."""
    for node, core in zip(cluster.nodes, cycle(os.sched_getaffinity(0)), strict=False):
        for pid in family(cluster.pids[node]):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})


def _hpcdist(cluster: Cluster, directory: Path, *words: str) -> dict[str, Any]:
    argv = [str(CHECKOUT / ".venv/bin/python"), "-m", "hpcdist", "scale", *words, "--json"]
    done = cluster.run(argv, cwd=directory, env=ENVIRONMENT, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _sbatch(cluster: Cluster, directory: Path, nodes: int, beside: dict[str, Any]) -> str:
    """Submit the script by hand, which begins when a run has begun; return its own job's number."""
    argv = [
        "sbatch",
        "--parsable",
        f"--nodes={nodes}",
        f"--dependency=after:{beside['job_id']}",
        "by-hand.sh",
    ]
    return cluster.run(argv, cwd=directory, env=ENVIRONMENT, check=True).stdout.strip()


def _written(directory: Path, jobs: Sequence[str]) -> Iterator[float]:
    for job in jobs:
        metrics = json.loads((directory / f"by-hand-{job}/metrics.json").read_text())
        yield float(metrics["images_per_second"])


def measured(rounds: int) -> list[Round]:
    """Return what so many rounds reached."""
    found = []
    with booted() as (cluster, directory):
        give_cores(cluster)
        (directory / "examples").symlink_to(CHECKOUT / "examples")
        (directory / "by-hand.sh").write_text(BY_HAND)
        for _ in range(rounds):
            found.append(both(cluster, directory))
            print(f"round {len(found)}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def main(rounds: int = ROUNDS) -> None:
    """Print the median throughput of each size by both ways, and the ratio of their efficiencies."""
    if problem := missing(accounting=False):
        print(f"the image example by `hpcdist scale`: not measured: {problem}")
        return
    found = measured(rounds)
    print("nodes  by scale  by hand  efficiency by scale to by hand (goal x0.98 to x1.02)  of all rounds")
    for size, nodes in enumerate(NODES):
        ours, theirs = (statistics.median(way[size] for way in ways) for ways in zip(*found, strict=True))
        ratios = sorted(each.ratio(size) for each in found)
        ratio, spread = f"x{statistics.median(ratios):.3f}", f"x{ratios[0]:.2f} to x{ratios[-1]:.2f}"
        print(f"{nodes:>5}  {ours:>8.0f}  {theirs:>7.0f}  {ratio:>53}  {spread}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
