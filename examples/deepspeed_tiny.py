"""DeepSpeed with ZeRO's first stage: ``deepspeed --num_gpus 2 examples/deepspeed_tiny.py``.

Its rank comes from MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK. DS_ACCELERATOR=cpu makes it use
CPUs.
"""

from __future__ import annotations

import argparse
import logging

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from torch import nn

FEATURES, BATCH = 16, 64


def config(lr: float) -> dict[str, object]:
    """Return the configuration, which is usually a file ``ds_config.json``."""
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        # PyTorch's implementation: DeepSpeed would compile its own first
        "optimizer": {"type": "Adam", "params": {"lr": lr, "torch_adam": True}},
        "zero_optimization": {"stage": 1},
    }


def parse_args() -> argparse.Namespace:
    """Read the command line, to which DeepSpeed's launcher adds ``--local_rank``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--local_rank", type=int)
    return parser.parse_args()


def main() -> None:
    """Train, and print the loss from the first process."""
    args = parse_args()
    deepspeed.utils.logger.setLevel(logging.WARNING)
    deepspeed.init_distributed()  # nccl between GPUs, gloo between CPUs
    rank, size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))
    engine, *_ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=config(args.lr))
    generator = torch.Generator().manual_seed(args.seed + rank)  # every process has its own data
    x = torch.randn(BATCH, FEATURES, generator=generator).to(engine.device)
    y = x.sum(dim=1, keepdim=True)
    losses = []
    for _ in range(args.steps):
        loss = nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)  # averages the gradients of all processes
        engine.step()
        mean = loss.detach()
        deepspeed.comm.all_reduce(mean)
        losses.append(float(mean) / size)
    if rank == 0:
        device = get_accelerator().device_name()
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {size} {device} processes", flush=True)
    deepspeed.comm.barrier()  # the first process to exit would close the connections of the others
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
