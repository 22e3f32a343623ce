"""The runs of Polyaxon 1 and 2: roles become replicas, a container becomes a command and amounts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpcdist.errors import Path, did_you_mean
from hpcdist.importers import container, launch_lines
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, refuse_launch_per_replica
from hpcdist.importers.polyaxon import PIPELINES, contexts
from hpcdist.importers.polyaxon_v1.init import read_init
from hpcdist.importers.polyaxon_v1.roles import (
    Replica,
    check_same,
    one_less,
    put_alone,
    put_count,
    put_shared,
)
from hpcdist.importers.polyaxon_v1.text import TemplateMask, Texts, only_in_job
from hpcdist.importers.reading import Reading

# --- An mpijob of Polyaxon: the launcher's mpirun becomes hpcdist's launch, the workers are the replicas
#
# Polyaxon runs it with Kubeflow's MPI operator: the processes run on the workers, ``slotsPerWorker`` on
# each.

_HOSTFILE: Final = "/etc/mpi/hostfile"
_WAITS: Final = re.compile(r"(?:exec )?(?:sleep \S+|tail -f /dev/null|\S*sshd\b[^;&|]*)")


def read_mpi(read: Reading, path: Path, roles: Sequence[Replica]) -> None:
    """Put an mpijob: the worker's amounts, the launcher's command."""
    named = {role.path[-1]: role for role in roles}
    launcher, worker = named.get("launcher"), named.get("worker")
    slots = read.get(*path, "slotsPerWorker")
    if worker is None or launcher is None or not launcher.command:
        _refuse_missing(read, path, launcher, worker)
        return
    _check_worker(read, worker, launcher.command)
    if launcher.count != 1:
        read.refuse(*launcher.path, "replicas", why="there is one launcher", hint="write 1")
    for found, what, where in (
        (launcher.amounts, "resources", ("container", "resources")),
        (launcher.nodes, "nodes", ("environment", "nodeSelector")),
    ):
        if found:
            why = f"the {what} of the launcher have no effect: it runs on the first node"
            read.warn(*launcher.path, *where, why=why)
    read.put("framework", "mpi", *path, "kind")
    mask = TemplateMask(launcher.command)
    line = _line_of(read, mask, launcher)
    filled = _filled(read, line, worker.count, slots, (*launcher.path, "container", "command"))
    _put_workers(read, worker._replace(count=filled.workers))
    _put_slots(read, (*path, "slotsPerWorker"), filled.slots, worker)
    _check_same(read, launcher, worker)
    variables = worker.variables | launcher.variables
    if line:
        variables |= {name: mask.restore(value) for name, value in line.variables.items()}
    command = mask.restore(line.command) if line else launcher.command.replace(_HOSTFILE, "$HPCDIST_HOSTFILE")
    image, folder = worker.image or launcher.image, launcher.folder or worker.folder
    shared = launcher._replace(command=command, variables=variables, image=image, folder=folder)
    put_shared(read, shared._replace(exports=worker.exports + launcher.exports))


def _refuse_missing(read: Reading, path: Path, launcher: Replica | None, worker: Replica | None) -> None:
    """Refuse an mpijob without a role, or without a command."""
    if worker is None:
        hint = "it says how many, and what each needs"
        read.refuse(*path, "kind", why="an mpijob without `worker`", hint=hint)
    elif launcher is None:
        hint = "its container holds the mpirun line"
        read.refuse(*path, "kind", why="an mpijob without `launcher`", hint=hint)
    else:
        where = (*launcher.path, "container")
        read.refuse(*where, why="the launcher has no command", hint="write its mpirun line as `command`")


def _check_worker(read: Reading, worker: Replica, launch: str) -> None:
    """Refuse a worker's own command, unless it waits for mpirun or repeats the launcher's line."""
    where = (*worker.path, "container", "command")
    if worker.command == launch or _WAITS.fullmatch(worker.command or ""):
        read.warn(*where, why="this has no effect: hpcdist starts the program of the launcher's command")
    elif worker.command:
        hint = "remove it: hpcdist starts the program of the launcher's command"
        read.refuse(*where, why="workers of an mpijob run no command", hint=hint)


def _check_same(read: Reading, launcher: Replica, worker: Replica) -> None:
    """Refuse differences between launcher and worker, as all processes share these keys."""
    where = (*worker.path, "container")
    for key, one, other in (
        ("image", launcher.image, worker.image),
        ("workingDir", launcher.folder, worker.folder),
        *(("env", launcher.variables.get(name), value) for name, value in worker.variables.items()),
    ):
        if one and other and one != other:
            read.refuse(*where, key, why=f"the launcher has {one}, the worker {other}", hint="write the same")


def _put_workers(read: Reading, worker: Replica) -> None:
    """Put the first worker as the master, and the others as workers."""
    count = one_less(read, worker.count, (*worker.path, "replicas"))
    put_count(read, "n_workers", count, worker, "default_worker")
    worker.put_needs(read, "environment")


def _put_slots(read: Reading, path: Path, slots: object, worker: Replica) -> None:
    """Put the processes of a replica if they are not one per GPU, or one."""
    if slots is not None and (not isinstance(slots, int) or isinstance(slots, bool) or slots < 1):
        read.refuse(
            *path, why=f"{slots!r} is not a number of processes", hint="write a whole number of 1 or more"
        )
        return
    amount = worker.amounts.get("gpu", {})
    gpus = amount.get("limits", amount.get("requests", 0))
    if (slots or 1) != (gpus or 1):
        read.put("environment.processes_per_replica", slots or 1, *(path if slots else worker.path))


def _line_of(read: Reading, mask: TemplateMask, launcher: Replica) -> Line | None:
    """Return the launch line, None if it is not converted."""
    where = (*launcher.path, "container", "command")
    try:
        line = _line(mask.text)
    except UnsupportedLaunch as reason:
        hint = "its hostfile is $HPCDIST_HOSTFILE"
        read.warn(*where, why=f"the command runs once, unchanged, on the first node: {reason}", hint=hint)
        return None
    for text in line.dropped:
        read.warn(*where, why=f"{mask.restore(text)} has no effect: hpcdist starts the processes")
    return line


def _line(text: str) -> Line:
    line = launch_lines.parse_launch_line(text, {})
    if line is None or line.program != "mpirun":
        raise UnsupportedLaunch("it is not an mpirun line")
    if line.by_node or line.folder:
        raise UnsupportedLaunch("it places processes round-robin on the nodes, or has a directory of its own")
    return line


class _Filled(NamedTuple):
    """The workers on which mpirun starts processes, and the number on each, None for the default."""

    workers: Any
    slots: Any


def _filled(read: Reading, line: Line | None, count: Any, slots: Any, where: Path) -> _Filled:
    """Return what a line fills: mpirun fills one worker after the other, and starts nothing on the others."""
    given, each = _Filled(count, slots), slots if isinstance(slots, int) else 1
    if line is None:
        return given
    if line.per_node is not None and line.per_node != str(each):
        hint = "write the same number as `slotsPerWorker`"
        why = f"mpirun starts {line.per_node} processes a worker, which has {each} slots"
        read.refuse(*where, why=why, hint=hint)
    if line.np is None or not isinstance(count, int) or line.np == count * each:
        return given
    room = f"{count} workers of {each} slots are {count * each}"
    if not 0 < line.np < count * each or (line.np > each and line.np % each):
        hint = "write the same number, or other `replicas` and `slotsPerWorker`"
        read.refuse(*where, why=f"mpirun starts {line.np} processes, {room}", hint=hint)
        return given
    workers = max(1, line.np // each)
    why = f"mpirun starts {line.np} processes on {workers} of {count} workers ({room})"
    read.warn(*where, why=why, hint=f"write -np {count * each} to use all")
    return _Filled(workers, min(line.np, each))


# --- The runs of Polyaxon 1 and 2

_ROLES: Final[dict[str, dict[str, str]]] = {
    "tfjob": {"chief": "master", "worker": "worker", "ps": "ps", "evaluator": "evaluator"},
    "pytorchjob": {"master": "master", "worker": "worker"},
    "mxjob": {"scheduler": "master", "worker": "worker", "server": "ps"},
    "paddlejob": {"master": "master", "worker": "worker"},
}
_FRAMEWORKS: Final = {"tfjob": "tensorflow", "pytorchjob": "pytorch", "mxjob": "mxnet", "paddlejob": None}
_BROWSER: Final = "a batch job serves nothing: start it on a machine of your own"
_OTHERS: Final = {
    "dag": PIPELINES,
    "service": _BROWSER,
    **dict.fromkeys(("daskjob", "daskcluster", "dask", "spark", "flink"),
                    "start its cluster from the command of a `kind: job`"),
    **dict.fromkeys(("rayjob", "raycluster", "ray"),
                    "write an experiment with `framework: ray`, and the entrypoint as `run.cmd`"),
    **dict.fromkeys(("tuner", "notifier", "cleaner", "builder", "watchdog"), "it is a server's own work"),
    "xgbjob": "write it as `kind: job`",
}  # fmt: skip
_PODS: Final = "there are no pods"
_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_IGNORED: Final = {
    "cleanPodPolicy": _PODS,
    "schedulingPolicy": "the batch system starts all of a job at once",
    "sshAuthMountPath": "the site's launcher starts the processes",
    "implementation": "the site's own MPI is used",
    "enableDynamicWorker": "the number of workers is fixed",
    "mode": "the program is started as it is",
}
_ENVIRONMENT: Final = {
    **dict.fromkeys(
        ("labels", "annotations", "affinity", "tolerations", "nodeName", "serviceAccountName", "hostAliases",
         "securityContext", "imagePullSecrets", "hostNetwork", "hostPID", "dnsPolicy", "dnsConfig",
         "schedulerName", "priorityClassName", "priority"), "it is for Kubernetes",
    ),
    **dict.fromkeys(("restartPolicy", "restart_policy"),
                    "a program is started again as often as `termination: {maxRetries: ...}` permits"),
}  # fmt: skip
_RESOURCES: Final = "write `resources: {limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}`"
_IN_ROLE: Final = {
    "connections": _MOUNTS,
    "volumes": _MOUNTS,
    "sidecars": "sidecars are not started",
}
_ADVICE: Final = "write `kind: mpijob`, whose launcher runs {program} for all workers"
_OLD_SPELLING: Final = {
    "volume_mounts": _MOUNTS,
    "image_pull_policy": "the site's container runtime gets images",
}


def read_run(read: Reading, texts: Texts, path: Path) -> None:
    """Take the section ``run``."""
    kind = read.get(*path, "kind")
    container.ignore_set_keys(read, _IGNORED, *path)
    if kind == "job":
        put_alone(read, _replica(read, texts, path))
    elif kind == "mpijob":
        roles = [_replica(read, texts, (*path, name), of_mpi=True)
                 for name in ("launcher", "worker") if read.peek(*path, name)]  # fmt: skip
        read_mpi(read, path, roles)
    elif isinstance(kind, str) and kind in _ROLES:
        _distributed(read, texts, path, kind)
    else:
        hint = _OTHERS.get(str(kind)) or did_you_mean(str(kind), ["job", "mpijob", *_ROLES])
        if kind is None and read.peek(*path, "cmd"):
            hint = "write `version: 1`: `run.cmd` is of Polyaxon 0.x"
        why = f"runs of kind {kind!r} are not run" if kind else "there is no kind"
        read.get(*path)
        read.refuse(*path, "kind", why=why, hint=hint)


def _distributed(read: Reading, texts: Texts, path: Path, kind: str) -> None:
    roles = {
        native: _replica(read, texts, (*path, name))
        for name, native in _ROLES[kind].items()
        if read.peek(*path, name) is not None
    }
    if "master" not in roles and "worker" not in roles:
        names = ", ".join(f"`{name}`" for name in _ROLES[kind])
        read.refuse(*path, "kind", why=f"a {kind} without roles", hint=f"write {names}")
        return
    _elastic(read, path, roles)
    if kind == "tfjob":
        _success(read, (*path, "successPolicy"))
    if kind == "paddlejob" and _total(roles) != 1:
        read.refuse(
            *path, "kind", why="hpcdist does not configure trainers of PaddlePaddle",
            hint="write a native file with `framework: mpi`, and set PADDLE_* in its command",
        )  # fmt: skip
        return
    if _FRAMEWORKS[kind]:
        read.put("framework", _FRAMEWORKS[kind], *path, "kind")
    if kind == "tfjob":
        _put_chief(read, roles)
    if kind == "mxjob" and "master" not in roles:
        read.refuse(*path, "kind", why="an mxjob without a scheduler", hint="write `scheduler`")
    _put_roles(read, roles)


def _put_chief(read: Reading, roles: Mapping[str, Replica]) -> None:
    """Put whether TF_CONFIG has a chief and whose end is the job's, if these differ from the defaults."""
    if _total(roles) > 1 and ("master" in roles) != bool({"ps", "evaluator"} & roles.keys()):
        read.put("tensorflow.chief", "master" in roles, *next(iter(roles.values())).path)
    if "master" not in roles and "ps" in roles and "ends_with" not in read.native.get("tensorflow", {}):
        read.put("tensorflow.ends_with", "master", *roles["worker"].path)  # as the operator, by worker 0


