"""A standalone program: all-reduces by torch.distributed, mpi4py and Horovod, where this Python has them.

``python allreduce.py FOLDER`` adds its results to FOLDER/task.RANK.json, after host_info.py and
connectivity.py; each is a `finding.AllReduce`. In the first launch of a job's tasks it also measures how fast
pairs of nodes exchange data. In further launches, whose number is in HPCDIST_LAUNCH, only rank 0 writes, to
FOLDER/launch-LAUNCH.json. It needs Python 3.8 or later, and no hpcdist.

A library may hang or end the process: before each, the file is written as if it had not finished, and the
caller sets a time limit. The libraries choose the ports on which they listen, as in any training.
"""

from __future__ import annotations

import array
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

TIMEOUT = timedelta(seconds=40)
SMALLEST, LARGEST = 1 << 18, 1 << 26
"""Bytes: the bounds of a transfer, whose size is chosen to take ``TRANSFER`` seconds."""
TRANSFER, REPEATS = 0.02, 10
MOST_SECONDS = 45.0
"""No round of pairs begins after this time; the caller ends the program somewhat later."""
SPIN, PAUSE = 0.0005, 0.00002
"""Seconds of busy polling of MPI, and of each pause after that: without pauses, waiting tasks take the CPU
from tasks that exchange data, if there are fewer CPUs than tasks."""
_GB = 1e9
_OF_RANK_0 = ("pairs", "wrong", "versions", "variables")


class Match(NamedTuple):
    """Two nodes by number, the smaller first."""

    left: int
    right: int


class MpiTransfers:
    """Transfers by mpi4py, of memory of the host."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.comm = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        text = MPI.Get_library_version().replace("\0", "").splitlines()[0].split(",")[0].strip()
        self.network, self.title = "mpi", f"mpi4py, {text}"
        self.versions = {"mpi": text, "mpi4py": str(sys.modules["mpi4py"].__version__)}
        self.out, self.incoming = bytearray(pattern(self.rank, LARGEST)), bytearray(LARGEST)
        self.numbers = array.array("f")

    def fill(self, size: int, factor: int) -> None:
        """Set the numbers that are summed: so many bytes."""
        self.numbers = numbers(size, factor)

    def reduce(self) -> None:
        """Sum the numbers of all ranks."""
        data = [self.numbers, self.mpi.FLOAT]
        self._wait(self.comm.Iallreduce(self.mpi.IN_PLACE, data, op=self.mpi.SUM))

    def equals(self, size: int, factor: int) -> bool:
        """Whether the numbers are these."""
        return self.numbers == numbers(size, factor)

    def exchange(self, partner: int, size: int) -> None:
        """Send so many bytes to a rank while as many come from it."""
        out, incoming = memoryview(self.out)[:size], memoryview(self.incoming)[:size]
        coming = self.comm.Irecv([incoming, self.mpi.BYTE], partner, 0)
        self._wait(coming, self.comm.Isend([out, self.mpi.BYTE], partner, 0))

    def _wait(self, *requests: Any) -> None:
        end = time.monotonic() + SPIN
        while not self.mpi.Request.Testall([*requests]):
            if time.monotonic() > end:
                time.sleep(PAUSE)

    def clear(self, size: int) -> None:
        """Overwrite what came in."""
        self.incoming[:size] = bytes(size)

    def is_from(self, partner: int, size: int) -> bool:
        """Whether these bytes came in from this rank."""
        return self.incoming[:size] == pattern(partner, size)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks; it is a barrier, too."""
        self._wait(self.comm.Ibarrier())
        return list(self.comm.allgather(value))

    def close(self) -> None:
        """Do nothing: Horovod uses the same MPI."""


