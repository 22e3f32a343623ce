"""PyTorchJob of Kubeflow's training operator, and of the operator before it."""

from __future__ import annotations

import re
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.kubeflow.roles import (
    Part,
    Role,
    in_folder,
    put_command,
    put_variables,
    refuse_pod_names,
    whole,
)
from hpcdist.importers.kubeflow.training import only_one, parts_of, put_replicas, replicas_of, with_master
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, parse_launch_line
from hpcdist.importers.reading import Reading

_SPECS: Final = ("pytorchReplicaSpecs", "replicaSpecs")
_NAMES: Final = {"master": "master", "worker": "worker"}
OPERATOR_VARIABLES: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
)
"""Variables that the operator sets after the user's (``envvar.go``), and those of the launch on a node."""
_RENDEZVOUS: Final = "hpcdist configures the rendezvous of torchrun"
_ELASTIC: Final = {
    **dict.fromkeys(("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf", "standalone"), _RENDEZVOUS),
    **dict.fromkeys(("minReplicas", "maxReplicas", "metrics"), "the number of replicas of a job is fixed"),
}  # fmt: skip
_STARTS_PROCESSES: Final = re.compile(r"torchrun|torch\.distributed|accelerate|\.sh\b|PET_")
_PET: Final = (
    'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"',
    'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"',
)
"""What the operator sets for every torchrun (training-operator, ``pkg/controller.v1/pytorch/envvar.go``)."""


def pytorchjob(read: Reading) -> None:
    """Read a PyTorchJob: torchrun becomes hpcdist's own where all of it can be converted."""
    read.ignore("spec", "backend", why="the program says which backend it uses")
    read.ignore("spec", "successPolicy", why="the job ends when all of its replicas have ended")
    read.ignore("spec", "masterPort", why="every job gets ports of its own")
    read.ignore_all(_ELASTIC, "spec", "elasticPolicy")
    restarts = whole(read, "spec", "elasticPolicy", "maxRestarts")
    source: Path = ("spec", "nprocPerNode")
    for key in ("nProcPerNode", "nprocPerNode"):
        source = ("spec", "elasticPolicy", key) if read.peek("spec", "elasticPolicy", key) else source
    found = replicas_of(read, _SPECS, _NAMES, "pytorch", OPERATOR_VARIABLES)
    master = found.get("master")
    if found and master is None:
        found = with_master(found["worker"])
    else:
        only_one(read, master, "Master")
    torch_program(read, found, source, restarts)


def torch_program(read: Reading, found: dict[str, Role], source: Path, restarts: int | None = None) -> None:
    """Put what the replicas run; ``source`` is the key of the number of processes of each."""
    each = word(read, *source)
    if each and not re.fullmatch(r"auto|gpu|cpu|[1-9]\d{0,5}", each, re.ASCII):
        hint = "write a number, or auto, gpu or cpu"
        read.refuse(*source, why=f"{each!r} is not a number of processes", hint=hint)
        each = None
    parts = parts_of(read, found)
    read.put("framework", "pytorch", "kind")
    if not parts:
        return
    total = sum(role.number for role in found.values())
    lines = _torchruns(read, parts, total, each)
    if lines:
        _torchrun(read, parts, lines[0], source if each else (), restarts)
        put_replicas(read, found, [])
        return
    if restarts:
        why = "maxRestarts has no effect: only a torchrun that hpcdist starts is restarted"
        hint = "`environment: {max_restarts: ...}` restarts the whole job"
        read.warn("spec", "elasticPolicy", "maxRestarts", why=why, hint=hint)
    put_replicas(read, found, [_with_operator_variables(part, total, each) for part in parts])


