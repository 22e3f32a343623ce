"""jsrun's explicit resource files as IBM's page of them has it, and where they put their tasks.

Sources: https://www.ibm.com/support/knowledgecenter/en/SSWRJV_10.1.0/jsm/erf_format.html, and files that real
programs wrote; where an error's text is known, it is that text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class RefusedError(Exception):
    """What jsrun says of a line that it does not take."""


@dataclass(frozen=True)
class Machine:
    """The compute hosts of an allocation, in jsrun's order; Summit's unless told."""

    hosts: tuple[str, ...] = ("h1", "h2")
    sockets: int = 2
    cores: int = 42
    gpus: int = 6
    threads: int = 4

    def socket_of_gpu(self, gpu: int) -> int:
        return gpu * self.sockets // self.gpus

    def cores_of(self, socket: int) -> range:
        size = self.cores // self.sockets
        return range(socket * size, (socket + 1) * size)


@dataclass(frozen=True)
class Set:
    """One resource set: a host by its number, and its cores and GPUs."""

    host: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """One task: the cores that it is bound to, and the GPUs of the host that it sees, in its own order."""

    rank: int
    host: str
    local_rank: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]


_SETTINGS: Final = {
    "cpu_index_using": "logical",  # physical failed on the real machines
    "launch_distribution": r"packed|cyclic|plane:[1-9]\d*",
    **dict.fromkeys(
        ("overlapping_rs", "oversubscribe_cpu", "oversubscribe_gpu", "oversubscribe_mem",
         "skip_missing_cpu", "skip_missing_gpu", "skip_missing_mem"),
        "error|warn|allow",
    ),
}  # fmt: skip
_LINE: Final = re.compile(r"rank\s*:\s*([0-9,\s-]+?)\s*:\s*\{(.*)\}\s*")


def erf(text: str, machine: Machine) -> tuple[Placed, ...]:
    """Return what a resource file means; it names its ranks one by one."""
    if not text.endswith("\n"):
        raise RefusedError("the last line of the file has no end")
    settings: dict[str, str] = {}
    sets: dict[int, Set] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if match := _LINE.fullmatch(line):
            ranks = _numbers(match[1], number)
            own = _of_line(match[2], number, machine)
            for rank in ranks:
                if rank in sets:
                    raise RefusedError("ERF error: 1+ ranks are assigned with multiple resource sets.")
                sets[rank] = own
        else:
            _setting(line, number, settings, sets)
    _whole(sets, settings)
    return _of_ranks(sets, machine)


def _setting(line: str, number: int, settings: dict[str, str], sets: Mapping[int, Set]) -> None:
    name, _, value = (part.strip() for part in line.partition(":"))
    if name not in _SETTINGS or not re.fullmatch(_SETTINGS[name], value) or name in settings or sets:
        raise RefusedError(f"Error: Line {number}: syntax error: {line!r}")
    settings[name] = value


def _of_line(text: str, number: int, machine: Machine) -> Set:
    pairs: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(";"))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        if not colon or name not in ("host", "hostname", "cpu", "gpu", "mem") or name in pairs:
            raise RefusedError(f"Error: Line {number}: syntax error: {pair!r}")
        pairs[name] = value
    if ("host" in pairs) == ("hostname" in pairs) or "cpu" not in pairs:
        raise RefusedError(f"Error: Line {number}: a host and its CPUs must be said once")
    host = _host(pairs, number, machine)
    threads = _members(pairs["cpu"], number, "CPU", machine.cores * machine.threads)
    gpus = _members(pairs["gpu"], number, "GPU", machine.gpus) if "gpu" in pairs else []
    return Set(host, tuple(sorted({thread // machine.threads for thread in threads})), tuple(gpus))


def _host(pairs: Mapping[str, str], number: int, machine: Machine) -> int:
    if "hostname" in pairs:
        if pairs["hostname"] not in machine.hosts:
            raise RefusedError(f"Error: Line {number}: there is no host {pairs['hostname']!r}")
        return machine.hosts.index(pairs["hostname"])
    if not re.fullmatch("[1-9][0-9]*", pairs["host"]) or int(pairs["host"]) > len(machine.hosts):
        raise RefusedError(f"Error: Line {number}: there is no host {pairs['host']}")
    return int(pairs["host"]) - 1


def _members(text: str, number: int, what: str, size: int) -> list[int]:
    if text == "*":
        return list(range(size))
    match = re.fullmatch(r"\{(.*)\}|(\d+)", text)
    if match and not (match[1] or match[2] or "").strip():
        raise RefusedError(
            f"Error: Line {number}:(RS {what}): syntax error, unexpected CLOSE_BRACKET, expecting NUMBER or "
            "RANGE or WILDCARD"
        )
    if not match:
        raise RefusedError(f"Error: Line {number}:(RS {what}): syntax error: {text!r}")
    found = _numbers(match[1] or match[2], number)
    if found[-1] >= size:
        raise RefusedError(f"Error: Line {number}:(RS {what}): a host has no number {found[-1]}")
    return found


def _numbers(text: str, line: int) -> list[int]:
    """Read ``0-3, 7``: ranges that ascend."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match or (match[2] is not None and int(match[2]) <= int(match[1])):
            raise RefusedError(f"Error: Line {line}: syntax error: {part.strip()!r}")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    if found != sorted(set(found)):
        raise RefusedError(f"Error: Line {line}: {text!r} does not ascend")
    return found


def _whole(sets: Mapping[int, Set], settings: Mapping[str, str]) -> None:
    if unsaid := [name for name in _SETTINGS if name not in settings]:
        raise RefusedError(f"the file does not say {unsaid[0]}, and its default is not documented")
    if not sets:
        raise RefusedError("the file names no ranks")
    if sorted(sets) != list(range(len(sets))):
        raise RefusedError(f"the ranks are not 0 to {len(sets) - 1}")
    for what, setting in (("cores", "oversubscribe_cpu"), ("gpus", "oversubscribe_gpu")):
        for name in ("overlapping_rs", setting):
            if settings[name] != "allow" and _shared(sets, what):
                raise RefusedError(f"sets of the same host share {what}, and {name} is {settings[name]}")


def _shared(sets: Mapping[int, Set], what: str) -> bool:
    """Whether two resource sets have a core or a GPU in common; the ranks of one line have one set."""
    apart = {id(own): own for own in sets.values()}.values()
    members = [(own.host, member) for own in apart for member in getattr(own, what)]
    return len(set(members)) < len(members)


def _of_ranks(sets: Mapping[int, Set], machine: Machine) -> tuple[Placed, ...]:
    local: dict[int, int] = {}
    found = []
    for rank, own in sorted(sets.items()):
        found.append(
            Placed(rank, machine.hosts[own.host], local.setdefault(own.host, 0), own.cores, own.gpus)
        )
        local[own.host] += 1
    return tuple(found)
