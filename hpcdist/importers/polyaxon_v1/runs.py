"""The runs of Polyaxon 1 and 2: roles become replicas, a container becomes a command and amounts."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hpcdist.base.errors import Path, did_you_mean
from hpcdist.base.words import quote
from hpcdist.importers import container
from hpcdist.importers.container import escape_templates
from hpcdist.importers.job import ForeignJob, Role, Sourced, keep_nodes, take_image
from hpcdist.importers.launch_lines import (
    Line,
    RankCount,
    UnsupportedLaunch,
    parse_launch_line,
    put_unchanged,
    ranks_of,
    refuse_launch_per_replica,
    report_line,
)
from hpcdist.importers.polyaxon import PIPELINES, contexts
from hpcdist.importers.polyaxon.contexts import ARTIFACTS
from hpcdist.importers.polyaxon_v1.text import TemplateMask, Texts, only_in_job
from hpcdist.importers.reading import Reading

# --- Init steps of Polyaxon 1 and 2 (``V1Init``): files are written before the command, others reported

_COPY: Final = "copy it to the site's own file system before, and write its path in the command"
_FIRST: Final = "do it before the job is submitted, or in front of the command"
_HINTS: Final = {
    **dict.fromkeys(("artifacts", "paths", "modelRef", "artifactRef", "lineageRef", "tensorboard"), _COPY),
    "dockerfile": "hpcdist builds no images: build it beforehand",
    "container": "run its command before the job is submitted, or in front of the command",
    "file": "write it next to the code",
}
_INIT_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_CODE: Final = "code is not fetched: the job runs the code in the submit directory"
_FILE_KEYS: Final = frozenset(("filename", "content", "chmod", "kind"))
_MODE: Final = re.compile(r"[0-7]{3,4}|[ugoa]*[-+=][rwxX]+")


def steps_of(read: Reading, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the init steps of a run and of its roles, each with its path."""
    for place in (path, *((*path, name) for name in read.keys(*path))):
        for index, step in read.items(*place, "init"):
            if isinstance(step, Mapping):
                yield (*place, "init", index), step


def repository(read: Reading, path: Path) -> str | None:
    """Return the name of the code that init steps fetch, empty if it is not exactly one.

    None if no step fetches code, and Polyaxon's folder of code has only files from this file.
    """
    steps = [step for _, step in steps_of(read, path)]
    urls = {str(step["git"].get("url", "")) for step in steps if isinstance(step.get("git"), Mapping)}
    if not urls and any(_is_file(step) for step in steps) and read.peek(*path, "kind") != "mpijob":
        return None
    return re.sub(r"^.*/|\.git$", "", urls.pop().rstrip("/")) if len(urls) == 1 else ""


def read_init(read: Reading, texts: Texts, path: Path) -> str:
    """Take the init steps of a role; return the lines that write its files."""
    lines = []
    for index, step in read.items(*path, "init"):
        where = (*path, "init", index)
        if isinstance(step, Mapping) and _is_file(step) and texts.repository is None:
            lines += _file(read, texts, (*where, "file"))
        else:
            _report(read, texts, step, where)
    first = [f"{ARTIFACTS}=$(mktemp -d) || exit"] if lines else []
    return "".join(f"{line}\n" for line in (*first, *lines))


def _is_file(step: Mapping[str, Any]) -> bool:
    """Return whether a step writes a file into Polyaxon's folder of code."""
    file = step.get("file")
    keys = {key for key, value in step.items() if value not in (None, "", [], {})}
    if not isinstance(file, Mapping) or keys != {"file"} or not file.keys() <= _FILE_KEYS:
        return False
    return file.get("kind") in (None, "file") and isinstance(file.get("content"), (str, int, float))


