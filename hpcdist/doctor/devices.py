"""Checks of GPUs, and of the network interfaces and ports that the site file names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from hpcdist.doctor.finding import Finding, Which, failure, result_of
from hpcdist.doctor.records import Host
from hpcdist.errors import comma_list
from hpcdist.host.command import Command
from hpcdist.schedulers.surveyors import Answers
from hpcdist.site.fabric import Fabric, Setting

HostKind = Literal["login", "node"]
"""A login node may lack devices that the compute nodes have."""

_TOOLS: Final = (
    Command(("nvidia-smi", "--list-gpus"), timeout=20),
    Command(("rocm-smi", "--showid", "--csv"), timeout=20),
)
_A_GPU: Final = re.compile(r"^(?:GPU \d+:|card\d+,)", re.MULTILINE)
CHECK_NODES: Final = "`hpcdist doctor --job` checks the nodes"

_INTERFACES: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")
_CARDS: Final = ("NCCL_IB_HCA",)
"""Variables that name devices; both of NCCL take prefixes of names, ``=`` for exact names, ``^`` to exclude
(docs.nvidia.com, NCCL, "Environment Variables")."""


def commands(which: Which) -> Iterator[Command]:
    """Yield the commands that list the GPUs of this host."""
    return (tool for tool in _TOOLS if which(tool.argv[0]))


def login_gpus(which: Which, answers: Answers) -> Finding:
    """Return how many GPUs the tools of the drivers list."""
    tool = next(commands(which), None)
    if tool is None:
        detail = "neither nvidia-smi nor rocm-smi is installed here, as on most login nodes"
        return Finding("gpus", "gpus", "note", detail, CHECK_NODES)
    done = result_of(answers, tool)
    if not done.ok:
        return Finding("gpus", "gpus", "note", failure(done), CHECK_NODES)
    count = len(_A_GPU.findall(done.stdout))
    return Finding("gpus", "gpus", "ok", f"{count} on this host, according to {tool.argv[0]}")


def network(host: Host, fabric: Fabric, kind: HostKind) -> Iterator[Finding]:
    """Yield whether the interfaces and cards that the site file names exist, and are up."""
    named = _named(fabric)
    for source, names in named.items():
        cards = source.endswith(_CARDS)
        devices = {port.name: port.state == "ACTIVE" for port in host.ports} if cards else _up(host)
        yield from _check(source, names, devices, kind)
    if not named:
        others = [name for name in host.interfaces if name != "lo"]
        detail = f"the site file names none; this host has {comma_list(others) or 'none'}"
        hint = "where jobs choose the wrong one, write the right one as `fabric.interface` into the site file"
        yield Finding("fabric", "interface", "note", detail, hint)
    if host.ports or fabric.network == "infiniband":
        yield _ports(host, kind)


def _up(host: Host) -> dict[str, bool]:
    """Return whether each interface is up; for some, such as lo, the kernel reports unknown."""
    return {name: state in ("up", "unknown") for name, state in host.interfaces.items()}


def _named(fabric: Fabric) -> Mapping[str, str]:
    """Return the values of the site file that name devices, by key."""
    found = {"fabric.interface": fabric.interface} if fabric.interface else {}
    for name in (*_INTERFACES, *_CARDS):
        entry = fabric.env.get(name)
        value = entry.value if isinstance(entry, Setting) else entry
        if value is not None:
            found[f"fabric.env.{name}"] = str(value)
    return found


def _check(source: str, names: str, devices: Mapping[str, bool], kind: HostKind) -> Iterator[Finding]:
    if names.startswith("^"):
        yield Finding("fabric", source, "ok", f"all but {names[1:]}")
        return
    by_prefix = source.endswith(("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")) and not names.startswith("=")
    for name in names.lstrip("=").split(","):
        matching = [key for key in devices if _matches(key, name, by_prefix=by_prefix)]
        up = [key for key in matching if devices[key]]
        if up:
            yield Finding("fabric", source, "ok", comma_list(up))
        else:
            yield _missing(source, name, devices, kind, is_down=bool(matching))


def _matches(device: str, name: str, *, by_prefix: bool) -> bool:
    """Whether a name matches this device; a card's name without a port matches all its ports."""
    return device.startswith(name) if by_prefix else name in (device, device.partition(":")[0])


def _missing(
    source: str, name: str, devices: Mapping[str, bool], kind: HostKind, *, is_down: bool
) -> Finding:
    detail = f"{name} is {'down' if is_down else 'not there'}; there is {comma_list(devices) or 'none'}"
    if kind == "login":
        return Finding("fabric", source, "note", f"{detail}; the nodes may have it", CHECK_NODES)
    hint = (
        f"correct `{source}` in the site file, or report to the centre that {name} is missing on these nodes"
    )
    return Finding("fabric", source, "error", detail, hint)


def _ports(host: Host, kind: HostKind) -> Finding:
    active = [f"{port.name} {port.rate}" for port in host.ports if port.state == "ACTIVE"]
    idle = [f"{port.name} {port.state}" for port in host.ports if port.state != "ACTIVE"]
    detail = comma_list((*active, *idle)) or "there are none"
    if active and not idle:
        return Finding("fabric", "ports", "ok", detail)
    if kind == "login":
        return Finding("fabric", "ports", "note", detail, CHECK_NODES)
    if active:
        return Finding(
            "fabric", "ports", "note", detail, "report it to the centre, if jobs are to use all of them"
        )
    hint = "report it to the centre: NCCL and MPI fall back to TCP, or fail"
    return Finding("fabric", "ports", "error", detail, hint)