def _total(roles: Mapping[str, Replica]) -> int:
    return sum(role.count if isinstance(role.count, int) else 2 for role in roles.values())


def _put_roles(read: Reading, roles: dict[str, Replica]) -> None:
    """Put the replicas; without a master, the first worker becomes it."""
    first = roles.get("master") or roles["worker"]
    for role in roles.values():
        check_same(read, first, role)
    source = container.command_path(read, *first.path, "container")
    refuse_launch_per_replica(read, first.command or "", _total(roles), source, advice=_ADVICE)
    put_alone(read, first)
    for native, most in (("master", 1), ("evaluator", 1)):
        if native in roles and roles[native].count != most:
            place = (*roles[native].path, "replicas")
            read.refuse(*place, why=f"there is one {native}, not {roles[native].count}", hint="write 1")
    if "worker" in roles:
        count = roles["worker"].count
        rest = count if "master" in roles else one_less(read, count, (*roles["worker"].path, "replicas"))
        put_count(read, "n_workers", rest, roles["worker"], "default_worker")
    if "ps" in roles:
        put_count(read, "n_ps", roles["ps"].count, roles["ps"], "default_ps")
    if "evaluator" in roles:
        read.put("environment.replicas.evaluator", {}, *roles["evaluator"].path)
        roles["evaluator"].put_needs(read, "environment.replicas.evaluator")


