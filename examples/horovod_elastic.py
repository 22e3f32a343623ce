"""Elastic Horovod and PyTorch: training goes on with the remaining ranks when a node is lost.

``horovodrun -np 2 --min-np 1 --network-interface lo --host-discovery-script "echo localhost:2" python
examples/horovod_elastic.py``. Every batch is committed: when a rank is lost at most one is done again. With
``--checkpoint=FILE`` a later job goes on after the last epoch that an earlier one finished.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


def pick_device() -> torch.device:
    """Return this rank's GPU where Horovod can use it, else the CPU."""
    if torch.cuda.is_available() and hvd.nccl_built():
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
        return torch.device("cuda")
    torch.set_num_threads(1)  # the ranks of a node share its cores
    return torch.device("cpu")


def make_model() -> nn.Module:
    """Return the classifier of 8x8 images."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train_epoch(
    state: hvd.elastic.TorchState, loader: DataLoader, device: torch.device, pause: float
) -> None:
    """Train what is left of the epoch."""
    for batch, (x, y) in enumerate(loader):
        state.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(state.model(x.to(device)), y.to(device))
        loss.backward()
        state.optimizer.step()  # averages the gradients of all ranks first
        state.losses += (loss.item(),)
        time.sleep(pause)
        state.sampler.record_batch(batch, loader.batch_size)
        state.commit()  # when a rank is lost the others go on from here; and here they hear of new hosts


def save(file: Path, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """Write what the ranks have in memory alone; a job that is killed meanwhile leaves the old checkpoint."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    new = file.with_suffix(".new")
    torch.save(state, new)
    new.replace(file)


def load(file: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the checkpoint, if there is one; return the epoch that comes next."""
    if not file.exists():
        return 1
    state = torch.load(file, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])


def evaluate(model: nn.Module, data: Dataset, device: torch.device) -> float:
    """Return the accuracy, by this rank alone: after the training no rank may wait for one that is lost."""
    x, y = (part.to(device) for part in data[:])
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).float().mean())


def parse_args() -> argparse.Namespace:
    """Read the command line; ``--lr`` and ``--batch-size`` are those of one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep after each batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="read and written, by rank 0")
    return parser.parse_args()


def main() -> None:
    """Train with as many ranks as there are, then print the accuracy."""
    args = parse_args()
    hvd.init()
    torch.manual_seed(args.seed)
    device = pick_device()
    pixels, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels))
    train_data, test_data = random_split(digits, [0.8, 0.2])
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    first = load(args.checkpoint, model, optimizer) if args.checkpoint and hvd.rank() == 0 else 1
    sampler = hvd.elastic.ElasticSampler(train_data, seed=args.seed)
    sampler.set_epoch(first)
    loader = DataLoader(train_data, args.batch_size, sampler=sampler)

    @hvd.elastic.run  # type: ignore[untyped-decorator]
    def train(state: hvd.elastic.TorchState) -> None:
        """Start, or go on after every change of the world: from the last commit, with its ranks of now."""
        state.optimizer.param_groups[0]["lr"] = args.lr * hvd.size()
        place = f"rank {hvd.rank()} of {hvd.size()} on {os.uname().nodename}"
        print(f"epoch {state.epoch} batch {len(state.losses)}: {place}", flush=True)
        while state.epoch <= args.epochs:
            train_epoch(state, loader, device, args.pause)
            if hvd.rank() == 0:
                mean = sum(state.losses) / len(state.losses)
                print(f"epoch {state.epoch}/{args.epochs} loss {mean:.4f} on {hvd.size()} ranks", flush=True)
            state.epoch += 1
            state.losses = ()
            state.sampler.set_epoch(state.epoch)
            if args.checkpoint and hvd.rank() == 0:
                save(args.checkpoint, state.model, state.optimizer, state.epoch)
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=first, losses=()))
    if hvd.rank() == 0:
        print(f"test accuracy {evaluate(model, test_data, device):.4f}", flush=True)
        print(f"done on {hvd.size()} ranks", flush=True)


if __name__ == "__main__":
    main()
