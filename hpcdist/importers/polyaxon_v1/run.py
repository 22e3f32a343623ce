"""The runs of Polyaxon 1 and 2: roles become replicas, a container becomes a command and amounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.errors import Path, did_you_mean
from hpcdist.importers import container
from hpcdist.importers.launch_lines.single_launch import refuse_launch_per_replica
from hpcdist.importers.polyaxon import PIPELINES, contexts
from hpcdist.importers.polyaxon_v1.init import read_init
from hpcdist.importers.polyaxon_v1.mpi import read_mpi
from hpcdist.importers.polyaxon_v1.roles import Replica, check_same, one_less, put_alone, put_count
from hpcdist.importers.polyaxon_v1.text import Texts, only_in_job
from hpcdist.importers.reading import Reading

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