def _success(read: Reading, path: Path) -> None:
    policy = read.get(*path)
    if policy == "AllWorkers":
        read.put("tensorflow.ends_with", "workers", *path)
    elif policy not in (None, "", "ChiefWorker"):
        read.refuse(*path, why=f"unknown policy {policy!r}", hint="write AllWorkers, or remove it")


def _elastic(read: Reading, path: Path, roles: Mapping[str, Replica]) -> None:
    """Take the processes and restarts of torchrun; the number of replicas is fixed."""
    policy = (*path, "elasticPolicy")
    variables = {"PET_NPROC_PER_NODE": (*path, "nProcPerNode"), "PET_MAX_RESTARTS": (*policy, "maxRestarts")}
    if read.peek(*path, "nProcPerNode") is None:
        variables["PET_NPROC_PER_NODE"] = (*policy, "nProcPerNode")
    for name, source in variables.items():
        if (value := read.text(*source)) is not None:
            for role in roles.values():
                role.variables.setdefault(name, value)
    for key in read.keys(*policy):
        if key.startswith(("rdvz", "rdzv")) or key in ("standalone", "Metrics", "metrics"):
            read.ignore(*policy, key, why="hpcdist configures the rendezvous")
    for key in ("minReplicas", "maxReplicas"):
        if read.get(*policy, key) not in (None, _total(roles)):
            read.warn(*policy, key, why=f"the job has {_total(roles)} replicas from start to end")


