"""Runs on a node: kills ranks of a rehearsed attempt, and prints ``killed NODE RANK...``; or signals all.

A program of its own: ``ranks.py KIND FAILURE FOLDER SEED MODE``, or ``ranks.py signal FAILURE NUMBER``. The
processes of the attempt have FAILURE as HPCDIST_FAILURE; FOLDER has the checkpoints. KIND is ``node``
for all ranks, else ``rank`` for any of them, and ``write`` for one that has a checkpoint open.
"""

import os
import random
import re
import signal
import sys
from contextlib import suppress
from typing import Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

Rank = Tuple[bool, int]
"""Whether an agent such as torchrun, or the command, has started it; its number."""

_ELASTIC = re.compile(rb"[^\0]+\0-ISB\0[^\0]+/elastic\.py\0rank\0")
"""The command line of what starts the program of an elastic rank; horovodrun has it in its own."""
_LAUNCHERS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


class Process(NamedTuple):
    """A process of a rank; ``writes``: it has a checkpoint open."""

    pid: int
    rank: Rank
    writes: bool


def rank_of(environment: Mapping[str, str], mode: str) -> Optional[Rank]:
    """Return the rank of a process; None for a shell that waits for a task, or for the command's launcher."""
    task = environment.get("HPCDIST_RANK", "")
    if mode == "tasks" and not task.isdecimal():
        return None
    names = ("RANK", *(() if mode == "tasks" else _LAUNCHERS))  # a task's agent has its launcher's, too
    worker = next((environment[name] for name in names if environment.get(name, "").isdecimal()), "")
    return (True, int(worker)) if worker else (False, int(task)) if task.isdecimal() else None


def chosen(there: Sequence[Process], kind: str, part: float) -> List[Process]:
    """Return the processes to end; ``part`` of 0 to 1 chooses a rank, one of workers if there are any."""
    ranks = {process.rank for process in there if kind == "write" and process.writes}
    ranks = ranks or {one.rank for one in there if one.rank[0]} or {one.rank for one in there}
    own = sorted(ranks)[int(part * len(ranks)) :][:1]
    return [process for process in there if kind == "node" or process.rank in own]


def of_attempt(failure: str) -> Iterator[Tuple[int, Mapping[str, str]]]:
    """Yield the processes of the attempt on this node, with their variables."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        items = [os.fsdecode(item).partition("=") for item in _read(pid, "environ").split(b"\0")]
        environment = {name: value for name, _, value in items}
        if environment.get("HPCDIST_FAILURE") == failure:
            yield int(pid), environment


def processes(failure: str, folder: str, mode: str) -> Iterator[Process]:
    """Yield the processes of ranks on this node."""
    for pid, environment in of_attempt(failure):
        rank = rank_of(environment, mode)
        with suppress(OSError):
            if rank:
                yield Process(pid, rank, _has_open(f"/proc/{pid}/fd", folder + "/"))


def _read(pid: object, name: str) -> bytes:
    """Return what the kernel says of a process; nothing of another user's, and of one that has ended."""
    with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
    return b""


def _has_open(files: str, start: str) -> bool:
    for number in os.listdir(files):
        with suppress(OSError):
            if os.readlink(os.path.join(files, number)).startswith(start):
                return True
    return False


def main(kind: str, failure: str, folder: str, seed: str, mode: str) -> None:
    """End the ranks, and say which."""
    part = random.Random(int(seed)).random()  # noqa: S311 - which rank is no secret
    found = chosen([*processes(failure, folder, mode)], kind, part)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    if found:
        ranks = sorted({process.rank for process in found})
        print("killed", os.uname().nodename, *(number for _, number in ranks), flush=True)


def send(failure: str, number: str) -> None:
    """Signal the program of each rank here, and not what it has started: launchers do the same."""
    there = dict(of_attempt(failure))
    ranks = {pid for pid, environment in there.items() if rank_of(environment, "tasks")}
    elastic = {pid for pid in there if _ELASTIC.match(_read(pid, "cmdline"))}
    for pid in there:
        stat = [*_read(pid, "stat").rpartition(b") ")[2].split(), b"", b"0"]
        parent = int(stat[1])
        if parent in elastic or (pid in ranks and parent not in ranks):
            with suppress(OSError):
                os.kill(pid, int(number))


if __name__ == "__main__":
    send(*sys.argv[2:4]) if sys.argv[1] == "signal" else main(*sys.argv[1:6])
