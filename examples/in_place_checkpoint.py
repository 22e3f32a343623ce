"""How not to save: this training writes each checkpoint over the last one, in place.

A kill while it writes leaves half a checkpoint, and no other one. ``hpcdist rehearse`` finds that. The
training of ``pytorch_resume.py`` writes another file, and moves that into place.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

CHECKPOINT = Path(os.environ.get("HPCDIST_CHECKPOINTS", "."), "checkpoint.json")
PIECES = 10
POINTS = [(x / 10, 3 * x / 10 - 1) for x in range(-10, 11)]
"""Of a line, which the training finds."""


def save(state: dict[str, float], seconds: float) -> None:
    """Write the checkpoint, which takes so long: a large one on a shared file system does."""
    text = json.dumps(state, indent=1)
    size = len(text) // PIECES + 1
    with CHECKPOINT.open("w") as file:  # here the last checkpoint is lost, and the new one is not there yet
        for place in range(0, len(text), size):
            file.write(text[place : place + size])
            file.flush()
            time.sleep(seconds / PIECES)


def train(state: dict[str, float]) -> None:
    """Go a step along the gradient."""
    for name, weight in ("slope", lambda x: x), ("offset", lambda _: 1.0):
        state[name] -= 0.1 * sum(error(state, x, y) * weight(x) for x, y in POINTS) / len(POINTS)
    state["step"] += 1


def error(state: dict[str, float], x: float, y: float) -> float:
    """Return how far the line is from a point."""
    return state["slope"] * x + state["offset"] - y


def loss(state: dict[str, float]) -> float:
    """Return the mean of the squares of the errors."""
    return sum(error(state, x, y) ** 2 for x, y in POINTS) / len(POINTS)


def main() -> None:
    """Train, and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    parser.add_argument("--saving", type=float, default=0, help="seconds that a checkpoint takes")
    args = parser.parse_args()
    state = {"step": 0.0, "slope": 0.0, "offset": 0.0}
    before = loss(state)
    if CHECKPOINT.exists():
        state = json.loads(CHECKPOINT.read_text())
        print(f"going on from step {state['step']:.0f}", flush=True)
    while state["step"] < args.steps:
        train(state)
        time.sleep(args.pause)
        save(state, args.saving)
    print(f"loss {before:.4f} -> {loss(state):.4f} after {args.steps} steps", flush=True)


if __name__ == "__main__":
    main()
