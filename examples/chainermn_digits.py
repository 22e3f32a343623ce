"""ChainerMN, which is Chainer over MPI: ``mpirun -np 2 python examples/chainermn_digits.py``.

The digits are ten patterns with noise, drawn here, since Chainer would load the real ones from the network.
"""

from __future__ import annotations

import argparse

import chainer
import chainermn
import numpy as np
from chainer import functions, links

PIXELS, DIGITS, SAMPLES, BATCH = 64, 10, 1024, 32


def make_data(seed: int) -> chainer.dataset.DatasetMixin:
    """Return noisy images and which digit each is."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(2, size=(DIGITS, PIXELS))
    labels = rng.integers(DIGITS, size=SAMPLES).astype(np.int32)
    images = patterns[labels] + rng.normal(0, 0.5, (SAMPLES, PIXELS))
    return chainer.datasets.TupleDataset(images.astype(np.float32), labels)


def train(comm: chainermn.CommunicatorBase, args: argparse.Namespace) -> list[float]:
    """Return the mean loss over all processes in every epoch."""
    # the first process alone has the data, and sends every other its share
    data = chainermn.scatter_dataset(make_data(args.seed) if comm.rank == 0 else None, comm)
    model = links.Classifier(
        chainer.Sequential(links.Linear(PIXELS, 32), functions.relu, links.Linear(32, DIGITS))
    )
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.SGD(args.lr), comm).setup(model)
    losses = []
    for _ in range(args.epochs):
        total = []
        for batch in chainer.iterators.SerialIterator(data, BATCH, repeat=False):
            optimizer.update(model, *chainer.dataset.concat_examples(batch))  # by the mean of all gradients
            total.append(model.loss.array)
        losses.append(float(comm.allreduce_obj(np.mean(total))) / comm.size)
    return losses


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train, and let the first process report."""
    args, comm = parse_args(), chainermn.create_communicator("naive")  # on CPUs; the others need CUDA
    losses = train(comm, args)
    if comm.rank == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {comm.size} processes", flush=True)


if __name__ == "__main__":
    main()
