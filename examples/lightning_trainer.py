"""Lightning's Trainer with its defaults: ``python examples/lightning_trainer.py`` trains in a single process.

It reads the number of nodes and devices from PL_TRAINER_NUM_NODES and PL_TRAINER_DEVICES, and its rank from
the variables of torchrun.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, FEATURES, BATCH = 1024, 16, 32


class Plane(lightning.LightningModule):  # type: ignore[misc] # without types
    """Learns the sum of its input."""

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))
        self.lr = lr
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        """Return the loss of this process, and record the mean over all."""
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.losses.append(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main() -> None:
    """Train, and print a line from every process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0)
    x = torch.randn(SAMPLES, FEATURES)
    data = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=BATCH, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=args.epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    model = Plane(args.lr)
    trainer.fit(model, data)  # each process gets a share of the data
    print(f"rank {trainer.global_rank} of {trainer.world_size} in Lightning", flush=True)
    if trainer.is_global_zero:
        kind = trainer.strategy.root_device.type
        first, last = model.losses[0], model.losses[-1]
        print(f"loss {first:.4f} -> {last:.4f} on {trainer.world_size} {kind} processes", flush=True)
    trainer.strategy.barrier()  # the first process to exit would close the connections of the others
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
    # A thread of gloo that DistributedDataParallel leaves behind may abort a process whose interpreter ends
    # (https://github.com/pytorch/pytorch/pull/179291).
    sys.stdout.flush()
    os._exit(0)