def _file(read: Reading, texts: Texts, path: Path) -> list[str]:
    content = texts.command([(read.text(*path, "content") or "").rstrip("\n")], (), *path, "content")
    name = posixpath.normpath(read.text(*path, "filename") or "file")
    mode = read.text(*path, "chmod")
    read.get(*path, "kind")
    if name.startswith(("/", "..")) or "{{" in name:
        why = f"{name!r} is not in the folder of code"
        read.refuse(*path, "filename", why=why, hint="write its name only")
    if mode and not _MODE.fullmatch(mode):
        read.refuse(*path, "chmod", why=f"{mode!r} is not a mode", hint="write +x or 755")
    file, folder = f'"${ARTIFACTS}"/{quote(name)}', posixpath.dirname(name)
    return [
        *([f'mkdir -p "${ARTIFACTS}"/{quote(folder)}'] if folder else []),
        f"printf '%s\\n' {content} > {file}",
        *([f"chmod {mode} {file}"] if mode else []),
    ]


def _report(read: Reading, texts: Texts, step: object, path: Path) -> None:
    """Report a step that hpcdist does not run."""
    names = list(step) if isinstance(step, Mapping) else []
    if names and all(name in ("git", "connection", "path") for name in names):
        if "git" in names:
            _code(read, texts, (*path, "git"))
        read.ignore(*path, "connection", why=_INIT_MOUNTS)
        read.get(*path, "path")
        return
    hint = next((_HINTS[name] for name in names if name in _HINTS), _FIRST)
    read.refuse(*path, why=f"init steps are not run ({', '.join(names) or 'it'})", hint=hint)


def _code(read: Reading, texts: Texts, path: Path) -> None:
    """Take the repository of the code as ``build.git``; report it where there are several."""
    url, revision = (read.text(*path, key) for key in ("url", "revision"))
    if url and texts.repository:
        read.put("build.git", escape_templates(url), *path, "url")
        if revision:
            read.put("build.commit", escape_templates(revision), *path, "revision")
        read.ignore(*path, "flags", why="a clone has no options")
        return
    read.get(*path)
    what = f"revision {revision}" * bool(revision) + " of " * bool(url and revision) + (url or "")
    hint = f"check out {what} there" if what else ""
    read.warn(*path, why=f"git has no effect on a batch machine: {_CODE}", hint=hint)


# --- Roles of a run, and their conversion to replicas

_ARTIFACTS: Final = re.compile(rf"\$\{{?{ARTIFACTS}\b")
_BY_ROLE: Final = "write them for all, or set them in the command by $HPCDIST_ROLE"


class RoleCount(NamedTuple):
    """One role and its number of replicas.

    ``command`` is None for the image's entrypoint, which gets ``args``, shell text like the command.
    ``files`` and ``exports`` are lines before its command, which runs in ``folder``, a shell word.
    """

    path: Path
    count: Any
    command: str | None
    folder: str | None
    amounts: dict[str, dict[str, object]]
    variables: dict[str, str]
    image: str | None
    args: str = ""
    files: str = ""
    exports: str = ""
    nodes: Mapping[str, str] = MappingProxyType({})

    def replicas(self, count: object = None) -> Role:
        """Return ``count`` native replicas of it."""
        amounts, nodes = (*self.path, "container", "resources"), (*self.path, "environment", "nodeSelector")
        return Role(count, (*self.path, "replicas"), self.amounts, amounts, self.nodes, nodes)

    def images(self) -> list[Sourced]:
        """Return its image, if it has one."""
        return [Sourced(self.image, (*self.path, "container", "image"))] if self.image else []


def _put_shared(read: Reading, job: ForeignJob, replica: RoleCount) -> None:
    """Take what all replicas have in common."""
    where = (*replica.path, "container")
    if replica.command is None:
        _put_entrypoint(read, job, replica)
    elif replica.command:
        text = replica.files + replica.exports + _in_folder(replica.command, replica.folder)
        folder = f"{ARTIFACTS}=$PWD\n" if _ARTIFACTS.search(text) and f"{ARTIFACTS}=" not in text else ""
        job.command = Sourced(folder + text, container.command_path(read, *where))
    job.env |= {name: Sourced(value, (*where, "env")) for name, value in replica.variables.items()}
    take_image(job, read, replica.images())


