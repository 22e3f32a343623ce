"""The image example on 1, 2 and 4 nodes of the test Slurm: `hpcdist scale` beside a script by hand.

    python -m benchmarks.scaling_images

Both run the same program on the same cluster and take turns in being first; the median run of each size
counts, as what else runs on this machine slows some of them down.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.config import USERS
from tests.slurm.process import SYSTEM_PATH
from tests.slurm.requirements import missing

NODES = (1, 2, 4)
ROUNDS = 3
PROGRAM = "examples/image_classification.py"
PICTURES = 3
Way = Callable[[Cluster, Path], Sequence[float]]
BY_HAND = f"""#!/bin/bash
#SBATCH --partition=gpu --ntasks-per-node=1 --cpus-per-task=1 --mem=1G --time=10 --output=by-hand.out
export POLYAXON_RUN_OUTPUTS_PATH=$PWD/by-hand-$SLURM_JOB_ID OMP_NUM_THREADS=1 HOROVOD_GLOO_IFACE=eth0
srun --mpi=pmix python {PROGRAM} --epochs=1 --pictures={PICTURES}
cp "$POLYAXON_RUN_OUTPUTS_PATH/metrics.json" by-hand.json
"""


def by_scale(cluster: Cluster, directory: Path) -> list[float]:
    """Return the throughput of each size that `hpcdist scale` reports."""
    python = CHECKOUT / ".venv" / "bin" / "python"
    sizes = ",".join(map(str, NODES))
    experiment = ["examples/image_classification.yml", "--site=testbed", "--set=batch.partition=gpu"]
    params = ["-p", "epochs=1", "-p", f"pictures={PICTURES}", "--set=environment.replicas.per_node=1"]
    words = ["scale", *experiment, *params, f"--nodes={sizes}", "--chain", "--wait", "--json"]
    argv = [str(python), "-m", "hpcdist", *words]
    environment = {"PATH": f"{python.parent}:{SYSTEM_PATH}"}
    done = cluster.run(argv, cwd=directory, env=environment, check=True, timeout=600)
    return [float(size["throughput"]["median"]) for size in json.loads(done.stdout)["sizes"]]


def by_hand(cluster: Cluster, directory: Path) -> list[float]:
    """Return what the program itself wrote when a script by hand started it on each size."""
    environment = {"PATH": f"{CHECKOUT}/.venv/bin:{SYSTEM_PATH}"}
    speeds = []
    for nodes in NODES:
        argv = ["sbatch", "--wait", f"--nodes={nodes}", "by-hand.sh"]
        cluster.run(argv, cwd=directory, env=environment, check=True, timeout=300)
        speeds.append(float(json.loads((directory / "by-hand.json").read_text())["images_per_second"]))
    return speeds


def main(rounds: int = ROUNDS) -> None:
    """Print the throughput of each size by both ways, and the ratio of their efficiencies."""
    if problem := missing(accounting=False):
        print(f"the image example by `hpcdist scale`: not measured: {problem}")
        return
    speeds: dict[Way, list[Sequence[float]]] = {by_scale: [], by_hand: []}
    with tempfile.TemporaryDirectory() as folder, Cluster.boot(Path(folder) / "cluster") as cluster:
        directory = cluster.home() / "images"
        directory.mkdir()
        os.chown(directory, USERS["hu1"], USERS["hu1"])
        (directory / "examples").symlink_to(CHECKOUT / "examples")
        (directory / "by-hand.sh").write_text(BY_HAND)
        for turn in range(rounds):
            for way in [*speeds][:: -1 if turn % 2 else 1]:
                speeds[way].append(way(cluster, directory))
                print(f"round {turn + 1}, {way.__name__}: {speeds[way][-1]}", file=sys.stderr, flush=True)
    ours, theirs = ([*map(statistics.median, zip(*each, strict=True))] for each in speeds.values())
    print("nodes  by scale  by hand  efficiency by scale  by hand  ratio")
    for nodes, own, other in zip(NODES, ours, theirs, strict=True):
        shares = own / ours[0] / nodes, other / theirs[0] / nodes
        ratio = shares[0] / shares[1]
        print(f"{nodes:>5}  {own:>8.0f}  {other:>7.0f}  {shares[0]:>19.3f}  {shares[1]:>7.3f}  x{ratio:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
