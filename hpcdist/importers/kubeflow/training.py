"""TFJob, PyTorchJob and MXJob of Kubeflow's training operator, and of the operators before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.kubeflow.roles import (
    Part,
    Role,
    in_folder,
    no_command,
    put_amounts,
    put_command,
    put_image,
    put_program,
    put_variables,
    refuse_pods,
    roles,
    whole,
)
from hpcdist.importers.launch_lines import Line, Unclear, take_apart
from hpcdist.importers.reading import Reading

_SPECS: Final = {
    "tf": ("tfReplicaSpecs", "replicaSpecs", "replica_specs"),
    "pytorch": ("pytorchReplicaSpecs", "replicaSpecs"),
    "mx": ("mxReplicaSpecs", "replicaSpecs"),
}
_TF: Final = {"chief": "master", "master": "master", "worker": "worker", "ps": "ps", "evaluator": "evaluator"}
_PYTORCH: Final = {"master": "master", "worker": "worker"}
_MX: Final = {"scheduler": "master", "server": "ps", "worker": "worker"}
_TOLD: Final = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"})
_MEETING: Final = "torchrun is told by hpcdist where its replicas meet"
_ELASTIC: Final = {
    **dict.fromkeys(("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf", "standalone"), _MEETING),
    **dict.fromkeys(("minReplicas", "maxReplicas", "metrics"), "a job keeps its replicas from start to end"),
}  # fmt: skip
_STARTS_PROCESSES: Final = re.compile(r"torchrun|torch\.distributed|accelerate|\.sh\b")
_PET: Final = (
    'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"',
    'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"',
)
"""What the operator tells every torchrun (training-operator, ``pkg/controller.v1/pytorch/envvar.go``)."""


def _found(
    read: Reading, kind: str, names: Mapping[str, str], main: str, told: frozenset[str] = frozenset()
) -> dict[str, Role]:
    """Return the kinds of replicas that there are any of."""
    keys = [key for key in _SPECS[kind] if read.peek("spec", key) is not None]
    if not keys:
        hint = f"write `{_SPECS[kind][0]}: {{{next(iter(names)).title()}: ...}}`"
        read.refuse("spec", why="there are no replicas in it", hint=hint)
        return {}
    found = roles(read, ("spec", keys[0]), names, main, told)
    present = {name: role for name, role in found.items() if role.number}
    if found and not present:
        read.refuse("spec", keys[0], why="all of its replicas are 0", hint="write `replicas: 1` or more")
    return present


def tfjob(read: Reading) -> None:
    """Read a TFJob: v1alpha1 with its list, and all after it."""
    read.ignore("spec", "tensorboard", why="run tensorboard on the login node")
    for key in ("RuntimeId", "tfImage", "tf_image", "terminationPolicy", "TerminationPolicy"):
        read.ignore("spec", key, why="the job ends when its master does, and has no image for servers")
    read.ignore("spec", "enableDynamicWorker", why="a job has as many workers at its end as at its start")
    everyone = word(read, "spec", "successPolicy") == "AllWorkers"
    found = _found(read, "tf", _TF, "tensorflow")
    if not found:
        return
    specs = next(read.keys("spec", key) for key in _SPECS["tf"] if read.peek("spec", key) is not None)
    first = "master" in map(str.lower, specs) or read.peek("spec", "tfReplicaSpecs") is None
    chief = found.get("master")
    if chief is None:
        found = _worker_first(read, found, "TF_CONFIG calls it chief, and the next one worker 0")
    for name in ("master", "evaluator"):
        _only_one(read, found.get(name), name)
    parts = _parts(read, found)
    if not parts or "master" not in found:
        return
    read.put("framework", "tensorflow", "kind")
    if len(parts) > 1 or found["master"].number > 1:
        if first and chief:
            read.put("tensorflow.version", "1", *chief.path)
        read.put("tensorflow.ends_with", "workers" if everyone else "master", "spec")
    _put(read, found, parts)


def _only_one(read: Reading, role: Role | None, name: str) -> None:
    if role and role.number > 1:
        why = f"there can be one {name}, not {role.number}"
        read.refuse(*role.path, "replicas", why=why, hint="write 1")


def _worker_first(read: Reading, found: dict[str, Role], what: str) -> dict[str, Role]:
    """Make the first worker the master."""
    worker = found.get("worker")
    if worker is None:
        why = "there is neither a chief nor a worker"
        read.refuse("spec", why=why, hint="write one of them")
        return found
    if "ps" in found and worker.number == 1:
        why = "the only worker becomes the master, and the servers need a worker beside it"
        read.refuse(*worker.path, "replicas", why=why, hint="write 2, or a Chief")
    elif len(found) > 1 or worker.number > 1:
        read.warn(*worker.path, why=f"the first worker is the master: {what}")
    rest = {"worker": worker._replace(number=worker.number - 1)} if worker.number > 1 else {}
    others = {name: role for name, role in found.items() if name != "worker"}
    return {"master": worker._replace(number=1), **rest, **others}


def _parts(read: Reading, found: Mapping[str, Role]) -> list[Part]:
    """Return what each native role runs; none where the file does not say it for all."""
    silent = [role for role in found.values() if role.pod.command is None]
    for role in {role.path: role for role in silent}.values():
        no_command(read, role)
    if silent:
        return []
    order = [name for name in ("master", "worker", "ps", "evaluator") if name in found]
    return [Part(name, found[name].pod, found[name].pod.command or "") for name in order]


def _put(read: Reading, found: Mapping[str, Role], parts: list[Part]) -> None:
    """Put the replicas of a job with a master."""
    put_amounts(read, **{name: role.pod for name, role in found.items()})
    for name, key in (("worker", "n_workers"), ("ps", "n_ps")):
        if name in found:
            read.put(f"environment.replicas.{key}", found[name].number, *found[name].path, "replicas")
    if "evaluator" in found and not (found["evaluator"].pod.resources or found["evaluator"].pod.nodes):
        read.put("environment.replicas.evaluator", {}, *found["evaluator"].path)
    put_image(read, [role.pod for role in {role.path: role for role in found.values()}.values()])
    if parts:
        put_program(read, parts)


def mxjob(read: Reading) -> None:
    """Read an MXJob of the kind that trains; servers and the scheduler run the worker's program."""
    mode = word(read, "spec", "jobMode") or "MXTrain"
    if mode.lower() not in ("mxtrain", "dist", "local", "train"):
        hint = "start the tuner's own tracker and servers from `run.cmd` of a native experiment"
        read.refuse("spec", "jobMode", why=f"jobs of the mode {mode!r} are not run", hint=hint)
    for key in ("RuntimeId", "mxImage"):
        read.ignore("spec", key, why="it was for servers of the operator")
    found = _found(read, "mx", _MX, "mxnet")
    worker = found.get("worker")
    if worker is None:
        if found:
            read.refuse("spec", why="there is no Worker", hint="write one")
        return
    _only_one(read, found.get("master"), "Scheduler")
    found = {name: _as_worker(read, role, worker) for name, role in found.items()}
    if "master" not in found and len(found) == 1:
        found = _worker_first(read, found, "there is no scheduler")
    elif "master" not in found:
        read.refuse("spec", why="servers need a Scheduler", hint="write `Scheduler: {replicas: 1, ...}`")
        return
    parts = _parts(read, found)
    byteps = [part for part in parts if "bpslaunch" in part.command and part.role == "worker"]
    own = ('export DMLC_WORKER_ID="$HPCDIST_INDEX"',)
    parts = [part._replace(before=own) if part in byteps else part for part in parts]
    if "ps" in found:
        read.put("framework", "mxnet", "kind")
    _put(read, found, parts)


