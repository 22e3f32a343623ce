"""JAX on several processes, CPUs or GPUs: least squares by one program over the devices of all of them.

JAX itself reads JAX_COORDINATOR_ADDRESS and JAX_LOCAL_DEVICE_IDS. JAX_NUM_PROCESSES and JAX_PROCESS_ID are
read here; without them it asks Slurm or Open MPI, where one of those started the process.
"""

from __future__ import annotations

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ROWS_PER_DEVICE, FEATURES = 256, 16


def join() -> None:
    """Become one of the processes; collectives between CPUs are gloo's, JAX's default."""
    names = {"num_processes": "JAX_NUM_PROCESSES", "process_id": "JAX_PROCESS_ID"}
    jax.distributed.initialize(
        **{key: int(os.environ[name]) for key, name in names.items() if name in os.environ}
    )


def make_data(seed: int) -> tuple[jax.Array, jax.Array]:
    """Return the rows of all processes, of which each makes and holds its own."""
    rng = np.random.default_rng((seed, jax.process_index()))
    x = rng.normal(size=(ROWS_PER_DEVICE * jax.local_device_count(), FEATURES)).astype(np.float32)
    y = x @ np.arange(FEATURES, dtype=np.float32)
    rows = NamedSharding(Mesh(np.array(jax.devices()), "all"), PartitionSpec("all"))
    return jax.make_array_from_process_local_data(rows, x), jax.make_array_from_process_local_data(rows, y)


def mean_square(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the loss; the mean is over the rows of all processes, so here is where they talk."""
    return jnp.mean((x @ weights - y) ** 2)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Descend, and let the first process report."""
    args = parse_args()
    join()
    x, y = make_data(args.seed)
    step = jax.jit(jax.value_and_grad(mean_square))
    weights = np.zeros(FEATURES, np.float32)
    losses = []
    for _ in range(args.steps):
        loss, gradient = step(weights, x, y)
        weights -= args.lr * np.asarray(gradient)
        losses.append(float(loss))
    if jax.process_index() == 0:
        world = f"{jax.process_count()} processes with {jax.device_count()} devices"
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {world}", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
