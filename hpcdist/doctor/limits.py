"""Limits of a process: shared memory, pinned memory, open files, stack, processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.doctor.finding import Finding
from hpcdist.doctor.records import Host
from hpcdist.site.fabric import Network

_PINNING: Final = ("infiniband", "omni-path", "efa", "roce", "slingshot")
"""Networks whose cards read and write pinned memory (docs.nvidia.com, NCCL, "Troubleshooting")."""

_MIN_SHM: Final = 1 << 30
_LIMITS_CONF: Final = (
    "ask the centre for {name} in batch jobs: in /etc/security/limits.conf, and by `{unit}=` in the unit of "
    "the batch system's daemon"
)


class _Minimum(NamedTuple):
    """The smallest sufficient value of a limit, its purpose, and its name in systemd."""

    number: int
    purpose: str
    unit: str
    hard: bool = True
    is_bytes: bool = False


_MINIMUMS: Final = {
    "nofile": _Minimum(4096, "each connection of NCCL, gloo and Open MPI is an open file", "LimitNOFILE"),
    "stack": _Minimum(1 << 20, "threads get no larger stack", "LimitSTACK", hard=False, is_bytes=True),
    "nproc": _Minimum(4096, "each thread counts as a process", "LimitNPROC", hard=False),
}
"""Each task raises open files and pinned memory to the hard limit, and leaves the others unchanged."""


def findings(host: Host, network: Network | None) -> Iterator[Finding]:
    """Yield the findings; ``network`` is the site's, None where its file does not set it."""
    yield _shm(host)
    yield _memlock(host, network)
    for name, minimum in _MINIMUMS.items():
        yield _limit(host, name, minimum)


def _shm(host: Host) -> Finding:
    if host.shm is None:
        return Finding(
            "limits", "shared memory", "error", "there is no /dev/shm", "ask the centre: NCCL needs it"
        )
    size, free = host.shm
    detail = f"{human_bytes(size)}, {human_bytes(free)} free"
    if free >= _MIN_SHM:
        return Finding("limits", "shared memory", "ok", detail)
    hint = (
        "NCCL and PyTorch's DataLoader pass data through it and end with a bus error where it is full: "
        "remove old files there, or start the container with a larger one (`--shm-size`)"
    )
    return Finding("limits", "shared memory", "warning", detail, hint)


def _memlock(host: Host, network: Network | None) -> Finding:
    soft, hard = host.limits["memlock"]
    detail = f"{_bytes(soft)}, may be raised to {_bytes(hard)}" if soft != hard else _bytes(hard)
    if hard is None:
        return Finding("limits", "memlock", "ok", detail)
    hint = _LIMITS_CONF.format(name="unlimited memlock", unit="LimitMEMLOCK")
    if network in _PINNING:
        why = f"{network} needs pinned memory, which NCCL and MPI then fail to register"
        return Finding("limits", "memlock", "warning", f"{detail}: {why}", hint)
    if network is not None:
        return Finding("limits", "memlock", "ok", f"{detail}; {network} does not need more")
    hint = (
        "write `fabric.network` into the site file: the limit is too low for InfiniBand and similar networks"
    )
    return Finding("limits", "memlock", "note", detail, hint)


def _limit(host: Host, name: str, minimum: _Minimum) -> Finding:
    soft, hard = host.limits[name]
    value = hard if minimum.hard else soft
    shown = _bytes if minimum.is_bytes else _count
    if value is None or value >= minimum.number:
        return Finding("limits", name, "ok", shown(value))
    detail = f"{shown(value)}, less than {shown(minimum.number)}: {minimum.purpose}"
    return Finding(
        "limits", name, "warning", detail, _LIMITS_CONF.format(name=f"a larger {name}", unit=minimum.unit)
    )


def _count(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _bytes(value: int | None) -> str:
    return "unlimited" if value is None else human_bytes(value)


def human_bytes(value: int) -> str:
    """Format a number of bytes: 64 KiB, 8 MiB, 23.5 GiB."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{round(value / (1 << power), 1):g} {unit}"
    return f"{value} bytes"
