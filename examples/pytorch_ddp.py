"""PyTorch's DistributedDataParallel: ``torchrun --nproc-per-node 2 examples/pytorch_ddp.py``.

Its rank comes from MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and LOCAL_RANK. Data and weights
depend only on the seed, so that equal numbers of processes end with the same loss.
"""

from __future__ import annotations

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAMPLES, FEATURES = 1024, 16


def pick_device() -> torch.device:
    """Return this process's GPU, else the CPU."""
    if torch.cuda.is_available():
        # modulo: a launcher may make all GPUs of the node visible, or only that of the process
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        return torch.device("cuda")
    torch.set_num_threads(1)  # the processes of a node share its cores
    return torch.device("cpu")


def make_data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this process's share of points on a noisy plane."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    y = x.sum(dim=1, keepdim=True) + 0.1 * torch.randn(SAMPLES, 1, generator=generator)
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(rank, SAMPLES // size * size, size)  # as many in every process
    return x[mine], y[mine]


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, args: argparse.Namespace) -> list[float]:
    """Return the mean loss over all processes before every step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # averages the gradients of all processes
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(float(mean) / dist.get_world_size())
    return losses


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train, and print the loss from the first process."""
    args, device = parse_args(), pick_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    x, y = (part.to(device) for part in make_data(args.seed))
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))
    losses = train(DistributedDataParallel(net.to(device)), x, y, args)
    if dist.get_rank() == 0:
        world = f"{dist.get_world_size()} {device.type} processes"
        print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f} on {world}", flush=True)
    gc.collect()  # DistributedDataParallel, a reference cycle, would outlive the process group
    dist.barrier()  # the first process to exit would close the connections of the others
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
