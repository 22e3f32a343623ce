"""How the throughput of the image example grows with tasks on this machine; with nodes: `scaling_studies`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks import scaling_studies

CHECKOUT = Path(__file__).resolve().parents[1]
TASKS = (1, 2, 4)


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


def main() -> None:
    """Print a row for each number of tasks; beyond the number of cores none can be faster."""
    if not find_spec("horovod"):
        print("scaling: not measured: there is no Horovod; `tools/setup test` installs it")
        return
    print(f"Horovod, a convolutional network on the {os.cpu_count()} cores of this machine")
    print("tasks  images/s  to 1 task")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(CHECKOUT / "examples")
        speeds: list[float] = []
        for tasks in TASKS:
            speeds.append(images_per_second(Path(folder), tasks))
            print(f"{tasks:>5}  {speeds[-1]:>8.0f}  x{speeds[-1] / speeds[0]:.2f}", flush=True)
    scaling_studies.main()


if __name__ == "__main__":
    main()