def _put_entrypoint(read: Reading, job: ForeignJob, replica: RoleCount) -> None:
    where = (*replica.path, "container")
    for lines, key in ((replica.files, (*replica.path, "init")), (replica.exports, (*where, "env"))):
        if lines:
            why = "only a command can do this, and this is the image's own program"
            read.refuse(*key, why=why, hint="write the image's program as `command`")
    job.set("run.entrypoint", "image", *where, "image")
    if replica.args:
        job.set("run.args", replica.args, *where, "args")
    if replica.folder:
        job.set("run.workdir", shlex.split(replica.folder)[0], *where, "workingDir")


def _in_folder(text: str, folder: str | None) -> str:
    if not folder:
        return text
    return f"cd {folder} || exit\n{text}" if "\n" in text else f"cd {folder} && {text}"


def _one_less(read: Reading, count: Any, path: Path) -> object:
    """Return the number of workers without the first, which is the master."""
    if isinstance(count, int) and count >= 1:
        return count - 1
    if isinstance(count, str) and count.startswith("{{") and count.endswith("}}"):
        return f"{{{{ ({count[2:-2].strip(' -')}) - 1 }}}}"
    read.refuse(*path, why=f"{count!r} replicas cannot be started", hint="write a whole number of 1 or more")
    return 0


def _check_same(read: Reading, one: RoleCount, other: RoleCount) -> None:
    """Refuse roles that differ in what all replicas of an experiment share."""
    for what, key, fields, hint in (
        ("command", ("container", "command"), ("command", "args"), "let the program check $HPCDIST_ROLE"),
        ("directory", ("container", "workingDir"), ("folder",), "write the same directory"),
        ("list of files", ("init",), ("files",), "write the same files"),
        ("list of variables", ("container", "env"), ("variables", "exports"), _BY_ROLE),
    ):
        if any(getattr(one, field) != getattr(other, field) for field in fields):
            read.refuse(*other.path, *key, why=f"the {what} differs from that of {one.path[-1]}", hint=hint)


# --- An mpijob of Polyaxon: the launcher's mpirun becomes hpcdist's launch, the workers are the replicas
#
# Polyaxon runs it with Kubeflow's MPI operator: the processes run on the workers, ``slotsPerWorker`` on
# each.

_HOSTFILE: Final = "/etc/mpi/hostfile"
_WAITS: Final = re.compile(r"(?:exec )?(?:sleep \S+|tail -f /dev/null|\S*sshd\b[^;&|]*)")


def _mpijob(read: Reading, job: ForeignJob, path: Path, roles: Sequence[RoleCount]) -> None:
    """Take an mpijob: the worker's amounts, the launcher's command."""
    named = {role.path[-1]: role for role in roles}
    launcher, worker = named.get("launcher"), named.get("worker")
    slots = read.whole(*path, "slotsPerWorker", least=1)
    if worker is None or launcher is None or not launcher.command:
        _refuse_missing(read, path, launcher, worker)
        return
    _check_worker(read, worker, launcher.command)
    _check_launcher(read, launcher, worker)
    job.set("framework", "mpi", *path, "kind")
    source, mask = (*launcher.path, "container", "command"), TemplateMask(launcher.command)
    room = RankCount(worker.count if isinstance(worker.count, int) else 1, slots or 1)
    try:
        line = _line(mask)
    except UnsupportedLaunch as reason:
        command, variables = launcher.command.replace(_HOSTFILE, "$HPCDIST_HOSTFILE"), {}
        put_unchanged(read, job, str(reason), worker.replicas(worker.count), source)
    else:
        command, variables = line.command, line.variables
        report_line(read, line, worker.variables | launcher.variables, source)
        count = worker.count
        if isinstance(count, int) and count > 0:
            room = ranks_of(read, line, room, source, "`replicas` or `slotsPerWorker`")
            count = room.replicas
        rest = _one_less(read, count, (*worker.path, "replicas"))
        job.roles = {"master": worker.replicas(), "worker": worker.replicas(rest)}
    if room.each != max(worker.replicas().gpus, 1):
        job.slots = Sourced(room.each, (*path, "slotsPerWorker") if slots else worker.path)
    image, folder = worker.image or launcher.image, launcher.folder or worker.folder
    variables = worker.variables | launcher.variables | variables
    exports = worker.exports + launcher.exports
    shared = launcher._replace(command=command, variables=variables, image=image, folder=folder)
    _put_shared(read, job, shared._replace(exports=exports))


