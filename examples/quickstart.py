"""Data-parallel training with MPI: ``mpirun -np 2 python examples/quickstart.py``.

Every rank computes gradients on its own shard of the digits; their average moves the same weights on all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

import numpy as np
from hpcdist_tracking import log_metrics
from mpi4py import MPI
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

SHAPES = (64, 32), (32,), (32, 10), (10,)
SIZES = [math.prod(shape) for shape in SHAPES]


def parts(weights: Floats) -> list[Floats]:
    """Return the layers as views of the one vector that holds them all, so one Allreduce is enough."""
    pieces = np.split(weights, np.cumsum(SIZES)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, SHAPES, strict=True)]


def forward(weights: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Return the hidden layer and the probability of each digit."""
    w1, b1, w2, b2 = parts(weights)
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def gradient(weights: Floats, x: Floats, y: Labels) -> tuple[float, Floats]:
    """Return the mean cross entropy and its derivative by the weights."""
    hidden, probabilities = forward(weights, x)
    rows = np.arange(len(y))
    loss = float(-np.log(probabilities[rows, y]).mean())
    error = probabilities
    error[rows, y] -= 1
    error /= len(y)
    back = (error @ parts(weights)[2].T) * (1 - hidden**2)
    by_part = (x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
    return loss, np.concatenate([part.ravel() for part in by_part])


def train(comm: MPI.Comm, x: Floats, y: Labels, args: argparse.Namespace) -> Floats:
    """Return the weights after all epochs; ``x`` and ``y`` are the whole training set on every rank."""
    rng = np.random.default_rng((args.seed, comm.rank))
    weights = rng.normal(0, 0.1, sum(SIZES))
    comm.Bcast(weights)
    mine = np.arange(comm.rank, len(x) // comm.size * comm.size, comm.size)  # as many on every rank
    for epoch in range(1, args.epochs + 1):
        losses = []
        order = rng.permutation(mine)
        for batch in np.split(order, range(args.batch_size, len(order), args.batch_size)):
            loss, step = gradient(weights, x[batch], y[batch])
            comm.Allreduce(MPI.IN_PLACE, step)
            weights -= args.lr * step / comm.size
            losses.append(loss)
        mean = comm.allreduce(np.mean(losses)) / comm.size
        report(comm, f"epoch {epoch}/{args.epochs} loss {mean:.4f}")
        log_metrics(step=epoch, loss=mean)
    return weights


def report(comm: MPI.Comm, line: str) -> None:
    """Print the line once, not once per rank."""
    if comm.rank == 0:
        print(line, flush=True)


def same_everywhere(comm: MPI.Comm, weights: Floats) -> bool:
    """Return whether all ranks hold the same weights, to the last bit."""
    low, high = np.empty_like(weights), np.empty_like(weights)
    comm.Allreduce(weights, low, MPI.MIN)
    comm.Allreduce(weights, high, MPI.MAX)
    return bool(np.array_equal(low, high))


def parse_args() -> argparse.Namespace:
    """Read the command line; ``--batch-size`` counts the images of one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train, check and write ``metrics.json`` into the outputs of the run."""
    args, comm = parse_args(), MPI.COMM_WORLD
    pixels, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(pixels / 16, labels, test_size=0.2, random_state=args.seed)
    weights = train(comm, x, y, args)
    if not same_everywhere(comm, weights):
        sys.exit("the ranks do not hold the same weights")
    accuracy = float((forward(weights, x_test)[1].argmax(axis=1) == y_test).mean())
    report(comm, f"test accuracy {accuracy:.4f} on {comm.size} ranks")
    log_metrics(step=args.epochs, accuracy=accuracy)
    outputs = os.environ.get("POLYAXON_RUN_OUTPUTS_PATH")
    if comm.rank == 0 and outputs:
        metrics = json.dumps({"accuracy": accuracy, "ranks": comm.size})
        Path(outputs, "metrics.json").write_text(metrics + "\n")


if __name__ == "__main__":
    main()
