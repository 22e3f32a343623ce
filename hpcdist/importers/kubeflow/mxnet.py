"""MXJob of Kubeflow's training operator, and of the operator before it."""

from __future__ import annotations

from typing import Final

from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.kubeflow.roles import Role
from hpcdist.importers.kubeflow.training import only_one, parts_of, put_replicas, replicas_of, worker_first
from hpcdist.importers.reading import Reading

_SPECS: Final = ("mxReplicaSpecs", "replicaSpecs")
_NAMES: Final = {"scheduler": "master", "server": "ps", "worker": "worker"}
_OPERATOR_VARIABLES: Final = frozenset({
    "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_ROLE",
    "DMLC_SERVER_ID", "DMLC_NODE_HOST",
})  # fmt: skip


def mxjob(read: Reading) -> None:
    """Read an MXJob that trains; servers and the scheduler run the worker's program."""
    mode = word(read, "spec", "jobMode") or "MXTrain"
    if mode.lower() not in ("mxtrain", "dist", "local", "train"):
        hint = "start the tuner's own tracker and servers from `run.cmd` of a native experiment"
        read.refuse("spec", "jobMode", why=f"jobs of the mode {mode!r} are not run", hint=hint)
    for key in ("RuntimeId", "mxImage"):
        read.ignore("spec", key, why="it was for servers of the operator")
    read.ignore("spec", "successPolicy", why="the job ends when its workers have ended")
    found = replicas_of(read, _SPECS, _NAMES, "mxnet", _OPERATOR_VARIABLES)
    worker = found.get("worker")
    if worker is None:
        if found:
            read.refuse("spec", why="there is no Worker", hint="write one")
        return
    only_one(read, found.get("master"), "Scheduler")
    found = {name: _as_worker(read, role, worker) for name, role in found.items()}
    if "master" not in found and len(found) == 1:
        found = worker_first(read, found, "there is no scheduler")
    elif "master" not in found:
        read.refuse("spec", why="servers need a Scheduler", hint="write `Scheduler: {replicas: 1, ...}`")
        return
    parts = parts_of(read, found)
    byteps = [part for part in parts if "bpslaunch" in part.command and part.role == "worker"]
    own = ('export DMLC_WORKER_ID="$HPCDIST_INDEX"',)
    parts = [part._replace(before=own) if part in byteps else part for part in parts]
    if "ps" in found:
        read.put("framework", "mxnet", "kind")
    put_replicas(read, found, parts)


def _as_worker(read: Reading, role: Role, worker: Role) -> Role:
    """Return the role with the worker's program, if it has no program itself."""
    if role.pod.command is not None or worker.pod.command is None:
        return role
    why = "it names no program, so the worker's program is started; MXNet selects its role"
    read.warn(*role.path, why=why)
    source, folder = worker.pod.command_path, worker.pod.folder
    member = role.pod._replace(command=worker.pod.command, command_path=source, folder=folder)
    return role._replace(pod=member._replace(env=worker.pod.env | role.pod.env))
