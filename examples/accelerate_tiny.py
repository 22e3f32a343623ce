"""Accelerate with its defaults: ``python examples/accelerate_tiny.py`` trains in a single process.

Its rank comes from MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK; ACCELERATE_USE_CPU makes it use
CPUs.
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, FEATURES, BATCH = 1024, 16, 32


def main() -> None:
    """Train, and print a line from every process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator()
    x = torch.randn(SAMPLES, FEATURES)
    data = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=BATCH, shuffle=True)
    net = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    net, optimizer, data = accelerator.prepare(net, optimizer, data)  # each process gets a share of the data
    losses = []
    for _ in range(args.epochs):
        for inputs, targets in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(inputs), targets)
            accelerator.backward(loss)  # averages the gradients of all processes
            optimizer.step()
            losses.append(float(accelerator.reduce(loss.detach(), reduction="mean")))
    size = accelerator.num_processes
    print(f"rank {accelerator.process_index} of {size} in Accelerate", flush=True)
    if accelerator.is_main_process:
        kind = accelerator.device.type
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} on {size} {kind} processes", flush=True)
    accelerator.wait_for_everyone()  # the first process to exit would close the connections of the others
    accelerator.end_training()  # destroys the process group


if __name__ == "__main__":
    main()
    # A thread of gloo that DistributedDataParallel leaves behind may abort a process whose interpreter ends
    # (https://github.com/pytorch/pytorch/pull/179291).
    sys.stdout.flush()
    os._exit(0)
