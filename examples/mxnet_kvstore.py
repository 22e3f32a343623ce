"""MXNet's distributed key-value store; DMLC_ROLE gives each process its role.

A scheduler or a server works inside ``import mxnet``, and ends there when the workers have ended.
"""

from __future__ import annotations

import argparse

import mxnet as mx
from mxnet import autograd, gluon, nd

FEATURES, BATCH = 16, 64
CHECK = 1000  # a key that is none of the Trainer's, which are numbers from 0


def check(store: mx.kvstore.KVStore) -> None:
    """Let every worker push its rank plus one, and see the sum of all in what it pulls."""
    total = nd.zeros(1)
    store.init(CHECK, total)
    store.push(CHECK, nd.array([store.rank + 1]))
    store.pull(CHECK, out=total)
    expected = store.num_workers * (store.num_workers + 1) / 2
    if total.asscalar() != expected:
        raise SystemExit(f"pulled {total.asscalar()}, not {expected}")


def train(store: mx.kvstore.KVStore, args: argparse.Namespace) -> list[float]:
    """Return this worker's loss before every step; the servers hold the weights and move them."""
    mx.random.seed(args.seed + store.rank)  # every worker has data of its own
    x = nd.random.normal(shape=(BATCH, FEATURES))
    y = x.sum(axis=1, keepdims=True)
    net = gluon.nn.Dense(1, in_units=FEATURES)
    net.initialize(mx.init.Zero())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": args.lr}, kvstore=store)
    square = gluon.loss.L2Loss()
    losses = []
    for _ in range(args.steps):
        with autograd.record():
            loss = square(net(x), y)
        loss.backward()
        trainer.step(BATCH * store.num_workers)
        losses.append(loss.mean().asscalar())
    return losses


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Check, train, and let the first worker report."""
    args, store = parse_args(), mx.kvstore.create("dist_sync")
    check(store)
    losses = train(store, args)
    if store.rank == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {store.num_workers} workers", flush=True)


if __name__ == "__main__":
    main()
