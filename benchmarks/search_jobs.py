"""What hyperband and Bayesian optimization find as jobs: the digits of an example, on the test Slurm.

Each search is `hpcdist submit --wait` of `examples/packed_search.yml` with another section `hptuning`, and
trains as many epochs in all. Its trials are packed: four GPUs of one node have one at a time. It takes some
minutes, so `make bench` leaves it out: `python -m benchmarks.search_jobs`.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.clusters import booted
from hpcdist.experiment.trials import brackets
from tests.slurm.cluster import CHECKOUT
from tests.slurm.requirements import missing
from tests.slurm.users import User

REPETITIONS: Final = 5
MOST: Final = 9
"""Epochs of a whole training."""

_METRIC: Final = {"name": "accuracy", "optimization": "maximize"}
_MATRIX: Final = {
    "lr": {"loguniform": [math.log(1e-4), math.log(10)]},
    "batch_size": {"values": [8, 16, 32, 64, 128]},
}
_COMMAND: Final = (
    "python examples/quickstart.py --lr={{ lr }} --batch-size={{ batch_size }} --epochs={{ epochs }}"
)
_EPOCHS: Final = sum(one.trials * round(one.amount) for rounds in brackets(MOST, 3) for one in rounds)
"""Of hyperband, whose trials begin anew in each round."""


class Found(NamedTuple):
    """What a search came to: its best accuracy, its trials, their epochs and GPU-seconds."""

    accuracy: float
    trials: int
    epochs: int
    gpu_seconds: float


def searches() -> Mapping[str, Mapping[str, Any]]:
    """Return the sections of the three searches, with as many epochs in all."""
    count = _EPOCHS // MOST
    band = {"max_iterations": MOST, "eta": 3, "resource": {"name": "epochs", "type": "int"}}
    return {
        "random": {"random_search": {"n_experiments": count}, "metric": _METRIC},
        "hyperband": {"hyperband": {**band, "metric": _METRIC}},
        "bo": {"bo": {"n_initial_trials": count // 2, "n_iterations": count - count // 2, "metric": _METRIC}},
    }


def run_search(user: User, algorithm: str, seed: int) -> Found:
    """Submit one search, wait for its end, and read what it came to."""
    section = {"concurrency": 4, "seed": seed, "matrix": _MATRIX, **searches()[algorithm]}
    settings = {
        "name": f"{algorithm}-{seed}",
        "hptuning": json.dumps(section),
        "params.epochs": "null" if algorithm == "hyperband" else str(MOST),
        "run.cmd": json.dumps(_COMMAND),
        "environment.resources.gpu.requests": "1",
        "batch.partition": "a100",
    }
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    done = user.hpcdist("submit", "examples/packed_search.yml", *words, "--wait", timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr)
    run = f"{algorithm}-{seed}-1"
    shown, (best,) = user.json("sweep", "status", run), user.json("sweep", "best", run)
    epochs = sum(one["params"].get("epochs", MOST) for one in shown["trials"])
    seconds = 3600 * math.fsum(one["gpu_hours"] for one in shown["trials"])
    return Found(best["metrics"]["accuracy"], shown["number"], epochs, seconds)


def main() -> None:
    """Print a row for each algorithm."""
    if problem := missing(accounting=False):
        print(f"searches as jobs: not measured: {problem}")
        return
    with booted() as (cluster, directory):
        (directory / "examples").symlink_to(CHECKOUT / "examples")
        user = User(cluster, directory)
        found: dict[str, list[Found]] = {name: [] for name in searches()}
        for seed in range(REPETITIONS):
            for name, own in found.items():
                own.append(run_search(user, name, seed))
    print(f"best accuracy on the digits as jobs of the test Slurm, {REPETITIONS} seeds")
    for name, own in found.items():
        print(f"{name:<10} {_row(own)}", flush=True)


def _row(found: Sequence[Found]) -> str:
    each = " ".join(f"{one.accuracy:.4f}" for one in found)
    mean = statistics.mean(one.accuracy for one in found)
    last, spent = found[-1], statistics.mean(one.gpu_seconds for one in found)
    told = f"{last.trials} trials, {last.epochs} epochs, {spent:.0f} GPU-seconds"
    return f"mean {mean:.4f}   {each}   {told}"


if __name__ == "__main__":
    main()