class Torch:
    """Transfers by torch.distributed: of GPU memory by NCCL, or of the host's by gloo."""

    def __init__(self) -> None:
        import torch
        from torch import distributed

        self.torch, self.distributed = torch, distributed
        self.rank, self.size = own("HPCDIST_RANK"), own("HPCDIST_SIZE")
        port = own("HPCDIST_PORT") + 1 + own("HPCDIST_LAUNCH") % 8
        address = os.environ["HPCDIST_HEAD_ADDRESS"]
        store = distributed.TCPStore(address, port, self.size, self.rank == 0, timeout=TIMEOUT)
        store.set(f"gpu {self.rank}", str(int(has_gpu(torch))))
        on_gpus = all(store.get(f"gpu {rank}") == b"1" for rank in range(self.size))
        self.network, self.place = ("nccl", gpu()) if on_gpus else ("gloo", "cpu")
        self.title, self.versions = f"torch {torch.__version__} {self.network}", {"torch": torch.__version__}
        if on_gpus:
            torch.cuda.set_device(self.place)
            self.versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        members = {"rank": self.rank, "world_size": self.size}
        distributed.init_process_group(self.network, store=store, timeout=TIMEOUT, **members)
        self.out, self.incoming = self._tensor(pattern(self.rank, LARGEST)), self._tensor(bytes(LARGEST))
        self.numbers: Any = None

    def _tensor(self, data: bytes) -> Any:
        return self.torch.frombuffer(bytearray(data), dtype=self.torch.uint8).to(self.place)

    def _done(self) -> None:
        if self.place != "cpu":
            self.torch.cuda.synchronize(self.place)

    def fill(self, size: int, factor: int) -> None:
        """Set the numbers that are summed: so many bytes."""
        self.numbers = self._tensor(numbers(size, factor).tobytes()).view(self.torch.float32)

    def reduce(self) -> None:
        """Sum the numbers of all ranks."""
        self.distributed.all_reduce(self.numbers)
        self._done()

    def equals(self, size: int, factor: int) -> bool:
        """Whether the numbers are these."""
        expected = self._tensor(numbers(size, factor).tobytes())
        return bool(self.torch.equal(self.numbers.view(self.torch.uint8), expected))

    def exchange(self, partner: int, size: int) -> None:
        """Send so many bytes to a rank while as many come from it."""
        both = self.distributed
        ways = [both.P2POp(both.isend, self.out[:size], partner)]
        ways += [both.P2POp(both.irecv, self.incoming[:size], partner)]
        for one in both.batch_isend_irecv(ways):
            one.wait()
        self._done()

    def clear(self, size: int) -> None:
        """Overwrite what came in."""
        self.incoming[:size].zero_()

    def is_from(self, partner: int, size: int) -> bool:
        """Whether these bytes came in from this rank."""
        return bool(self.torch.equal(self.incoming[:size], self._tensor(pattern(partner, size))))

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks; it is a barrier, too."""
        data = json.dumps(value).encode()  # torch's own function needs numpy
        sizes = (int.from_bytes(size, "big") for size in self._gather(len(data).to_bytes(8, "big")))
        return [json.loads(row) for row in self._gather(data.ljust(max(sizes)))]

    def _gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, each with as many."""
        tensor = self._tensor(data)
        found = [self.torch.empty_like(tensor) for _ in range(self.size)]
        self.distributed.all_gather(found, tensor)
        return [bytes(one.tolist()) for one in found]

    def close(self) -> None:
        """Wait for all ranks, as the store ends with rank 0, and end."""
        self.distributed.barrier()
        self.distributed.destroy_process_group()


class HorovodTransfers(Torch):
    """All-reduces by Horovod: by NCCL where it was built with it and has a GPU, else by MPI or gloo."""

    def __init__(self) -> None:
        import horovod.torch as hvd
        import torch

        hvd.init()
        self.torch, self.hvd = torch, hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        on_gpus = bool(hvd.nccl_built()) and has_gpu(torch)
        self.place, self.versions = gpu() if on_gpus else "cpu", {}
        self.network = ""
        self.title = f"horovod {'nccl' if on_gpus else 'mpi' if hvd.mpi_enabled() else 'gloo'}"
        self.numbers = None

    def reduce(self) -> None:
        """Sum the numbers of all ranks."""
        self.hvd.allreduce_(self.numbers, op=self.hvd.Sum)
        self._done()

    def _gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, each with as many."""
        found = bytes(self.hvd.allgather(self._tensor(data)).tolist())
        return [found[place : place + len(data)] for place in range(0, len(found), len(data))]

    def close(self) -> None:
        """End it."""
        self.hvd.shutdown()


def own(name: str) -> int:
    """Return a number of this task that hpcdist sets; 0 if it is not set."""
    return int(os.environ.get(name) or 0)


def has_gpu(torch: Any) -> bool:
    """Whether this task has a GPU: tasks without one would share GPUs, which NCCL refuses."""
    return bool(os.environ.get("HPCDIST_GPUS")) and torch.cuda.is_available()


def gpu() -> str:
    """Return the first of this task's own GPUs among the visible ones."""
    return f"cuda:{os.environ['HPCDIST_GPUS'].split(',')[0]}"


