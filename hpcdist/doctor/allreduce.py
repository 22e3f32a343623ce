"""A standalone program: all-reduces by torch.distributed, mpi4py and Horovod, where this Python has them.

``python allreduce.py FILE`` adds its results to FILE, after host_info.py and connectivity.py; each result is
a `records.AllReduce`. A library may hang or end the process: before each call the file is written as if the
library had not finished, and the caller sets a time limit. The libraries choose the ports on which they
listen, as in any training. It needs Python 3.8 or later, and no hpcdist.
"""

from __future__ import annotations

import array
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

COUNT = 1 << 21
"""How many 4-byte numbers are summed: 8 MiB."""
ROUNDS = 5
TIMEOUT = timedelta(seconds=40)


def by_torch() -> dict[str, Any]:
    """Sum by NCCL where all tasks have a GPU of their own that PyTorch can use, else by gloo."""
    import torch
    from torch import distributed

    rank, size = _number("RANK"), _number("SIZE")
    address, port = os.environ["HPCDIST_HEAD_ADDRESS"], _number("PORT") + 1
    store = distributed.TCPStore(address, port, size, rank == 0, timeout=TIMEOUT)
    store.set(f"gpu {rank}", str(int(_has_gpu(torch))))
    on_gpus = all(store.get(f"gpu {other}") == b"1" for other in range(size))
    backend = "nccl" if on_gpus else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    ranks = distributed.get_world_size()
    place = _gpu() if on_gpus else "cpu"
    found = _by_tensor(torch, place, ranks, rank, distributed.all_reduce)
    distributed.barrier()  # the store ends with rank 0
    distributed.destroy_process_group()
    return {"library": f"torch {torch.__version__} {backend}", "ranks": ranks, **found}


def by_mpi4py() -> dict[str, Any]:
    """Sum by MPI."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    numbers = array.array("f")
    expected = _pattern(size * (size + 1) // 2)

    def once() -> None:
        numbers[:] = _pattern(rank + 1)
        comm.Allreduce(MPI.IN_PLACE, [numbers, MPI.FLOAT], op=MPI.SUM)

    once()
    is_correct = numbers == expected
    seconds = _timed(lambda: comm.Allreduce(MPI.IN_PLACE, [numbers, MPI.FLOAT], op=MPI.MAX))
    name = MPI.Get_library_version().split(",")[0].splitlines()[0]
    length = len(numbers) * numbers.itemsize
    return {
        "library": f"mpi4py, {name}",
        "ranks": size,
        "bytes": length,
        "correct": is_correct,
        "seconds": seconds,
    }


def by_horovod() -> dict[str, Any]:
    """Sum by Horovod: by NCCL where it was built with it and has a GPU, else by MPI or gloo."""
    import horovod.torch as hvd
    import torch

    hvd.init()
    on_gpus = bool(hvd.nccl_built()) and _has_gpu(torch)

    def reduce(numbers: Any) -> None:
        hvd.allreduce_(numbers, op=hvd.Sum)

    found = _by_tensor(torch, _gpu() if on_gpus else "cpu", hvd.size(), hvd.rank(), reduce)
    ranks, by = hvd.size(), "nccl" if on_gpus else "mpi" if hvd.mpi_enabled() else "gloo"
    hvd.shutdown()
    return {"library": f"horovod {by}", "ranks": ranks, **found}


def _number(name: str) -> int:
    return int(os.environ[f"HPCDIST_{name}"])


def _has_gpu(torch: Any) -> bool:
    """Whether this task has a GPU: tasks without one would share GPUs, which NCCL refuses."""
    return bool(os.environ.get("HPCDIST_GPUS")) and torch.cuda.is_available()


def _gpu() -> str:
    """Return the first of this task's own GPUs among those that it sees."""
    return f"cuda:{os.environ['HPCDIST_GPUS'].split(',')[0]}"


def _by_tensor(torch: Any, place: str, size: int, rank: int, reduce: Callable[[Any], Any]) -> dict[str, Any]:
    small = (torch.arange(COUNT, device=place) % 7 + 1).to(torch.float32)
    numbers = small * (rank + 1)

    def once() -> None:
        reduce(numbers)
        if place != "cpu":
            torch.cuda.synchronize(place)

    once()
    is_correct = bool(torch.equal(numbers, small * (size * (size + 1) // 2)))
    numbers.zero_()
    return {"bytes": COUNT * 4, "correct": is_correct, "seconds": _timed(once)}


def _timed(once: Callable[[], Any]) -> float:
    begin = time.monotonic()
    for _ in range(ROUNDS):
        once()
    return (time.monotonic() - begin) / ROUNDS


def _pattern(factor: int) -> array.array[float]:
    """Return small integers in a repeating pattern: a float holds their sums exactly."""
    seven = array.array("f", [place % 7 + 1 for place in range(7)])
    return array.array("f", [number * factor for number in seven]) * (COUNT // 7)


def available(host: dict[str, Any]) -> list[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return the all-reduces of these packages; Horovod only with MPI: else only horovodrun can start it."""
    functions = {"torch": by_torch, "mpi4py": by_mpi4py, "horovod": by_horovod}
    built = host.get("built", {})
    usable = {*host.get("packages", {})} - (set() if {"mpi", "pytorch"} <= {*built} else {"horovod"})
    return [(name, function) for name, function in functions.items() if name in usable]


def main() -> None:
    """Run each available all-reduce, unless the tasks could not connect."""
    file = Path(sys.argv[1])
    record = json.loads(file.read_text())
    connectivity = record["connectivity"]
    done = connectivity.get("allreduces", [])
    for name, function in available(record["host"]) if done else []:
        connectivity["allreduces"] = [*done, {"library": name, "error": "it did not finish"}]
        file.write_text(json.dumps(record))
        try:
            done = [*done, function()]
        except Exception as error:  # noqa: BLE001 - whatever a library raises is the finding
            done = [*done, {"library": name, "error": f"{type(error).__name__}: {error}"}]
    connectivity["allreduces"] = done
    file.write_text(json.dumps(record))


if __name__ == "__main__":
    main()