def _replica(read: Reading, texts: Texts, path: Path, *, of_mpi: bool = False) -> Replica:
    """Take a role, or a run that has one only."""
    where = (*path, "container")
    if not isinstance(read.peek(*where), Mapping):
        read.get(*where)
        read.refuse(
            *where, why="there is no container here", hint="write `container: {image: ..., command: [...]}`"
        )
        return Replica(path, read.get(*path, "replicas"), "", None, {}, {}, None)
    count = read.get(*path, "replicas")
    _beside_container(read, path)
    for name in ("cpu", "memory", "gpu"):
        if read.peek(*where, "resources", name):
            why = "this is the form of Polyaxon 0.x, with memory in MiB"
            read.refuse(*where, "resources", name, why=why, hint=_RESOURCES)
    env = container.variables(read, *where, "env")
    exported = only_in_job(env)
    for key in ("envFrom", "env_from"):
        container.read_env_from(read, *where, key)
    container.ignore_set_keys(read, container.IGNORED | _OLD_SPELLING, *where)
    image = read.text(*where, "image")
    command, args = _program(read, texts, where, env, of_mpi=of_mpi)
    return Replica(
        path=path,
        count=1
        if count is None
        else texts.template(count, *path, "replicas")
        if isinstance(count, str)
        else count,
        command=command,
        folder=_folder(read, texts, (*where, "workingDir")),
        amounts=container.amounts(read, *where, "resources"),
        variables={
            name: texts.template(value, *where, "env") for name, value in env.items() if name not in exported
        },
        image=texts.template(image, *where, "image") if image else None,
        args=args,
        files=read_init(read, texts, path),
        exports=texts.exports(exported, *where, "env"),
        nodes=_nodes(read, texts, (*path, "environment", "nodeSelector")),
    )


