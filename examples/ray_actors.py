"""Fit a line with Ray: each CPU of the job has an actor with a part of the points."""

from __future__ import annotations

import random
import socket
from typing import Any

import ray


class Part:
    """Points of the line y = 3 x - 1."""

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)  # noqa: S311 - made-up data
        self.points = [(x, 3 * x - 1) for x in (source.uniform(-1, 1) for _ in range(1000))]

    def gradient(self, slope: float, offset: float) -> tuple[float, float, float]:
        """Return the mean loss of this line, and its derivatives."""
        errors = [(x, slope * x + offset - y) for x, y in self.points]
        count = len(errors)
        return (
            sum(error * error for _, error in errors) / count,
            sum(2 * error * x for x, error in errors) / count,
            sum(2 * error for _, error in errors) / count,
        )

    def host(self) -> str:
        """Return where this runs."""
        return socket.gethostname()


def main() -> None:
    """Train, and print the loss before and after."""
    ray.init()  # the cluster at RAY_ADDRESS
    remote: Any = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Part)
    parts = [remote.remote(number) for number in range(int(ray.cluster_resources()["CPU"]))]
    hosts = sorted(set(ray.get([part.host.remote() for part in parts])))
    slope = offset = 0.0
    losses = []
    for _ in range(50):
        found = ray.get([part.gradient.remote(slope, offset) for part in parts])
        loss, by_slope, by_offset = (sum(values) / len(parts) for values in zip(*found, strict=True))
        losses.append(loss)
        slope, offset = slope - 0.2 * by_slope, offset - 0.2 * by_offset
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {len(ray.nodes())} nodes: {' '.join(hosts)}")


if __name__ == "__main__":
    main()