def _as_worker(read: Reading, role: Role, worker: Role) -> Role:
    """Return the role with the worker's program, where it names none of its own."""
    if role.pod.command is not None or worker.pod.command is None:
        return role
    why = "it names no program, so the worker's is started, which MXNet makes what its role says"
    read.warn(*role.path, why=why)
    member = role.pod._replace(command=worker.pod.command, folder=worker.pod.folder)
    return role._replace(pod=member._replace(env=worker.pod.env | role.pod.env))


def pytorchjob(read: Reading) -> None:
    """Read a PyTorchJob: torchrun becomes hpcdist's own, where it can be told in full."""
    read.ignore("spec", "backend", why="the program says which backend it uses")
    read.ignore("spec", "masterPort", why="every job gets ports of its own")
    read.ignore_all(_ELASTIC, "spec", "elasticPolicy")
    restarts = whole(read, "spec", "elasticPolicy", "maxRestarts")
    each = word(read, "spec", "nprocPerNode")
    for key in ("nProcPerNode", "nprocPerNode"):
        each = word(read, "spec", "elasticPolicy", key) or each
    if each and not re.fullmatch(r"auto|gpu|cpu|[1-9]\d{0,5}", each, re.ASCII):
        hint = "write a number, or auto, gpu or cpu"
        read.refuse("spec", "nprocPerNode", why=f"{each!r} is no number of processes", hint=hint)
        each = None
    found = _found(read, "pytorch", _PYTORCH, "pytorch", _TOLD)
    master = found.get("master")
    if found and master is None:
        worker = found["worker"]
        rest = {"worker": worker._replace(number=worker.number - 1)} if worker.number > 1 else {}
        found = {"master": worker._replace(number=1), **rest}
    else:
        _only_one(read, master, "Master")
    parts = _parts(read, found)
    read.put("framework", "pytorch", "kind")
    if not parts:
        return
    total = sum(role.number for role in found.values())
    lines = _torchruns(read, parts, total, each)
    if lines:
        _torchrun(read, parts, lines[0], each, restarts)
        _put(read, found, [])
        return
    if restarts:
        why = "maxRestarts has no effect: only a torchrun that hpcdist starts begins again"
        hint = "`environment: {max_restarts: ...}` starts all of it again"
        read.warn("spec", "elasticPolicy", "maxRestarts", why=why, hint=hint)
    _put(read, found, [_told(part, total, each) for part in parts])


