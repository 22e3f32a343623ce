"""GPUs, and the interfaces and ports of the network that the site file names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from hpcdist.doctor.finding import Finding, Which, failure, said
from hpcdist.doctor.records import Host
from hpcdist.errors import listed
from hpcdist.host.command import Command
from hpcdist.schedulers.surveyors import Answers
from hpcdist.site.fabric import Fabric, Setting

On = Literal["login", "node"]
"""Where it was seen: a login node may lack what the nodes have."""

_TOOLS: Final = (
    Command(("nvidia-smi", "--list-gpus"), timeout=20),
    Command(("rocm-smi", "--showid", "--csv"), timeout=20),
)
_A_GPU: Final = re.compile(r"^(?:GPU \d+:|card\d+,)", re.MULTILINE)
TELLS_MORE: Final = "`hpcdist doctor --job` looks at the nodes"

_INTERFACES: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include")
_CARDS: Final = ("NCCL_IB_HCA",)
"""Variables that name devices; both of NCCL take beginnings of names, ``=`` exact ones, ``^`` all others
(docs.nvidia.com, NCCL, "Environment Variables")."""


def ask(which: Which) -> Iterator[Command]:
    """Yield what lists the GPUs of this host."""
    return (tool for tool in _TOOLS if which(tool.argv[0]))


def login_gpus(which: Which, answers: Answers) -> Finding:
    """Return what the tools of the drivers say of this host."""
    tool = next(ask(which), None)
    if tool is None:
        seen = "there is no nvidia-smi nor rocm-smi here, as on most login nodes"
        return Finding("gpus", "gpus", "note", seen, TELLS_MORE)
    done = said(answers, tool)
    if not done.ok:
        return Finding("gpus", "gpus", "note", failure(done), TELLS_MORE)
    count = len(_A_GPU.findall(done.stdout))
    return Finding("gpus", "gpus", "ok", f"{count} on this host, as {tool.argv[0]} says")


def network(host: Host, fabric: Fabric, on: On) -> Iterator[Finding]:
    """Yield whether the interfaces and cards that the site file names are there, and are up."""
    named = _named(fabric)
    for source, names in named.items():
        cards = source.endswith(_CARDS)
        there = {port.name: port.state == "ACTIVE" for port in host.ports} if cards else _up(host)
        yield from _each(source, names, there, on)
    if not named:
        others = [name for name in host.interfaces if name != "lo"]
        seen = f"the site file names none; this host has {listed(others) or 'none'}"
        do = "where jobs choose the wrong one, write the right one as `fabric.interface` into the site file"
        yield Finding("fabric", "interface", "note", seen, do)
    if host.ports or fabric.network == "infiniband":
        yield _ports(host, on)


def _up(host: Host) -> dict[str, bool]:
    """Return each interface, and whether it is up; of some, such as lo, the kernel does not know."""
    return {name: state in ("up", "unknown") for name, state in host.interfaces.items()}


def _named(fabric: Fabric) -> Mapping[str, str]:
    """Return what names devices, by its key of the site file."""
    found = {"fabric.interface": fabric.interface} if fabric.interface else {}
    for name in (*_INTERFACES, *_CARDS):
        entry = fabric.env.get(name)
        value = entry.value if isinstance(entry, Setting) else entry
        if value is not None:
            found[f"fabric.env.{name}"] = str(value)
    return found


def _each(source: str, names: str, there: Mapping[str, bool], on: On) -> Iterator[Finding]:
    if names.startswith("^"):
        yield Finding("fabric", source, "ok", f"all but {names[1:]}")
        return
    begins = source.endswith(("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")) and not names.startswith("=")
    for name in names.lstrip("=").split(","):
        fitting = [key for key in there if _fits(key, name, begins=begins)]
        up = [key for key in fitting if there[key]]
        if up:
            yield Finding("fabric", source, "ok", listed(up))
        else:
            yield _lacking(source, name, there, on, is_down=bool(fitting))


def _fits(there: str, name: str, *, begins: bool) -> bool:
    """Whether a name means this device; one without a port means all ports of a card."""
    return there.startswith(name) if begins else name in (there, there.partition(":")[0])


def _lacking(source: str, name: str, there: Mapping[str, bool], on: On, *, is_down: bool) -> Finding:
    seen = f"{name} is {'down' if is_down else 'not there'}; there is {listed(there) or 'none'}"
    if on == "login":
        return Finding("fabric", source, "note", f"{seen}; the nodes may have it", TELLS_MORE)
    do = f"correct `{source}` in the site file, or tell the centre that {name} is missing on these nodes"
    return Finding("fabric", source, "error", seen, do)


def _ports(host: Host, on: On) -> Finding:
    active = [f"{port.name} {port.rate}" for port in host.ports if port.state == "ACTIVE"]
    idle = [f"{port.name} {port.state}" for port in host.ports if port.state != "ACTIVE"]
    seen = listed((*active, *idle)) or "there are none"
    if active and not idle:
        return Finding("fabric", "ports", "ok", seen)
    if on == "login":
        return Finding("fabric", "ports", "note", seen, TELLS_MORE)
    if active:
        return Finding("fabric", "ports", "note", seen, "tell the centre, if jobs are to use all of them")
    do = "tell the centre: NCCL and MPI fall back to TCP, or fail"
    return Finding("fabric", "ports", "error", seen, do)
