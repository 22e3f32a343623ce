"""A training that may be killed at any moment: it goes on from its checkpoint to the same weights.

``torchrun --nproc-per-node 2 examples/pytorch_resume.py``; kill it, and start it again. The order of the data
depends on the seed and the step alone, and the checkpoint has all the rest.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT = Path(os.environ.get("HPCDIST_CHECKPOINTS", "."), "checkpoint.pt")
OUTPUTS = Path(os.environ.get("HPCDIST_OUTPUTS", "."))
BATCH = 32  # of each process
signals: list[int] = []
"""Those that came: the handler only records them, as the processes may be at different steps."""


def recorder() -> Callable[..., None]:
    """Return the function that records metrics, in a job of hpcdist."""
    try:
        from hpcdist_tracking import log_metrics
    except ImportError:
        return lambda **_: None
    return log_metrics


def all_end() -> bool:
    """Whether any process got a signal, which all must know at the same step."""
    told = torch.tensor(len(signals), device=pick_device())
    dist.all_reduce(told)
    return bool(told)


def pick_device() -> torch.device:
    """Return this process's GPU, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    return torch.device("cpu")


def rng_state() -> dict[str, torch.Tensor]:
    """Return the state of this process's generators of random numbers."""
    state = {"cpu": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def save(step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write the checkpoint, in all processes; one that is killed meanwhile leaves the old one."""
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, rng_state())
    if dist.get_rank() == 0:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "rng": states,
            "step": step,
        }
        part = CHECKPOINT.with_suffix(".part")
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())  # before the new name is: the node may fail
        part.replace(CHECKPOINT)
    dist.barrier()  # the first process to exit may end the others


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the checkpoint, if there is one; return the number of steps done."""
    if not CHECKPOINT.exists():
        return 0
    state = torch.load(CHECKPOINT, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    mine = state["rng"][dist.get_rank()]
    torch.set_rng_state(mine["cpu"])
    if "cuda" in mine:
        torch.cuda.set_rng_state(mine["cuda"])
    if dist.get_rank() == 0:
        print(f"going on from step {state['step']}", flush=True)
    return int(state["step"])


def batch_of(step: int, count: int, seed: int) -> torch.Tensor:
    """Return which samples this process learns from in a step; each epoch has an order of its own."""
    size = BATCH * dist.get_world_size()
    epoch, place = divmod(step, count // size)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch))
    return order[place * size : (place + 1) * size][dist.get_rank() :: dist.get_world_size()]


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, args: argparse.Namespace) -> bool:
    """Train from the checkpoint on, and write another one after each epoch; return whether it is finished."""
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    parallel, log = DistributedDataParallel(model), recorder()
    steps_of_epoch = len(x) // (BATCH * dist.get_world_size())
    for step in range(resume(model, optimizer), args.epochs * steps_of_epoch):
        mine = batch_of(step, len(x), args.seed)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(x[mine]), y[mine])
        loss.backward()
        optimizer.step()
        time.sleep(args.pause)
        end = all_end()
        if end or (step + 1) % steps_of_epoch == 0:
            log(step=step + 1, loss=loss.item())
            save(step + 1, model, optimizer)
        if end:
            return False
    return True


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.002)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0, help="seconds after each step")
    return parser.parse_args()


def main() -> None:
    """Train, and print the accuracy from the first process, which also writes the weights."""
    for each in signal.SIGUSR1, signal.SIGTERM:  # which comes before the time limit
        signal.signal(each, lambda number, _: signals.append(number))
    args, device = parse_args(), pick_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)  # the processes of a node share its cores
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(args.seed)
    layers = nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)
    model = nn.Sequential(*layers).to(device)
    torch.manual_seed(args.seed + dist.get_rank())  # of the dropout
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32, device=device), torch.tensor(labels, device=device)
    tests = torch.arange(len(x)) % 5 == 0
    is_finished = train(model, x[~tests], y[~tests], args)
    if is_finished and dist.get_rank() == 0:
        model.eval()
        accuracy = float((model(x[tests]).argmax(dim=1) == y[tests]).float().mean())
        torch.save(model.state_dict(), OUTPUTS / "weights.pt")
        print(f"test accuracy {accuracy:.4f} on {dist.get_world_size()} {device.type} processes", flush=True)
    gc.collect()  # DistributedDataParallel, a reference cycle, would outlive the process group
    dist.barrier()  # the first process to exit would close the connections of the others
    dist.destroy_process_group()
    if not is_finished:
        sys.exit("saved, and not finished: another attempt goes on")  # exit code 0 would mean finished


if __name__ == "__main__":
    main()