def _refuse_missing(read: Reading, path: Path, launcher: RoleCount | None, worker: RoleCount | None) -> None:
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


def _check_worker(read: Reading, worker: RoleCount, launch: str) -> None:
    """Refuse a worker's own command, unless it waits for mpirun or repeats the launcher's line."""
    where = (*worker.path, "container", "command")
    if worker.command == launch or _WAITS.fullmatch(worker.command or ""):
        read.warn(*where, why="this has no effect: hpcdist starts the program of the launcher's command")
    elif worker.command:
        hint = "remove it: hpcdist starts the program of the launcher's command"
        read.refuse(*where, why="workers of an mpijob run no command", hint=hint)


def _check_launcher(read: Reading, launcher: RoleCount, worker: RoleCount) -> None:
    """Refuse several launchers, and what differs between launcher and worker, as all processes share it."""
    if launcher.count != 1:
        read.refuse(*launcher.path, "replicas", why="there is one launcher", hint="write 1")
    needs = launcher.replicas()
    for what, found, path in (
        ("resources", needs.resources, needs.resources_source),
        ("nodes", needs.nodes, needs.nodes_source),
    ):
        if found:
            read.warn(*path, why=f"the {what} of the launcher have no effect: it runs on the first node")
    where = (*worker.path, "container")
    for key, one, other in (
        ("image", launcher.image, worker.image),
        ("workingDir", launcher.folder, worker.folder),
        *(("env", launcher.variables.get(name), value) for name, value in worker.variables.items()),
    ):
        if one and other and one != other:
            read.refuse(*where, key, why=f"the launcher has {one}, the worker {other}", hint="write the same")


def _line(mask: TemplateMask) -> Line:
    """Return the launch line of a command, with its templates."""
    line = parse_launch_line(mask.text, {})
    if line is None or line.program != "mpirun":
        raise UnsupportedLaunch("which does not begin with mpirun")
    if line.by_node or line.folder:
        raise UnsupportedLaunch("which places processes round-robin on the nodes, or has its own directory")
    line.variables = {name: mask.restore(value) for name, value in line.variables.items()}
    line.command, line.dropped = mask.restore(line.command), [*map(mask.restore, line.dropped)]
    return line


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


def read_run(read: Reading, job: ForeignJob, texts: Texts, path: Path) -> None:
    """Take the section ``run``."""
    kind = read.get(*path, "kind")
    container.ignore_set_keys(read, _IGNORED, *path)
    if kind == "job":
        alone = _replica(read, texts, path)
        _put_shared(read, job, alone)
        job.roles["master"] = alone.replicas()
    elif kind == "mpijob":
        roles = [_replica(read, texts, (*path, name), of_mpi=True)
                 for name in ("launcher", "worker") if read.peek(*path, name)]  # fmt: skip
        _mpijob(read, job, path, roles)
    elif isinstance(kind, str) and kind in _ROLES:
        _distributed(read, job, texts, path, kind)
    else:
        hint = _OTHERS.get(str(kind)) or did_you_mean(str(kind), ["job", "mpijob", *_ROLES])
        if kind is None and read.peek(*path, "cmd"):
            hint = "write `version: 1`: `run.cmd` is of Polyaxon 0.x"
        why = f"runs of kind {kind!r} are not run" if kind else "there is no kind"
        read.get(*path)
        read.refuse(*path, "kind", why=why, hint=hint)