def _with_operator_variables(part: Part, total: int, each: str | None) -> Part:
    """Set the variables of the operator for a command that starts processes itself; ``auto`` is its default.

    Source: training-operator, ``pkg/apis/kubeflow.org/v1/pytorch_defaults.go``. Without GPUs ``auto`` would
    be all CPUs of the node; it stays one process, as where hpcdist starts torchrun.
    """
    before: tuple[str, ...] = ()
    processes = each or ("auto" if part.pod.gpus else "")
    if _STARTS_PROCESSES.search(part.command) and (total > 1 or processes or "PET_" in part.command):
        before = (*_PET, f"export PET_NPROC_PER_NODE={processes}") if processes else _PET
    if each and each.isdecimal() and int(each) > 1:
        before = (*before, f"export WORLD_SIZE=$((HPCDIST_SIZE * {each}))")
    return part._replace(before=before)


def _torchruns(read: Reading, parts: list[Part], total: int, each: str | None) -> list[Line]:
    """Return the launch lines, none if any replica runs something else or differs from the others."""
    lines: list[Line] = []
    for part in parts:
        where = part.pod.command_path
        if part.pod.command is None:
            return []
        try:
            line = parse_launch_line(part.command, part.pod.env)
        except UnsupportedLaunch as unclear:
            read.warn(
                *where, why=f"this command, {unclear}, is not converted, and runs once for each replica"
            )
            return []
        if line is None or line.program != "torchrun":
            return []
        lines.append(line)
    both = list(zip(lines, parts, strict=True))
    for where, line in {part.pod.command_path: line for line, part in both}.items():
        _check_nodes(read, line.nodes, total, where)
    variants = {(line.command, line.per_node or each, part.pod.folder) for line, part in both}
    same_env = all(part.pod.env == parts[0].pod.env for part in parts)
    known = all(_processes(line.per_node or each, part) for line, part in both)
    return lines if len(variants) == 1 and same_env and known else []


def _check_nodes(read: Reading, nodes: str, total: int, where: Path) -> None:
    """Compare the number of nodes of torchrun, which may be a range, with the replicas."""
    least, _, most = nodes.partition(":")
    if not nodes or "$" in nodes or nodes == str(total):
        return
    if not (least.isdecimal() and (most or least).isdecimal()):
        read.refuse(*where, why=f"{nodes!r} is not a number of replicas", hint=f"write --nnodes={total}")
    elif int(least) <= total <= int(most or least):
        why = f"--nnodes={nodes} has no effect: the number of replicas of a job is fixed"
        read.warn(*where, why=why)
    else:
        why = f"torchrun waits for {nodes} replicas, but the job has {total}"
        read.refuse(*where, why=why, hint=f"write --nnodes={total}, or other `replicas`")


def _processes(each: str | None, part: Part) -> int | None:
    """Return how many processes a replica starts, None if it depends on the node."""
    if each and each.isdecimal():
        return int(each)
    return max(part.pod.gpus, 1) if each is None or (each in ("gpu", "auto") and part.pod.gpus) else None


def _torchrun(read: Reading, parts: list[Part], line: Line, source: Path, restarts: int | None) -> None:
    """Let hpcdist start torchrun."""
    where = parts[0].pod.command_path
    each = word(read, *source) if source else None
    count = _processes(line.per_node or each, parts[0]) or 1
    read.put("pytorch.launch", "torchrun", *where)
    if line.restarts and not line.restarts.isdecimal():
        read.refuse(
            *where, why=f"{line.restarts!r} is not a number of restarts", hint="write --max-restarts=3"
        )
    elif restarts or line.restarts:
        read.put("pytorch.max_restarts", int(line.restarts or 0) or restarts, *where)
    if line.dropped:
        why = f"hpcdist starts torchrun itself, so these words have no effect: {', '.join(line.dropped)}"
        read.warn(*where, why=why)
    if (line.per_node or each) and count != max(parts[0].pod.gpus, 1):
        read.put("environment.processes_per_replica", count, *(source or where))
    refuse_pod_names(read, line.command, where)
    first = put_variables(read, parts[0].pod.env | line.variables, *parts[0].pod.path, "env")
    put_command(read, in_folder(parts[0].pod.folder, line.command), where, first)
