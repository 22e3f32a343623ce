"""Exchanges of data between the tasks of a job, by mpi4py or torch.distributed; for Python 3.8.

Both classes have the same methods. bandwidth.py, beside which this file lies in a run directory, measures
with them; each starts its library as it is made, and a process can do so once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

LARGEST = 1 << 26
"""The most bytes of an exchange."""
TIMEOUT = timedelta(seconds=40)
SPIN, PAUSE = 0.0005, 0.00002
"""Seconds in which MPI is asked all the time whether it is done, and of the pauses after that: without them
tasks that wait take the CPU from those that exchange data, where there are fewer CPUs than tasks."""


class Mpi:
    """Exchanges by mpi4py, of memory of the host."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.comm = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.out, self.incoming = bytearray(pattern(self.rank, LARGEST)), bytearray(LARGEST)
        text = MPI.Get_library_version().replace("\0", "").splitlines()[0].split(",")[0]
        self.versions = {"mpi": text.strip(), "mpi4py": str(sys.modules["mpi4py"].__version__)}
        self.name = "mpi"

    def exchange(self, to: int, source: int, size: int) -> None:
        """Send so many bytes to one rank while as many come from another one, or the same."""
        out, incoming = memoryview(self.out)[:size], memoryview(self.incoming)[:size]
        coming = self.comm.Irecv([incoming, self.mpi.BYTE], source, 0)
        self._wait(coming, self.comm.Isend([out, self.mpi.BYTE], to, 0))

    def _wait(self, *requests: Any) -> None:
        end = time.monotonic() + SPIN
        while not self.mpi.Request.Testall([*requests]):
            if time.monotonic() > end:
                time.sleep(PAUSE)

    def swap(self, value: int, partner: int) -> int:
        """Return the number of the partner, which gets this one: a byte."""
        return int(self.comm.sendrecv(value, partner, 1, None, partner, 1))

    def forget(self, size: int) -> None:
        """Overwrite what came in."""
        self.incoming[:size] = bytes(size)

    def is_from(self, source: int, size: int) -> bool:
        """Whether these bytes came in from this rank."""
        return self.incoming[:size] == pattern(source, size)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks; it is a barrier, too."""
        self._wait(self.comm.Ibarrier())
        return list(self.comm.allgather(value))

    def all_reduce(self, size: int) -> None:
        """Combine so many bytes of all ranks."""
        data = [memoryview(self.incoming)[:size], self.mpi.BYTE]
        self._wait(self.comm.Iallreduce(self.mpi.IN_PLACE, data, self.mpi.BOR))


class Torch:
    """Exchanges by torch.distributed: of GPU memory by NCCL, or of the host's by gloo."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import torch
        from torch import distributed

        self.torch, self.distributed = torch, distributed
        self.rank, self.size = int(environment["HPCDIST_RANK"]), int(environment["HPCDIST_SIZE"])
        port = int(environment["HPCDIST_PORT"]) + 2 + int(environment.get("HPCDIST_LAUNCH", "1")) % 8
        address = environment["HPCDIST_HEAD_ADDRESS"]
        store = distributed.TCPStore(address, port, self.size, self.rank == 0, timeout=TIMEOUT)
        gpus = environment.get("HPCDIST_GPUS", "")
        store.set(f"gpu {self.rank}", str(int(bool(gpus) and torch.cuda.is_available())))
        on_gpus = all(store.get(f"gpu {rank}") == b"1" for rank in range(self.size))
        self.name = "nccl" if on_gpus else "gloo"
        self.place = f"cuda:{gpus.split(',')[0]}" if on_gpus else "cpu"
        self.versions = {"torch": str(torch.__version__)}
        if on_gpus:
            torch.cuda.set_device(self.place)
            self.versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        members = {"rank": self.rank, "world_size": self.size}
        distributed.init_process_group(self.name, store=store, timeout=TIMEOUT, **members)
        self.out, self.incoming = self._tensor(self.rank, LARGEST), self._tensor(0, LARGEST)

    def _tensor(self, rank: int, size: int) -> Any:
        return self.torch.frombuffer(bytearray(pattern(rank, size)), dtype=self.torch.uint8).to(self.place)

    def _done(self) -> None:
        if self.place != "cpu":
            self.torch.cuda.synchronize(self.place)

    def exchange(self, to: int, source: int, size: int) -> None:
        """Send so many bytes to one rank while as many come from another one, or the same."""
        self._exchange(self.out[:size], to, self.incoming[:size], source)

    def _exchange(self, out: Any, to: int, incoming: Any, source: int) -> None:
        both = self.distributed
        ways = [both.P2POp(both.isend, out, to), both.P2POp(both.irecv, incoming, source)]
        for one in both.batch_isend_irecv(ways):
            one.wait()
        self._done()

    def swap(self, value: int, partner: int) -> int:
        """Return the number of the partner, which gets this one: a byte."""
        own = self.torch.tensor([value], dtype=self.torch.uint8, device=self.place)
        other = self.torch.zeros_like(own)
        self._exchange(own, partner, other, partner)
        return int(other.item())

    def forget(self, size: int) -> None:
        """Overwrite what came in."""
        self.incoming[:size].zero_()

    def is_from(self, source: int, size: int) -> bool:
        """Whether these bytes came in from this rank."""
        return bool(self.torch.equal(self.incoming[:size], self._tensor(source, size)))

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks; it is a barrier, too."""
        found: list[Any] = [None] * self.size
        self.distributed.all_gather_object(found, value)
        return found

    def all_reduce(self, size: int) -> None:
        """Combine so many bytes of all ranks."""
        self.distributed.all_reduce(self.incoming[:size], op=self.distributed.ReduceOp.MAX)
        self._done()


def pattern(rank: int, size: int) -> bytes:
    """Return bytes that differ from rank to rank, and from place to place."""
    period = bytes((place * 7 + rank * 13 + 1) % 251 for place in range(251))
    return (period * (size // 251 + 1))[:size]
