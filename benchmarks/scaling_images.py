"""The image example on 1, 2 and 4 nodes of the test Slurm: `hpcdist scale` beside a script by hand.

    python -m benchmarks.scaling_images

Both run the same program on the same cluster and take turns in being first; the median run of each size
counts, as what else runs on this machine slows some of them down.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.scaling import CHECKOUT, in_turns, scaled, started_by_hand
from tests.slurm.cluster import Cluster
from tests.slurm.requirements import missing

NODES = (1, 2, 4)
ROUNDS = 3
PROGRAM = "examples/image_classification.py"
PICTURES = 2
EPOCHS = 7
"""The program tells the speed of the median epoch: the first ones warm up."""
BY_HAND = f"""#!/bin/bash
#SBATCH --partition=gpu --ntasks-per-node=1 --cpus-per-task=1 --mem=1G --time=10 --output=by-hand.out
export POLYAXON_RUN_OUTPUTS_PATH=$PWD/by-hand-$SLURM_JOB_ID OMP_NUM_THREADS=1 HOROVOD_GLOO_IFACE=eth0
srun --mpi=pmix python {PROGRAM} --epochs={EPOCHS} --pictures={PICTURES}
cp "$POLYAXON_RUN_OUTPUTS_PATH/metrics.json" by-hand.json
"""


def by_scale(cluster: Cluster, directory: Path) -> list[float]:
    """Return the throughput of each size by `hpcdist scale`."""
    settings = ["--set=batch.partition=gpu", "--set=environment.replicas.per_node=1"]
    params = ["-p", f"epochs={EPOCHS}", "-p", f"pictures={PICTURES}"]
    return scaled(cluster, directory, NODES, "examples/image_classification.yml", *settings, *params)


def by_hand(cluster: Cluster, directory: Path) -> list[float]:
    """Return what the program itself wrote when a script by hand started it on each size."""
    return started_by_hand(cluster, directory, NODES, _written)


def _written(directory: Path) -> float:
    return float(json.loads((directory / "by-hand.json").read_text())["images_per_second"])


def _prepare(directory: Path) -> None:
    (directory / "examples").symlink_to(CHECKOUT / "examples")
    (directory / "by-hand.sh").write_text(BY_HAND)


def main(rounds: int = ROUNDS) -> None:
    """Print the throughput of each size by both ways, and the ratio of their efficiencies."""
    if problem := missing(accounting=False):
        print(f"the image example by `hpcdist scale`: not measured: {problem}")
        return
    ours, theirs = in_turns((by_scale, by_hand), rounds, _prepare)
    print("nodes  by scale  by hand  efficiency by scale  by hand  ratio")
    for nodes, own, other in zip(NODES, ours, theirs, strict=True):
        shares = own / ours[0] / nodes, other / theirs[0] / nodes
        ratio = shares[0] / shares[1]
        print(f"{nodes:>5}  {own:>8.0f}  {other:>7.0f}  {shares[0]:>19.3f}  {shares[1]:>7.3f}  x{ratio:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
