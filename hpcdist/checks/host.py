"""Checks of one host, a login node or a node of a job, from what its Python and a few commands report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from hpcdist.base.command import Command
from hpcdist.base.errors import comma_list
from hpcdist.checks.finding import CheckFinding, HostRecord, Which, failure, result_of, run_it_yourself
from hpcdist.schedulers.surveyors import SurveyAnswers
from hpcdist.site.fabric import Fabric, Network, Setting

# --- Python, and the packages that jobs import

_FRAMEWORKS: Final = ("horovod", "torch", "tensorflow", "mxnet", "jax", "mpi4py")
_BY_HOROVOD: Final = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet"}
"""The packages that Horovod is built for, by Horovod's names of them."""


def software_findings(host: HostRecord, *, gpus: bool) -> Iterator[CheckFinding]:
    """Yield the findings; ``gpus``: whether the machine has GPUs."""
    yield CheckFinding("python", "python", "ok", f"{host.python}, {host.executable}")
    if not any(name in host.packages for name in _FRAMEWORKS):
        detail = f"{host.executable} has none of {', '.join(_FRAMEWORKS)}"
        hint = "load the module, or activate the environment, with which the job is to run"
        yield CheckFinding("python", "packages", "note", detail, hint)
    for name, version in host.packages.items():
        if name == "horovod":
            yield _horovod(host, gpus=gpus)
        else:
            yield CheckFinding("python", name, "ok", version or "it is installed, without version metadata")


def _horovod(host: HostRecord, *, gpus: bool) -> CheckFinding:
    operations = [name for name in ("mpi", "gloo", "nccl") if name in host.built]
    frameworks = {name: text for name, text in host.built.items() if text}
    what = [f"{name} {text}" for name, text in frameworks.items()] + operations
    detail = f"{host.packages['horovod']}, built with {', '.join(what) or 'nothing recognized'}"
    for name, version in frameworks.items():
        installed = host.packages.get(_BY_HOROVOD.get(name, name))
        if installed and installed != version:
            detail += f"; installed is {name} {installed}"
            hint = "build Horovod again: `pip install --no-cache-dir --force-reinstall --no-deps horovod`"
            return CheckFinding("python", "horovod", "warning", detail, hint)
    if gpus and "nccl" not in operations:
        hint = (
            "its all-reduces of GPU data pass through host memory; build it with HOROVOD_GPU_OPERATIONS=NCCL"
        )
        return CheckFinding("python", "horovod", "note", detail, hint)
    return CheckFinding("python", "horovod", "ok", detail)


# --- Limits of a process: shared memory, pinned memory, open files, stack, processes

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


def limit_findings(host: HostRecord, network: Network | None) -> Iterator[CheckFinding]:
    """Yield the findings; ``network`` is the site's, None where its file does not set it."""
    yield _shm(host)
    yield _memlock(host, network)
    for name, minimum in _MINIMUMS.items():
        yield _limit(host, name, minimum)


def _shm(host: HostRecord) -> CheckFinding:
    if host.shm is None:
        return CheckFinding(
            "limits", "shared memory", "error", "there is no /dev/shm", "ask the centre: NCCL needs it"
        )
    size, free = host.shm
    detail = f"{human_bytes(size)}, {human_bytes(free)} free"
    if free >= _MIN_SHM:
        return CheckFinding("limits", "shared memory", "ok", detail)
    hint = (
        "NCCL and PyTorch's DataLoader pass data through it and end with a bus error where it is full: "
        "remove old files there, or start the container with a larger one (`--shm-size`)"
    )
    return CheckFinding("limits", "shared memory", "warning", detail, hint)


def _memlock(host: HostRecord, network: Network | None) -> CheckFinding:
    soft, hard = host.limits["memlock"]
    detail = f"{_size(soft)}, may be raised to {_size(hard)}" if soft != hard else _size(hard)
    if hard is None:
        return CheckFinding("limits", "memlock", "ok", detail)
    hint = _LIMITS_CONF.format(name="unlimited memlock", unit="LimitMEMLOCK")
    if network in _PINNING:
        why = f"{network} needs pinned memory, which NCCL and MPI then fail to register"
        return CheckFinding("limits", "memlock", "warning", f"{detail}: {why}", hint)
    if network is not None:
        return CheckFinding("limits", "memlock", "ok", f"{detail}; {network} does not need more")
    hint = (
        "write `fabric.network` into the site file: the limit is too low for InfiniBand and similar networks"
    )
    return CheckFinding("limits", "memlock", "note", detail, hint)


