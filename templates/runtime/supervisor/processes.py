"""The processes of this node: those of an attempt, those that signals reach, and how many lacked memory."""

import os
import re
from contextlib import suppress
from typing import Callable, List, Sequence

_SHELL = b"trap 'exit $(($? ? $? : 143))' TERM INT HUP\n"
"""How the commands of a shell begin that awaits on a signal what it runs (`hpcdist.script.launch`)."""


def read(path: str) -> bytes:
    """Return what a file has; nothing if it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def processes(*texts: str) -> List[int]:
    """Return the processes of this node that have a variable which begins with one of these texts."""
    starts = tuple(b"\0" + os.fsencode(text) for text in texts)
    pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != os.getpid()]
    variables = ((pid, b"\0" + read(f"/proc/{pid}/environ")) for pid in pids)
    return [pid for pid, own in variables if any(start in own for start in starts)]


def send(number: int, pids: Sequence[int]) -> None:
    """Send a signal to each of these."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def below(pid: int, is_reached: Callable[[int], bool]) -> List[int]:
    """Return the processes below one that its signals do not reach: what a shell of `_SHELL` awaits.

    ``is_reached``: whether a process passes on its signals by itself.
    """
    children: List[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, read(f"/proc/{pid}/task/{task}/children").split())
    words = read(f"/proc/{pid}/cmdline").split(b"\0")
    if words[1:2] == [b"-c"] and words[2].startswith(_SHELL):
        return children
    return [] if is_reached(pid) else [found for child in children for found in below(child, is_reached)]


def is_signalled_alone() -> bool:
    """Return whether this process gets the batch system's signals, and what it starts does not.

    Slurm's proctrack/cgroup signals what slurmstepd has started itself (proctrack_cgroup.c,
    proctrack_p_signal). It has each step in a group of its own, in version 1 of the hierarchy of the freezer.
    """
    by_slurm = read(f"/proc/{os.getppid()}/comm").startswith(b"slurmstepd")
    return by_slurm and bool(re.search(rb"(?m)^[0-9]+:(freezer)?:.*/job_", read("/proc/self/cgroup")))


def memory_kills() -> int:
    """Return how many processes of this one's control group the kernel has killed for lack of memory."""
    found = 0
    for group in os.fsdecode(read("/proc/self/cgroup")).splitlines():
        _, kind, path = group.split(":", 2)
        name = f"memory{path}/memory.oom_control" if kind == "memory" else f"{path}/memory.events"
        counted = re.search(rb"(?m)^oom_kill ([0-9]+)", read(f"/sys/fs/cgroup/{name}"))
        found = int(counted.group(1)) if counted else found
    return found
