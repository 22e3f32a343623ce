"""A minimal Horovod program with PyTorch: ``horovodrun -np 4 python examples/horovod_digits.py``.

``image_classification.py`` adds checkpoints and the measurement of speed.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import horovod.torch as hvd
import torch
from hpcdist_tracking import log_metrics
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset, random_split

OUTPUTS = Path(os.environ.get("POLYAXON_RUN_OUTPUTS_PATH", "."))


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


def make_loader(data: Dataset, batch_size: int, seed: int) -> DataLoader:
    """Return batches of this rank's share of the data."""
    sampler = DistributedSampler(data, hvd.size(), hvd.rank(), seed=seed)
    return DataLoader(data, batch_size, sampler=sampler)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, device: torch.device
) -> float:
    """Return the mean loss over all ranks."""
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()  # averages the gradients of all ranks first
        losses.append(loss.detach())
    return float(hvd.allreduce(torch.stack(losses).mean(), name="loss"))


def evaluate(model: nn.Module, data: Dataset, device: torch.device) -> float:
    """Return the accuracy; the images are shared out among the ranks."""
    x, y = (part[hvd.rank() :: hvd.size()].to(device) for part in data[:])
    with torch.no_grad():
        hits = (model(x).argmax(dim=1) == y).sum()
    return float(hvd.allreduce(hits, op=hvd.Sum, name="hits")) / len(data)


def parse_args(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ``--lr`` and ``--batch-size`` are those of one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


def main(log: Callable[..., None] = log_metrics, words: Sequence[str] | None = None) -> None:
    """Train, and give ``log`` the metrics; then write ``model.pt`` and ``metrics.json``."""
    args = parse_args(words)
    hvd.init()
    torch.manual_seed(args.seed)
    device = pick_device()
    pixels, labels = load_digits(return_X_y=True)
    digits = TensorDataset(torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels))
    train_data, test_data = random_split(digits, [0.8, 0.2])
    model = make_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    loader = make_loader(train_data, args.batch_size, args.seed)
    for epoch in range(1, args.epochs + 1):
        loader.sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader, device)
        if hvd.rank() == 0:
            print(f"epoch {epoch}/{args.epochs} loss {loss:.4f}", flush=True)
            log(step=epoch, loss=loss)
    accuracy = evaluate(model, test_data, device)
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.4f} on {hvd.size()} ranks", flush=True)
        log(step=args.epochs, accuracy=accuracy)
        torch.save(model.state_dict(), OUTPUTS / "model.pt")
        (OUTPUTS / "metrics.json").write_text(json.dumps({"accuracy": accuracy, "ranks": hvd.size()}) + "\n")


if __name__ == "__main__":
    main()
