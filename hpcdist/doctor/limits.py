"""What a process may have: shared memory, pinned memory, open files, stack, processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.doctor.finding import Finding
from hpcdist.doctor.records import Host
from hpcdist.site.fabric import Network

_PINNING: Final = ("infiniband", "omni-path", "efa", "roce", "slingshot")
"""Networks whose cards read and write memory that is pinned (docs.nvidia.com, NCCL, "Troubleshooting")."""

_LEAST_SHM: Final = 1 << 30
_LIMITS_CONF: Final = (
    "ask the centre for {name} in batch jobs: in /etc/security/limits.conf, and by `{unit}=` in the unit of "
    "the batch system's daemon"
)


class _Least(NamedTuple):
    """The least that is enough of a limit, what it is for, and what systemd calls it."""

    number: int
    purpose: str
    unit: str
    hard: bool = True
    is_bytes: bool = False


_LEASTS: Final = {
    "nofile": _Least(4096, "each connection of NCCL, gloo and Open MPI is an open file", "LimitNOFILE"),
    "stack": _Least(1 << 20, "threads get no larger stack", "LimitSTACK", hard=False, is_bytes=True),
    "nproc": _Least(4096, "each thread counts as a process", "LimitNPROC", hard=False),
}
"""The task wrapper raises open files and pinned memory to the hard limit, and leaves the others."""


def findings(host: Host, network: Network | None) -> Iterator[Finding]:
    """Yield what is found; ``network`` is the site's, None where its file does not say."""
    yield _shm(host)
    yield _memlock(host, network)
    for name, least in _LEASTS.items():
        yield _limit(host, name, least)


def _shm(host: Host) -> Finding:
    if host.shm is None:
        return Finding(
            "limits", "shared memory", "error", "there is no /dev/shm", "ask the centre: NCCL needs it"
        )
    size, free = host.shm
    seen = f"{in_bytes(size)}, {in_bytes(free)} free"
    if free >= _LEAST_SHM:
        return Finding("limits", "shared memory", "ok", seen)
    do = (
        "NCCL and PyTorch's DataLoader pass data through it and end with a bus error where it is full: "
        "remove old files there, or start the container with a larger one (`--shm-size`)"
    )
    return Finding("limits", "shared memory", "warning", seen, do)


def _memlock(host: Host, network: Network | None) -> Finding:
    soft, hard = host.limits["memlock"]
    seen = f"{_bytes(soft)}, may be raised to {_bytes(hard)}" if soft != hard else _bytes(hard)
    if hard is None:
        return Finding("limits", "memlock", "ok", seen)
    do = _LIMITS_CONF.format(name="unlimited memlock", unit="LimitMEMLOCK")
    if network in _PINNING:
        why = f"{network} needs memory that is pinned, and NCCL and MPI fail to register it"
        return Finding("limits", "memlock", "warning", f"{seen}: {why}", do)
    if network is not None:
        return Finding("limits", "memlock", "ok", f"{seen}; {network} needs no more")
    do = "write `fabric.network` into the site file: it is too little for InfiniBand and its like"
    return Finding("limits", "memlock", "note", seen, do)


def _limit(host: Host, name: str, least: _Least) -> Finding:
    soft, hard = host.limits[name]
    value = hard if least.hard else soft
    write = _bytes if least.is_bytes else _count
    if value is None or value >= least.number:
        return Finding("limits", name, "ok", write(value))
    seen = f"{write(value)}, less than {write(least.number)}: {least.purpose}"
    return Finding(
        "limits", name, "warning", seen, _LIMITS_CONF.format(name=f"a larger {name}", unit=least.unit)
    )


def _count(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _bytes(value: int | None) -> str:
    return "unlimited" if value is None else in_bytes(value)


def in_bytes(value: int) -> str:
    """Write bytes as a person would: 64 KiB, 8 MiB, 23.5 GiB."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{round(value / (1 << power), 1):g} {unit}"
    return f"{value} bytes"
