"""A deterministic training over several ranks that is killed by the tests, and goes on from its checkpoints.

    python training.py RANKS STEPS PAUSE

Each rank has a share of the data; rank 0 sums their gradients, in the order of ranks, and writes a checkpoint
every few steps, whole. What it does it also writes to ``ran``, a line each, and that another one wrote
checkpoints at the same time.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EVERY = 4
"""Steps from one checkpoint to the next."""

_WIDTH = 5
_SAMPLES = 8
_RATE = 0.05
_CODE = 75


def samples(rank: int) -> list[tuple[list[float], float]]:
    """Return the data of a rank."""
    rnd = random.Random(rank)  # noqa: S311 - data, no secrets
    return [([rnd.gauss(0, 1) for _ in range(_WIDTH)], rnd.gauss(0, 1)) for _ in range(_SAMPLES)]


def gradient(weights: Sequence[float], rank: int) -> list[float]:
    """Return the gradient of a rank's data, and their loss behind it."""
    sums = [0.0] * (_WIDTH + 1)
    for inputs, wanted in samples(rank):
        error = sum(a * b for a, b in zip(weights, inputs, strict=True)) - wanted
        for place, value in enumerate(inputs):
            sums[place] += error * value
        sums[-1] += error * error
    return sums


def after(weights: Sequence[float], sums: Sequence[Sequence[float]]) -> tuple[list[float], float]:
    """Return the weights after a step, and its loss."""
    whole = [sum(parts) / (_SAMPLES * len(sums)) for parts in zip(*sums, strict=True)]
    return [one - _RATE * slope for one, slope in zip(weights, whole, strict=False)], whole[-1]


def losses(ranks: int, steps: int) -> list[float]:
    """Return the loss of each step of a training that nothing disturbs."""
    weights, found = [0.0] * _WIDTH, []
    for _ in range(steps):
        weights, loss = after(weights, [gradient(weights, rank) for rank in range(ranks)])
        found.append(loss)
    return found


def note(*words: object) -> None:
    """Add a line to what was done, in one write."""
    with Path("ran").open("ab", buffering=0) as file:
        file.write(" ".join(map(str, words)).encode() + b"\n")


class Checkpoint:
    """The file with the state of the training."""

    def __init__(self) -> None:
        self.file = Path(os.environ["HPCDIST_CHECKPOINTS"], "state.json")

    def read(self) -> dict[str, Any]:
        """Return the last state, or the first one."""
        if not self.file.exists():
            return {"step": 0, "weights": [0.0] * _WIDTH, "loss": None}
        return dict(json.loads(self.file.read_text()))

    def write(self, state: dict[str, Any]) -> None:
        """Write the state in two halves, and move it into its place."""
        text, new = json.dumps(state), self.file.with_suffix(".new")
        with new.open("w") as file:
            for part in (text[:9], text[9:]):
                file.write(part)
                file.flush()
                time.sleep(0.02)
        new.replace(self.file)
        note("saved", state["step"])


def meet(rank: int, ranks: int) -> list[Any]:
    """Return a stream to each other rank, for the others one to rank 0, whose port is in a file."""
    name = f"port.{os.environ['HPCDIST_JOB_ID']}.{os.environ['HPCDIST_ATTEMPT']}"
    if rank == 0:
        with socket.create_server(("", 0)) as server:
            Path(f"{name}.new").write_text(str(server.getsockname()[1]))
            Path(f"{name}.new").replace(name)
            return [server.accept()[0].makefile("rw") for _ in range(1, ranks)]
    while not Path(name).exists():
        time.sleep(0.02)
    address = os.environ["HPCDIST_HEAD_ADDRESS"], int(Path(name).read_text())
    return [socket.create_connection(address).makefile("rw")]


def send(stream: Any, data: object) -> None:
    """Send a line."""
    stream.write(f"{json.dumps(data)}\n")
    stream.flush()


def received(stream: Any) -> Any:
    """Return what a line says; if there is none, the other rank is gone, and so is the training."""
    line = stream.readline()
    return json.loads(line) if line else sys.exit(_CODE)


def lead(streams: list[Any], steps: int, pause: float) -> None:
    """Train, as rank 0."""
    from hpcdist_tracking import log_metrics  # the job has it

    noticed: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: noticed.append(1))
    checkpoint = Checkpoint()
    state = checkpoint.read()
    note("begin", os.environ["HPCDIST_ATTEMPT"], state["step"])
    while not Path("go").exists():  # its steps shall come when all is there that is to disturb them
        time.sleep(0.02)
    while state["step"] < steps:
        for stream in streams:
            send(stream, state["weights"])
        own = gradient(state["weights"], 0)
        time.sleep(pause)
        weights, loss = after(state["weights"], [own, *map(received, streams)])
        state = {"step": state["step"] + 1, "weights": weights, "loss": loss}
        note("step", state["step"])
        log_metrics(step=state["step"], loss=loss)
        if noticed or state["step"] % EVERY == 0 or state["step"] == steps:
            checkpoint.write(state)
        if noticed and state["step"] < steps:
            sys.exit(_CODE)
    for stream in streams:
        send(stream, None)
    note("end", repr(state["loss"]))


def serve(rank: int, stream: Any) -> None:
    """Train, as another rank."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    while (weights := received(stream)) is not None:
        send(stream, gradient(weights, rank))


def main(ranks: int, steps: int, pause: float) -> None:
    """Train on a rank."""
    rank = int(os.environ["HPCDIST_RANK"])
    if rank:
        serve(rank, *meet(rank, ranks))
        return
    with Path("writing").open("w") as mark:  # locked as long as this process lives
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("twice")
        lead(meet(rank, ranks), steps, pause)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
