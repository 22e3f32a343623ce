"""TensorFlow with MultiWorkerMirroredStrategy: TF_CONFIG names the workers, which are equals.

Each trains on its share of every batch. The training loop is explicit, since Keras 3 no longer supports
this strategy.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its servers log much; this hides all but errors

import tensorflow as tf

SAMPLES, FEATURES, BATCH = 1024, 16, 64


def make_data(seed: int) -> tf.data.Dataset:
    """Return the batches of all processes together."""
    x = tf.random.stateless_normal([SAMPLES, FEATURES], seed=(seed, 0))
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).with_options(options)


def train(strategy: tf.distribute.Strategy, args: argparse.Namespace) -> list[float]:
    """Return the mean loss over all processes in every epoch."""
    data = strategy.experimental_distribute_dataset(make_data(args.seed))
    with strategy.scope():  # the same on every device, for ever
        weights = tf.Variable(tf.zeros([FEATURES, 1]))

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weights - y) ** 2) / BATCH
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
        weights.assign_sub(args.lr * gradient)
        return loss

    def all_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(step, args=(x, y)), axis=None)

    graph = tf.function(all_step)
    return [sum(float(graph(x, y)) for x, y in data) * BATCH / SAMPLES for _ in range(args.epochs)]


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def is_chief(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> bool:
    """Return whether this process reports: the chief, worker 0 where there is none, or it is alone."""
    others = cluster.cluster_spec().as_dict()
    first = "worker" if "chief" not in others else "chief"
    return not others or (cluster.task_type, cluster.task_id) == (first, 0)


def main() -> None:
    """Train, and let the chief report."""
    args = parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow
    losses = train(strategy, args)
    if is_chief(strategy.cluster_resolver):
        replicas = strategy.num_replicas_in_sync
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {replicas} replicas", flush=True)


if __name__ == "__main__":
    main()