def _nodes(read: Reading, texts: Texts, path: Path) -> dict[str, str]:
    """Take the labels of nodes, of which the site gives the meaning."""
    labels = {name: read.text(*path, name) for name in read.keys(*path)}
    return {name: texts.template(text, *path, name) for name, text in labels.items() if text}


def _beside_container(read: Reading, path: Path) -> None:
    """Read or report the keys beside the container."""
    container.ignore_set_keys(read, _ENVIRONMENT, *path, "environment")
    if read.peek(*path, "environment", "resources"):
        why = "resources of Polyaxon 0.x; since then they are in `container`"
        read.refuse(*path, "environment", "resources", why=why, hint=f"{_RESOURCES} there")
    container.ignore_set_keys(read, _IN_ROLE, *path)


def _program(
    read: Reading, texts: Texts, where: Path, env: Mapping[str, str], *, of_mpi: bool
) -> tuple[str | None, str]:
    """Return the command of a container as shell text; without one, None and the arguments of its image."""
    command, args = (container.words(read, *where, key) for key in ("command", "args"))
    source = (*where, "command" if command else "args")
    if of_mpi and not (command or args):
        return "", ""
    if not (command or isinstance(args, str) or of_mpi):
        if not (args and container.is_program(args[0])):
            return None, texts.command(args or (), env, *source) if args else ""
        why = "the image's own entrypoint is not started: `args` is used as the whole command"
        read.warn(*where, "args", why=why, hint="write them as `command`")
    if not (isinstance(command, str) or isinstance(args, str)):
        return texts.command([*(command or ()), *(args or ())], env, *source), ""
    parts = (
        texts.script(part, env, *source) if isinstance(part, str) else texts.command(part or (), env, *source)
        for part in (command, args)
    )
    return " ".join(part for part in parts if part), ""


def _folder(read: Reading, texts: Texts, path: Path) -> str | None:
    """Take the directory in which the program starts, as a word for the shell, but not Polyaxon's own."""
    folder = read.text(*path)
    if not folder:
        return None
    if contexts.has_artifacts_path(folder) and texts.repository is not None:
        why = "the job runs in the directory where it is submitted"
        read.warn(*path, why=why, hint="submit it where the program is, or write `cd` in the command")
        return None
    return texts.command([folder], (), *path)