def _limit(host: HostRecord, name: str, minimum: _Minimum) -> CheckFinding:
    soft, hard = host.limits[name]
    value = hard if minimum.hard else soft
    shown = _size if minimum.is_bytes else _count
    if value is None or value >= minimum.number:
        return CheckFinding("limits", name, "ok", shown(value))
    detail = f"{shown(value)}, less than {shown(minimum.number)}: {minimum.purpose}"
    return CheckFinding(
        "limits", name, "warning", detail, _LIMITS_CONF.format(name=f"a larger {name}", unit=minimum.unit)
    )


def _count(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _size(value: int | None) -> str:
    return "unlimited" if value is None else human_bytes(value)


def human_bytes(value: int) -> str:
    """Format a number of bytes: 64 KiB, 8 MiB, 23.5 GiB."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{round(value / (1 << power), 1):g} {unit}"
    return f"{value} bytes"


# --- GPUs, and the network interfaces and ports that the site file names

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


def gpu_commands(which: Which) -> Iterator[Command]:
    """Yield the commands that list the GPUs of this host."""
    return (tool for tool in _TOOLS if which(tool.argv[0]))


def login_gpus(which: Which, answers: SurveyAnswers) -> CheckFinding:
    """Return how many GPUs the tools of the drivers list."""
    tool = next(gpu_commands(which), None)
    if tool is None:
        detail = "neither nvidia-smi nor rocm-smi is installed here, as on most login nodes"
        return CheckFinding("gpus", "gpus", "note", detail, CHECK_NODES)
    done = result_of(answers, tool)
    if not done.ok:
        return CheckFinding("gpus", "gpus", "note", failure(done), CHECK_NODES)
    count = len(_A_GPU.findall(done.stdout))
    return CheckFinding("gpus", "gpus", "ok", f"{count} on this host, according to {tool.argv[0]}")


def network_findings(host: HostRecord, fabric: Fabric, kind: HostKind) -> Iterator[CheckFinding]:
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
        yield CheckFinding("fabric", "interface", "note", detail, hint)
    if host.ports or fabric.network == "infiniband":
        yield _ports(host, kind)


def _up(host: HostRecord) -> dict[str, bool]:
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


def _check(source: str, names: str, devices: Mapping[str, bool], kind: HostKind) -> Iterator[CheckFinding]:
    if names.startswith("^"):
        yield CheckFinding("fabric", source, "ok", f"all but {names[1:]}")
        return
    by_prefix = source.endswith(("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")) and not names.startswith("=")
    for name in names.lstrip("=").split(","):
        matching = [key for key in devices if _matches(key, name, by_prefix=by_prefix)]
        up = [key for key in matching if devices[key]]
        if up:
            yield CheckFinding("fabric", source, "ok", comma_list(up))
        else:
            yield _missing_device(source, name, devices, kind, is_down=bool(matching))


def _matches(device: str, name: str, *, by_prefix: bool) -> bool:
    """Whether a name matches this device; a card's name without a port matches all its ports."""
    return device.startswith(name) if by_prefix else name in (device, device.partition(":")[0])


def _missing_device(
    source: str, name: str, devices: Mapping[str, bool], kind: HostKind, *, is_down: bool
) -> CheckFinding:
    detail = f"{name} is {'down' if is_down else 'not there'}; there is {comma_list(devices) or 'none'}"
    if kind == "login":
        return CheckFinding("fabric", source, "note", f"{detail}; the nodes may have it", CHECK_NODES)
    hint = (
        f"correct `{source}` in the site file, or report to the centre that {name} is missing on these nodes"
    )
    return CheckFinding("fabric", source, "error", detail, hint)


def _ports(host: HostRecord, kind: HostKind) -> CheckFinding:
    active = [f"{port.name} {port.rate}" for port in host.ports if port.state == "ACTIVE"]
    idle = [f"{port.name} {port.state}" for port in host.ports if port.state != "ACTIVE"]
    detail = comma_list((*active, *idle)) or "there are none"
    if active and not idle:
        return CheckFinding("fabric", "ports", "ok", detail)
    if kind == "login":
        return CheckFinding("fabric", "ports", "note", detail, CHECK_NODES)
    if active:
        return CheckFinding(
            "fabric", "ports", "note", detail, "report it to the centre, if jobs are to use all of them"
        )
    hint = "report it to the centre: NCCL and MPI fall back to TCP, or fail"
    return CheckFinding("fabric", "ports", "error", detail, hint)


# --- The runs directory, and the clock

_SHARED_SYSTEMS: Final = (
    "afs", "beegfs", "ceph", "cifs", "fhgfs", "gfs/gfs2", "gpfs", "k-afs", "lustre", "nfs", "ocfs2", "panfs",
    "smb2", "snfs", "wekafs",
)  # fmt: skip
"""File systems that hosts share, as stat(1) of coreutils names them; it calls BeeGFS fhgfs."""

_UNCERTAIN: Final = ("UNKNOWN", "fuse")
"""Prefixes of stat(1) for file systems that it does not know, or that a program implements."""

FILE_SYSTEM: Final = "file system"

_INSPECT: Final = """\
folder=$1
while [[ ! -e $folder ]]; do folder=$(dirname -- "$folder"); done
if [[ -e $1 && (! -O $1 || $(find -H "$1" -maxdepth 0 -perm /022)) ]]; then
  echo shared
else
  [[ -d $folder && -w $folder && -x $folder ]] && echo writable || echo closed
fi
echo "$folder"
stat --file-system --format=%T -- "$folder"
"""
_CLOCK: Final = Command(("timedatectl", "show", "--property=NTPSynchronized", "--value"), timeout=10)


def inspect_folder(folder: Path) -> Command:
    """Return the command that prints whether the folder is writable, and its file system.

    It is a separate process because a network file system may hang.
    """
    return Command(("bash", "-c", _INSPECT, "hpcdist", str(folder)), timeout=20)


def folder_commands(folder: Path) -> Iterator[Command]:
    """Yield the commands of these checks."""
    yield inspect_folder(folder)
    yield _CLOCK


def folder_findings(folder: Path, answers: SurveyAnswers, *, alone: bool) -> Iterator[CheckFinding]:
    """Yield the findings; ``alone``: jobs run on this host only."""
    yield from _folder(folder, answers, alone=alone)
    yield _clock(answers)


def _folder(folder: Path, answers: SurveyAnswers, *, alone: bool) -> Iterator[CheckFinding]:
    done = result_of(answers, inspect_folder(folder))
    lines = done.stdout.splitlines()
    if not done.ok or len(lines) != 3:  # noqa: PLR2004 - what _INSPECT prints
        hint = "check whether its file system responds, or choose another directory with --runs-dir"
        yield CheckFinding("runs", "folder", "error", f"{folder}: {failure(done)}", hint)
        return
    state, there, system = lines
    if state == "writable":
        yield CheckFinding("runs", "folder", "ok", f"{folder}")
    elif state == "shared":
        hint = f"`chmod go-w {folder}` if it is yours, or choose another directory with --runs-dir"
        yield CheckFinding(
            "runs", "folder", "warning", f"{folder} is writable by others, so submit refuses it", hint
        )
    else:
        hint = "choose another directory with --runs-dir, or by $HPCDIST_RUNS_DIR"
        yield CheckFinding("runs", "folder", "error", f"{there} is not writable", hint)
    if alone or system in _SHARED_SYSTEMS:
        yield CheckFinding(
            "runs", FILE_SYSTEM, "ok", f"{system}; jobs run on this host only" if alone else system
        )
        return
    hint = "choose a folder on a file system that all nodes share; `hpcdist doctor --job` tests this one"
    if system.startswith(_UNCERTAIN):
        detail = f"{system}, which may or may not be shared; nodes must reach {folder} too"
        yield CheckFinding("runs", FILE_SYSTEM, "unknown", detail, hint)
    else:
        detail = f"{system}, which is usually local to one host; nodes must reach {folder} too"
        yield CheckFinding("runs", FILE_SYSTEM, "warning", detail, hint)


def _clock(answers: SurveyAnswers) -> CheckFinding:
    done = result_of(answers, _CLOCK)
    word = done.stdout.strip()
    if done.ok and word == "yes":
        return CheckFinding("clock", "clock", "ok", "it is synchronized by NTP")
    if done.ok and word == "no":
        hint = "report it to the centre: tickets of munge and Kerberos are refused where clocks differ"
        return CheckFinding("clock", "clock", "warning", "it is not synchronized by NTP", hint)
    detail = "timedatectl does not report it" if done.ok else failure(done)
    return CheckFinding("clock", "clock", "unknown", detail, run_it_yourself(_CLOCK))
