"""TensorFlow with parameter servers; TF_CONFIG tells each process which of chief, worker and ps it is.

The chief hands out the steps, and ends after the last; workers and parameter servers serve until stopped.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # its servers log much; this hides all but errors

import tensorflow as tf

FEATURES, BATCH = 16, 64


def train(cluster: tf.distribute.cluster_resolver.ClusterResolver, args: argparse.Namespace) -> list[float]:
    """Return the loss of every step; each is computed by the worker that is free."""
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():  # variables live on the parameter servers
        weights = tf.Variable(tf.zeros([FEATURES, 1]))

    def step(number: tf.Tensor) -> tf.Tensor:
        x = tf.random.stateless_normal([BATCH, FEATURES], seed=(args.seed, number))
        y = tf.reduce_sum(x, axis=1, keepdims=True)
        error = x @ weights - y
        weights.assign_sub(args.lr * 2 / BATCH * tf.matmul(x, error, transpose_a=True))
        return tf.reduce_mean(error**2)

    graph = tf.function(step)
    losses = [coordinator.schedule(graph, args=(number,)) for number in tf.range(args.steps)]
    coordinator.join()
    print(f"the weights are on {weights.device}", flush=True)
    return [float(loss) for loss in coordinator.fetch(losses)]


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Be what TF_CONFIG says."""
    args = parse_args()
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec = cluster.cluster_spec()
    if cluster.task_type != "chief":
        tf.distribute.Server(spec, job_name=cluster.task_type, task_index=cluster.task_id).join()
    losses = train(cluster, args)
    peers = f"{spec.num_tasks('worker')} workers and {spec.num_tasks('ps')} parameter servers"
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {peers}", flush=True)


if __name__ == "__main__":
    main()
