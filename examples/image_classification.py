"""A convolutional network, trained by Horovod; a later job goes on from the checkpoint of an earlier one.

Its images are scikit-learn's digits, each somewhere on a larger, noisy picture: nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim import Adam, Optimizer
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset, random_split

OUTPUTS = Path(os.environ.get("POLYAXON_RUN_OUTPUTS_PATH", "."))
WARM_UP = 5  # batches of each epoch that do not count for the throughput


def scatter(digits: Dataset, count: int) -> TensorDataset:
    """Return so many noisy pictures of 28x28 for each digit, which fills 16x16 of them somewhere."""
    images, labels = (part.repeat_interleave(count, dim=0) for part in digits[:])
    pictures = 0.2 * torch.randn(len(images), 1, 28, 28)
    places = torch.randint(13, (len(images), 2)).tolist()
    for picture, image, (top, left) in zip(pictures, images, places, strict=True):
        picture[:, top : top + 16, left : left + 16] += image
    return TensorDataset(pictures, labels)


def make_data(pictures: int) -> list[TensorDataset]:
    """Return pictures to learn from, and of other digits to be tested with; the same on all ranks."""
    pixels, labels = load_digits(return_X_y=True)
    small = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    digits = TensorDataset(nn.functional.interpolate(small, size=16, mode="bilinear"), torch.tensor(labels))
    return [scatter(part, pictures) for part in random_split(digits, [0.8, 0.2])]


def make_model() -> nn.Module:
    """Return a network that knows a digit wherever it is."""
    layers = []
    for before, after in (1, 16), (16, 32), (32, 64):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(2), nn.GroupNorm(4, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resume(file: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Bring all ranks to the state of rank 0, which reads the checkpoint; return the epochs done."""
    epoch, lr = 0, optimizer.param_groups[0]["lr"]
    if hvd.rank() == 0 and file.exists():
        state = torch.load(file, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        optimizer.param_groups[0]["lr"] = lr  # this job may have more ranks than the last
        epoch = state["epoch"]
        print(f"resuming after epoch {epoch}", flush=True)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return int(hvd.broadcast_object(epoch, root_rank=0))


def save(file: Path, model: nn.Module, optimizer: Optimizer, epoch: int) -> None:
    """Write the checkpoint; a job that is killed meanwhile leaves the old one."""
    part = file.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, part)
    part.replace(file)


def train_epoch(model: nn.Module, optimizer: Optimizer, loader: DataLoader) -> tuple[float, float]:
    """Return the mean loss, and how many images a second all ranks together went through."""
    device, losses, images, begun = next(model.parameters()).device, [], 0, time.perf_counter()
    for number, (x, y) in enumerate(loader):
        if number == WARM_UP:
            images, begun = 0, time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()  # averages the gradients of all ranks first
        losses.append(loss.item())
        images += len(y)
    speed = images / (time.perf_counter() - begun)
    means = hvd.allreduce(torch.tensor([statistics.fmean(losses), speed]), name="means")
    return float(means[0]), float(means[1]) * hvd.size()


def evaluate(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Return the accuracy; the pictures are shared out among the ranks."""
    x, y = (part[hvd.rank() :: hvd.size()].to(device) for part in data[:])
    with torch.no_grad():
        hits = (model(x).argmax(dim=1) == y).sum()
    return float(hvd.allreduce(hits, op=hvd.Sum, name="hits")) / len(data)


def parse_args() -> argparse.Namespace:
    """Read the command line; ``--lr`` and ``--batch-size`` are those of one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--epochs", type=int, default=3, help="in all, with those of earlier jobs")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--pictures", type=int, default=8, help="of each digit")
    parser.add_argument("--checkpoint", type=Path, default=OUTPUTS, metavar="DIR", help="read and written")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each epoch")
    return parser.parse_args()


def main() -> None:
    """Train from the checkpoint on, then write ``metrics.json``."""
    args = parse_args()
    args.checkpoint.mkdir(parents=True, exist_ok=True)
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the ranks of a node share its cores
    gpus = torch.cuda.device_count() if hvd.nccl_built() else 0
    device = torch.device("cuda" if gpus else "cpu")
    if gpus:
        torch.cuda.set_device(hvd.local_rank() % gpus)
    train_data, test_data = make_data(args.pictures)
    model = make_model().to(device)
    optimizer = Adam(model.parameters(), lr=args.lr * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    done = resume(args.checkpoint / "checkpoint.pt", model, optimizer)  # after the line above, which forgets
    sampler = DistributedSampler(train_data, hvd.size(), hvd.rank())
    loader = DataLoader(train_data, args.batch_size, sampler=sampler)
    speeds = []
    for epoch in range(done + 1, args.epochs + 1):
        sampler.set_epoch(epoch)
        loss, speed = train_epoch(model, optimizer, loader)
        speeds.append(speed)
        if hvd.rank() == 0:
            print(f"epoch {epoch}/{args.epochs} loss {loss:.4f}", flush=True)
            save(args.checkpoint / "checkpoint.pt", model, optimizer, epoch)
        time.sleep(args.pause)
    accuracy, speed = evaluate(model, test_data, device), statistics.median(speeds or [0.0])
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.4f} on {hvd.size()} ranks", flush=True)
        print(f"throughput {speed:.0f} images/s on {hvd.size()} ranks", flush=True)
        metrics = {"accuracy": accuracy, "ranks": hvd.size(), "images_per_second": speed}
        metrics["epochs"] = max(done, args.epochs)
        (OUTPUTS / "metrics.json").write_text(json.dumps(metrics) + "\n")


if __name__ == "__main__":
    main()