def numbers(size: int, factor: int) -> array.array[float]:
    """Return ``size`` bytes of small integers in a repeating pattern: a float holds their sums exactly."""
    seven = array.array("f", [(place % 7 + 1) * factor for place in range(7)])
    return (seven * (size // 28 + 1))[: size // 4]


def pattern(rank: int, size: int) -> bytes:
    """Return bytes that differ from rank to rank, and from place to place."""
    period = bytes((place * 7 + rank * 13 + 1) % 251 for place in range(251))
    return (period * (size // 251 + 1))[:size]


def timed(once: Callable[[], None]) -> float:
    """Return how many seconds this takes."""
    begin = time.monotonic()
    once()
    return max(time.monotonic() - begin, 1e-7)


def fitting(seconds: float) -> int:
    """Return how many bytes take ``TRANSFER`` seconds, a power of two; ``seconds``: for ``SMALLEST``."""
    size = SMALLEST
    while size < LARGEST and seconds * size / SMALLEST < TRANSFER:
        size *= 2
    return size


def all_reduce(library: Any) -> dict[str, Any]:
    """Sum over all ranks, check the sum, and return the best time of the slowest rank."""
    library.fill(SMALLEST, library.rank % 7 + 1)
    library.reduce()
    total = sum(rank % 7 + 1 for rank in range(library.size))
    is_correct = library.equals(SMALLEST, total)
    library.fill(SMALLEST, 0)
    size = min(library.gather(fitting(timed(library.reduce))))
    library.fill(size, 0)
    seconds = min(max(library.gather(timed(library.reduce))) for _ in range(REPEATS))
    return {"bytes": size, "correct": is_correct, "seconds": seconds}


def rounds(size: int, seed: int = 0) -> list[list[Match]]:
    """Return the pairs of each round: all nodes at once, with a bye where their number is odd.

    These are ``ceil(log2(size)) + 1`` turns of a tournament by the circle method, in which no two nodes meet
    twice; the seed chooses the turns, so another job measures other links. Few nodes measure all links.
    """
    if size < 2:  # noqa: PLR2004 - one node has no partner
        return []
    seats = size + size % 2
    around = seats - 1
    chance = random.Random(seed)  # noqa: S311 - a choice of partners is no secret
    order = chance.sample(range(size), size)
    turns = chance.sample(range(around), min(around, math.ceil(math.log2(size)) + 1))
    return [
        [Match(*sorted((order[one], order[other]))) for one, other in turn_of(seats, turn)
         if max(one, other) < size]
        for turn in turns
    ]  # fmt: skip


def turn_of(seats: int, turn: int) -> list[tuple[int, int]]:
    """Return the pairs of one turn: the last seat stays, the others go around."""
    around = seats - 1
    others = [((turn + step) % around, (turn - step) % around) for step in range(1, seats // 2)]
    return [(around, turn), *others]


class Pairs:
    """Bandwidths between pairs of nodes, as this task measures them with the others.

    Tasks with the same number on their nodes exchange data at the same time; a node's bandwidth is their sum.
    """

    def __init__(self, library: Any) -> None:
        self.library, self.node, self.number = library, own("HPCDIST_NODE"), own("HPCDIST_LOCAL_RANK")
        self.places: list[tuple[int, int]] = [tuple(one) for one in library.gather((self.node, self.number))]

    def measure(self) -> Iterator[dict[str, Any]]:
        """Yield the bandwidth of each pair, and the nodes between which data changed, after each round."""
        begin, found = time.monotonic(), {"pairs": [], "wrong": []}  # type: tuple[float, dict[str, Any]]
        seed = self.library.gather(random.randrange(1 << 31))[0]  # noqa: S311 - no secret
        for matches in rounds(max(node for node, _ in self.places) + 1, seed):
            if max(self.library.gather(time.monotonic() - begin)) > MOST_SECONDS:
                break
            pairs, wrong = self.round(matches)
            found = {"pairs": found["pairs"] + pairs, "wrong": found["wrong"] + wrong}
            yield found

    def round(self, matches: list[Match]) -> tuple[list[Any], list[Any]]:
        """Measure these pairs at once; all ranks return the same."""
        partners = {**dict(matches), **{right: left for left, right in matches}}
        there = (partners.get(self.node), self.number)
        rows = self.library.gather(self.transfer(self.places.index(there) if there in self.places else None))
        rows = [(node, *row) for (node, _), row in zip(self.places, rows)]  # noqa: B905 - Python 3.8
        speed = {node: sum(row[1] for row in rows if row[0] == node) for node in partners}
        pairs = [(left, right, min(speed[left], speed[right])) for left, right in matches]
        return pairs, sorted({(partners[node], node) for node, _, is_right in rows if not is_right})

    def transfer(self, partner: int | None) -> tuple[float, bool]:
        """Return the bandwidth of each direction in GB/s, 0 without a partner; and whether data was right."""
        library, size = self.library, 0
        if partner is not None:
            library.exchange(partner, SMALLEST)  # connects
            size = fitting(timed(lambda: library.exchange(partner, SMALLEST)))
        sizes = library.gather(size)
        if partner is None:
            return 0.0, True
        size = min(size, sizes[partner])
        library.clear(size)
        best = min(timed(lambda: library.exchange(partner, size)) for _ in range(REPEATS))
        return size / best / _GB, library.is_from(partner, size)


def results(library: Any, *, is_first: bool) -> Iterator[dict[str, Any]]:
    """Yield the growing results of one library: the all-reduce, then the pairs of nodes."""
    found = {"title": library.title, "network": library.network, "ranks": library.size}
    if library.size == own("HPCDIST_SIZE"):
        found |= {"versions": {**library.versions, **driver()}, "variables": seen(library)}
        found |= all_reduce(library)
        if is_first and library.network:
            unfinished = {"error": "it did not finish: not all pairs of nodes were measured"}
            yield {**found, **unfinished}
            for pairs in Pairs(library).measure():
                found |= pairs
                yield {**found, **unfinished}
    library.close()
    yield found


def seen(library: Any) -> dict[str, list[str | None]]:
    """Return the tasks' values of the variables that launches of this job set; None is unset."""
    try:
        lines = Path(os.environ.get("HPCDIST_RUN_DIR", ""), "launches").read_text().splitlines()
    except OSError:
        return {}
    names = sorted({word.partition("=")[0] for line in lines for word in line.split("\t")[1:]})
    rows = library.gather([os.environ.get(name) for name in names])
    columns = zip(*rows)  # noqa: B905 - Python 3.8
    return {name: [*dict.fromkeys(values)] for name, values in zip(names, columns)}  # noqa: B905


def driver() -> dict[str, str]:
    """Return the version of NVIDIA's driver, if there is one."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return {}
    return {"driver": next((word for word in words if word.count(".") and word[0].isdigit()), "unknown")}


def available(
    built: dict[str, str], find: Callable[[str], object] = find_spec
) -> list[tuple[str, Callable[[], Any]]]:
    """Return the libraries of this Python; Horovod only with MPI: else only horovodrun can start it."""
    libraries: dict[str, Callable[[], Any]] = {"torch": Torch, "mpi4py": MpiTransfers}
    if {"mpi", "pytorch"} <= {*built}:
        libraries["horovod"] = HorovodTransfers
    return [(name, library) for name, library in libraries.items() if find(name)]


def main() -> None:
    """Measure by each available library, unless the tasks could not connect."""
    launch, rank, folder = own("HPCDIST_LAUNCH"), own("HPCDIST_RANK"), Path(sys.argv[1])
    file = folder / (f"launch-{launch}.json" if launch else f"task.{rank}.json")
    record = json.loads(file.read_text()) if file.exists() else {}
    done: list[dict[str, Any]] = []

    def write(result: dict[str, Any]) -> None:
        if rank == 0 or not launch:
            new = file.with_suffix(".new")
            new.write_text(json.dumps({**record, "allreduces": [*done, result]}))
            new.replace(file)

    can_connect = launch or record.get("connectivity", {}).get("allreduces")
    for name, library in available(record.get("host", {}).get("built", {})) if can_connect else ():
        found = {"library": name, "error": "it did not finish"}
        write(found)
        try:
            for result in results(library(), is_first=not launch):
                found = {"library": name, **result}
                if rank == 0:
                    write(found)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is the finding
            found = {**found, "error": f"{type(error).__name__}: {error}"}
        if rank:
            found = {key: value for key, value in found.items() if key not in _OF_RANK_0}
        write(found)
        done.append(found)


if __name__ == "__main__":
    main()