def _distributed(read: Reading, job: ForeignJob, texts: Texts, path: Path, kind: str) -> None:
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
        _success(read, job, (*path, "successPolicy"))
    if kind == "paddlejob" and _total(roles) != 1:
        read.refuse(
            *path, "kind", why="hpcdist does not configure trainers of PaddlePaddle",
            hint="write a native file with `framework: mpi`, and set PADDLE_* in its command",
        )  # fmt: skip
        return
    if _FRAMEWORKS[kind]:
        job.set("framework", _FRAMEWORKS[kind], *path, "kind")
    if kind == "tfjob":
        _put_chief(job, roles)
    if kind == "mxjob" and "master" not in roles:
        read.refuse(*path, "kind", why="an mxjob without a scheduler", hint="write `scheduler`")
    _put_roles(read, job, roles)


def _put_chief(job: ForeignJob, roles: Mapping[str, RoleCount]) -> None:
    """Put whether TF_CONFIG has a chief and which role ends the job, if these differ from the defaults."""
    if _total(roles) > 1 and ("master" in roles) != bool({"ps", "evaluator"} & roles.keys()):
        job.set("tensorflow.chief", "master" in roles, *next(iter(roles.values())).path)
    if "master" not in roles and "ps" in roles and "tensorflow.ends_with" not in job.settings:
        job.set("tensorflow.ends_with", "master", *roles["worker"].path)  # as the operator, by worker 0


def _total(roles: Mapping[str, RoleCount]) -> int:
    return sum(role.count if isinstance(role.count, int) else 2 for role in roles.values())


def _put_roles(read: Reading, job: ForeignJob, roles: dict[str, RoleCount]) -> None:
    """Take the replicas; without a master, the first worker becomes it."""
    first = roles.get("master") or roles["worker"]
    for role in roles.values():
        _check_same(read, first, role)
    source = container.command_path(read, *first.path, "container")
    refuse_launch_per_replica(read, first.command or "", _total(roles), source, advice=_ADVICE)
    if all(isinstance(role.count, int) for role in roles.values()):
        each = first.variables.get("PET_NPROC_PER_NODE")
        keep_nodes(job, first.command or "", _total(roles), each, *source)
    _put_shared(read, job, first)
    take_image(job, read, [image for role in (first, *roles.values()) for image in role.images()])
    job.roles = {name: role.replicas(role.count) for name, role in roles.items()}
    for name in ("master", "evaluator"):
        if name in roles and roles[name].count != 1:
            place = (*roles[name].path, "replicas")
            read.refuse(*place, why=f"there is one {name}, not {roles[name].count}", hint="write 1")
    if "master" not in roles:
        rest = _one_less(read, first.count, (*first.path, "replicas"))
        job.roles |= {"master": first.replicas(), "worker": first.replicas(rest)}


def _success(read: Reading, job: ForeignJob, path: Path) -> None:
    policy = read.get(*path)
    if policy == "AllWorkers":
        job.set("tensorflow.ends_with", "workers", *path)
    elif policy not in (None, "", "ChiefWorker"):
        read.refuse(*path, why=f"unknown policy {policy!r}", hint="write AllWorkers, or remove it")


def _elastic(read: Reading, path: Path, roles: Mapping[str, RoleCount]) -> None:
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


def _replica(read: Reading, texts: Texts, path: Path, *, of_mpi: bool = False) -> RoleCount:
    """Take a role, or a run that has one only."""
    where = (*path, "container")
    if not isinstance(read.peek(*where), Mapping):
        read.get(*where)
        read.refuse(
            *where, why="there is no container here", hint="write `container: {image: ..., command: [...]}`"
        )
        return RoleCount(path, read.get(*path, "replicas"), "", None, {}, {}, None)
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
    if command:
        command = container.drop_waits(read, command, *container.command_path(read, *where))
    return RoleCount(
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
    """Take the labels of nodes, whose meaning the site gives."""
    labels = {name: read.text(*path, name) for name in read.keys(*path)}
    return {name: texts.template(text, *path, name) for name, text in labels.items() if text}


def _beside_container(read: Reading, path: Path) -> None:
    """Read or report the keys next to the container."""
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