def _told(part: Part, total: int, each: str | None) -> Part:
    """Tell a command that starts processes itself what the operator would."""
    before: tuple[str, ...] = ()
    if _STARTS_PROCESSES.search(part.command) and (total > 1 or each):
        before = (*_PET, f"export PET_NPROC_PER_NODE={each}") if each else _PET
    if each and each.isdecimal() and int(each) > 1:
        before = (*before, f"export WORLD_SIZE=$((HPCDIST_SIZE * {each}))")
    return part._replace(before=before)


def _torchruns(read: Reading, parts: list[Part], total: int, each: str | None) -> list[Line]:
    """Return the launch lines, none where any replica does something else or differs from the others."""
    lines: list[Line] = []
    for part in parts:
        where = _command_path(read, part)
        try:
            line = take_apart(part.command, part.pod.env)
        except Unclear as unclear:
            read.warn(*where, why=f"this command, {unclear}, stays as it is, and runs once for each replica")
            return []
        if line is None or line.program != "torchrun":
            return []
        lines.append(line)
    both = list(zip(lines, parts, strict=True))
    for where, line in {_command_path(read, part): line for line, part in both}.items():
        _check_nodes(read, line.knobs.get("nodes", ""), total, where)
    said = {(line.command, line.per_node or each, part.pod.folder) for line, part in both}
    same_env = all(part.pod.env == parts[0].pod.env for part in parts)
    known = all(_processes(line.per_node or each, part) for line, part in both)
    return lines if len(said) == 1 and same_env and known else []


def _check_nodes(read: Reading, nodes: str, total: int, where: Path) -> None:
    """Compare what torchrun is told about its replicas, which may be a range, with what there are."""
    least, _, most = nodes.partition(":")
    if not nodes or "$" in nodes or nodes == str(total):
        return
    if not (least.isdecimal() and (most or least).isdecimal()):
        read.refuse(*where, why=f"{nodes!r} is no number of replicas", hint=f"write --nnodes={total}")
    elif int(least) <= total <= int(most or least):
        why = f"--nnodes={nodes} has no effect: a job keeps its replicas from start to end"
        read.warn(*where, why=why)
    else:
        why = f"torchrun is to wait for {nodes} replicas, the job has {total}"
        read.refuse(*where, why=why, hint=f"write --nnodes={total}, or other `replicas`")


def _processes(each: str | None, part: Part) -> int | None:
    """Return how many processes a replica starts, None where only the node knows."""
    if each and each.isdecimal():
        return int(each)
    return max(part.pod.gpus, 1) if each is None or (each in ("gpu", "auto") and part.pod.gpus) else None


def _torchrun(read: Reading, parts: list[Part], line: Line, each: str | None, restarts: int | None) -> None:
    """Let hpcdist start torchrun."""
    where = _command_path(read, parts[0])
    count = _processes(line.per_node or each, parts[0]) or 1
    read.put("pytorch.launch", "torchrun", *where)
    own = line.knobs.get("restarts", "")
    if restarts or own.isdecimal():
        read.put("pytorch.max_restarts", int(own) if own.isdecimal() else restarts, *where)
    if line.dropped:
        why = f"hpcdist starts torchrun itself, so these words have no effect: {', '.join(line.dropped)}"
        read.warn(*where, why=why)
    if (line.per_node or each) and count != max(parts[0].pod.gpus, 1):
        said: Path = ("spec", "nprocPerNode") if read.peek("spec", "nprocPerNode") else where
        read.put("environment.processes_per_replica", count, *said)
    refuse_pods(read, line.command, where)
    first = put_variables(read, parts[0].pod.env | line.variables, *parts[0].pod.path, "env")
    put_command(read, in_folder(parts[0].pod.folder, line.command), parts[0].pod.path, first)


def _command_path(read: Reading, part: Part) -> Path:
    return (*part.pod.path, "command" if read.peek(*part.pod.path, "command") else "args")
