"""The replicas of a Kubeflow job, and their conversion to one native experiment.

If kinds have different commands, one command selects by ``$HPCDIST_ROLE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import Key, Path, did_you_mean
from hpcdist.base.words import in_double_quotes, quote
from hpcdist.experiment.program import by_role
from hpcdist.importers.container import in_folder
from hpcdist.importers.job import ForeignJob, Sourced, take_image
from hpcdist.importers.kubeflow.pod import Pod, place_of_variable, pod, restart
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
from hpcdist.importers.reading import Reading
from hpcdist.layers.frameworks.horovod import KNOBS

_OF_PODS: Final = re.compile(
    r"(?:NCCL|GLOO|TP|BYTEPS|DMLC)_(?:SOCKET_IFNAME|INTERFACE)|OMPI_MCA_btl_tcp_if_include|UCX_NET_DEVICES"
)
"""Variables that name an interface of the network of pods, such as eth0."""
_OF_THE_OPERATOR: Final = re.compile(
    r"OMPI_MCA_(?:plm_rsh_\w+|orte_default_hostfile|orte_keep_fqdn_hostnames|orte_set_default_slots)"
    r"|I_MPI_(?:HYDRA_(?:HOST_FILE|BOOTSTRAP\w*)|PERHOST)|HYDRA_(?:HOST_FILE|LAUNCHER\w*)"
)
"""Variables that configure how mpirun reaches the pods (mpi-operator, ``mpi_job_controller.go``)."""
HOSTFILE: Final = "/etc/mpi/hostfile"
"""Where the mpi-operator writes the hosts of the job."""
_ROLES: Final = "launcher|worker|master|chief|ps|evaluator|scheduler|server"


class PodGroup(NamedTuple):
    """One kind of replica: ``number`` of them run ``pod``; ``path`` is its section of the file."""

    path: Path
    number: int
    pod: Pod


class Part(NamedTuple):
    """What the replicas of one native role run; ``before`` are shell lines that come first.

    ``command``: the command, or the arguments if the image's entrypoint is the program.
    """

    role: str
    pod: Pod
    command: str
    before: tuple[str, ...] = ()


def roles(
    read: Reading, path: Path, names: Mapping[str, str], main: str, preset: frozenset[str] = frozenset()
) -> dict[str, PodGroup]:
    """Take the kinds of replicas: keys of a section, or items of a list (v1alpha1)."""
    found: dict[str, PodGroup] = {}
    for where, kind in _kinds(read, path):
        name = names.get(kind.lower())
        if name is None or name in found:
            why, hint = f"replica type {kind!r} is given twice", "keep one"
            if name is None:
                why = f"unknown replica type {kind!r}"
                hint = did_you_mean(kind.lower(), names)
            read.refuse(*where, why=why, hint=hint)
        elif role := _role(read, where, main, preset):
            found[name] = role
    return found


def _kinds(read: Reading, path: Path) -> list[tuple[Path, str]]:
    """Return the path of each kind of replica, and its name."""
    kinds: list[tuple[Path, str]] = [((*path, key), key) for key in read.keys(*path)]
    for index, _ in read.items(*path):
        where = (*path, index)
        types = [key for key in read.keys(*where) if re.fullmatch(r"(?:tf|mx)?_?replica_?type", key.lower())]
        for key in ("tfPort", "tf_port", "PsRootPort", "masterPort", "IsDefaultPS"):
            read.ignore(*where, key, why="every task gets its port and its servers from the job")
        kinds.append((where, str(read.word(*where, types[0])) if types else "MASTER"))
    return kinds


def _role(read: Reading, path: Path, main: str, preset: frozenset[str]) -> PodGroup | None:
    if not isinstance(read.peek(*path), Mapping):
        read.refuse(*path, why="expected keys and values", hint="write `replicas: 1` and a `template`")
        return None
    count = read.whole(*path, "replicas")
    read.ignore(*path, "imagePullPolicy", why="the site's container runtime gets images")
    restart(read, *path)
    found = pod(read, *path, "template", main=main, preset=preset)
    return PodGroup(path, 1 if count is None else count, found) if found else None


def images_of(read: Reading, members: Iterable[Pod]) -> list[Sourced]:
    """Return the images of pods."""
    return [
        Sourced(literal(read, member.image, member.path), (*member.path, "image"))
        for member in members
        if member.image
    ]


def put_program(read: Reading, job: ForeignJob, parts: Sequence[Part]) -> None:
    """Take the command of all replicas, and their variables."""
    if any(part.pod.command is None for part in parts):
        _put_entrypoint(read, job, parts)
        return
    for where, command in {part.pod.command_path: part.command for part in parts}.items():
        refuse_pod_names(read, command, where)
    shared = {
        name: value
        for name, value in parts[0].pod.env.items()
        if all(part.pod.env.get(name) == value for part in parts)
    }
    texts = {part.role: _text(read, part, shared) for part in parts}
    giver = next((part.pod for part in parts if read.peek(*part.pod.path, "env")), parts[0].pod)
    first = put_variables(read, job, shared, *giver.path, "env")
    command = by_role(texts) if len(set(texts.values())) > 1 else next(iter(texts.values()))
    put_command(read, job, command, parts[0].pod.command_path, first)


def _put_entrypoint(read: Reading, job: ForeignJob, parts: Sequence[Part]) -> None:
    """Put the image's entrypoint as the program, with the arguments of each role."""
    first = parts[0].pod
    for part in parts:
        refuse_pod_names(read, part.command, part.pod.command_path)
        if (part.pod.folder, part.pod.env) != (first.folder, first.env):
            why = "all replicas start the image's entrypoint with the same variables in the same directory"
            read.refuse(*part.pod.path, why=why, hint="write the program of each as its `command`")
    lines = [*put_variables(read, job, first.env, *first.path, "env"), *parts[0].before]
    if lines:
        why = f"only a command can do this: {lines[0]}"
        read.refuse(*first.path, Key("image"), why=why, hint="write the image's program as `command`")
    job.set("run.entrypoint", "image", *first.path, "image")
    texts = {part.role: literal(read, part.command, part.pod.command_path) for part in parts}
    if len(set(texts.values())) > 1:
        job.set("run.args", texts, *first.command_path)
    elif first.args:
        job.set("run.args", texts[parts[0].role], *first.command_path)
    if first.folder:
        job.set("run.workdir", literal(read, first.folder, first.path), *first.path, "workingDir")


def put_command(
    read: Reading, job: ForeignJob, command: str, source: Path, first: Sequence[str] = ()
) -> None:
    """Take the command, with its source path, after the lines ``first``."""
    job.command = Sourced(literal(read, "\n".join([*first, command]), source), source)


def _text(read: Reading, part: Part, shared: Mapping[str, str]) -> str:
    own = {name: value for name, value in part.pod.env.items() if name not in shared}
    exports = [_export(read, name, value, (*part.pod.path, "env")) for name, value in own.items()]
    return in_folder(part.pod.folder, "\n".join([*exports, *part.before, part.command]))


def put_variables(
    read: Reading, job: ForeignJob, variables: Mapping[str, str], *path: str | int
) -> list[str]:
    """Take the variables, except those for pods; return lines that set variables for the program only.

    With such a PATH the site's launcher might be missing; the hostfile is known only in the job.
    """
    lines = []
    for name, value in variables.items():
        if why := _pod_only_reason(name, value):
            read.warn(*path, why=f"{name}={value} has no effect: {why}")
        elif name == "PATH" or _expanded_in_the_job(name).search(value):
            lines.append(_export(read, name, value, path))
        else:
            refuse_pod_names(read, value, place_of_variable(read, path, name))
            job.env[name] = Sourced(literal(read, value, path), path)
    return lines


def _pod_only_reason(name: str, value: str) -> str:
    if _OF_PODS.fullmatch(name) and re.match(r"=?eth\d", value):
        return "it names an interface of pods, and the site file names the site's"
    return "the batch system starts the processes" if _OF_THE_OPERATOR.fullmatch(name) else ""


def _expanded_in_the_job(name: str) -> re.Pattern[str]:
    """Return the pattern of what only the job knows: the variable itself (``$PATH:/opt/bin``), and ours."""
    return re.compile(rf"(\$\{{{name}\}}|\${name}(?!\w))|\$(HPCDIST_[A-Z]+)|{HOSTFILE}")


def _export(read: Reading, name: str, value: str, path: Path) -> str:
    where = place_of_variable(read, path, name)
    refuse_pod_names(read, value, where)
    text, end = "", 0
    for match in _expanded_in_the_job(name).finditer(value):
        if match[1]:
            why = f"{name} in it is expanded in the job; Kubernetes would pass {value!r} on unchanged"
            read.warn(*where, why=why)
        expanded = name if match[1] else match[2] or "HPCDIST_HOSTFILE"
        text += f"{in_double_quotes(value[end : match.start()])}${{{expanded}}}"
        end = match.end()
    if not text:
        return f"export {name}={quote(value)}"
    return f'export {name}="{text}{in_double_quotes(value[end:])}"'


def refuse_pod_names(read: Reading, text: str, path: Path) -> None:
    """Refuse a text that names a pod of the job, which no node has."""
    name = str(read.peek("metadata", "name") or read.peek("metadata", "generateName") or "").rstrip("-")
    number = r"(?:-\d[-.\w]*|-\w{5}\b|\.[-.\w]+)"
    one = rf"(?:(?<=//)|(?<![\w/.-])){re.escape(name)}-(?:{_ROLES}){number}"
    if name and (match := re.search(one, text)):
        hint = "the first node is `$HPCDIST_HEAD_ADDRESS` in the command, and all are in `$HPCDIST_HOSTFILE`"
        read.refuse(*path, why=f"{match[0]} is the name of a pod, and a batch job has none", hint=hint)


def literal(read: Reading, text: str, path: Path) -> str:
    """Return a text with its braces escaped for the native form."""
    if "{{" not in text and "{%" not in text:
        return text
    if "endraw" in text:
        why = "a text with both {{ and endraw cannot be converted"
        read.refuse(*path, why=why, hint="write it in a file")
        return ""
    return f"{{% raw %}}{text}{{% endraw %}}"


def refuse_missing_command(read: Reading, role: PodGroup) -> None:
    """Refuse a container without a command."""
    hint = "write it as `command: [python, ...]`"
    where = Key("image") if role.pod.image else Key("name")
    if read.peek(*role.pod.path, "args"):
        where = Key("args")
    why = "the program is in the image, and this file does not name it"
    read.refuse(*role.pod.path, where, why=why, hint=hint)


# --- What jobs of Kubeflow's training operator have in common: kinds of replicas and their commands
#
# The names of the earlier operators, one for each kind, are accepted too.

_ORDER: Final = ("master", "worker", "ps", "evaluator")
_ADVICE: Final = (
    "write an MPIJob with `slotsPerWorker`, whose Launcher runs {program} for all of them; or "
    "`framework: {framework}`, and the program alone"
)


def replicas_of(
    read: Reading, specs: Sequence[str], names: Mapping[str, str], main: str, preset: frozenset[str]
) -> dict[str, PodGroup]:
    """Return the kinds of replicas with a number above 0; ``specs`` are the keys that may hold them."""
    keys = [key for key in specs if read.peek("spec", key) is not None]
    if not keys:
        hint = f"write `{specs[0]}: {{{next(iter(names)).title()}: ...}}`"
        read.refuse("spec", why="the job has no replicas", hint=hint)
        return {}
    found = roles(read, ("spec", keys[0]), names, main, preset)
    present = {name: role for name, role in found.items() if role.number}
    if found and not present:
        read.refuse("spec", keys[0], why="all replica counts are 0", hint="write `replicas: 1` or more")
    return present


def only_one(read: Reading, role: PodGroup | None, name: str) -> None:
    """Refuse more than one replica of a kind."""
    if role and role.number > 1:
        read.refuse(*role.path, "replicas", why=f"there can be one {name}, not {role.number}", hint="write 1")


def worker_first(read: Reading, found: dict[str, PodGroup], what: str) -> dict[str, PodGroup]:
    """Make the first worker the master; unchanged, with an error, if that is impossible.

    ``what``: the change for the program, "" for none.
    """
    worker = found.get("worker")
    if worker is None:
        read.refuse("spec", why="there is neither a chief nor a worker", hint="write one of them")
        return found
    if what and (len(found) > 1 or worker.number > 1):
        read.warn(*worker.path, why=f"the first worker is the master: {what}")
    others = {name: role for name, role in found.items() if name != "worker"}
    return with_master(worker) | others


def with_master(worker: PodGroup) -> dict[str, PodGroup]:
    """Return the first worker as the master, and the rest."""
    rest = {"worker": worker._replace(number=worker.number - 1)} if worker.number > 1 else {}
    return {"master": worker._replace(number=1), **rest}


def parts_of(read: Reading, found: Mapping[str, PodGroup]) -> list[Part]:
    """Return the program of each native role; empty, with an error, if some lack one or are not run."""
    silent = {role.path: role for role in found.values() if role.pod.command is None}
    if any(role.pod.command is not None or not role.pod.image for role in found.values()):
        for role in silent.values():
            refuse_missing_command(read, role)
        if silent:
            return []
    pods = {name: found[name].pod for name in _ORDER if name in found}
    parts = [Part(name, pod, pod.args if pod.command is None else pod.command) for name, pod in pods.items()]
    total = sum(role.number for role in found.values())
    commands = {part.pod.command_path: part.command for part in parts}
    launches = [
        refuse_launch_per_replica(read, text, total, path, advice=_ADVICE) for path, text in commands.items()
    ]
    return [] if any(launches) else parts


def put_replicas(read: Reading, job: ForeignJob, found: Mapping[str, PodGroup], parts: list[Part]) -> None:
    """Take the replicas of a job with a master."""
    for name, role in found.items():
        source = role.path if name == "evaluator" else (*role.path, "replicas")
        job.roles[name] = role.pod.replicas(role.number, *source)
    pods = {role.path: role.pod for role in found.values()}
    take_image(job, read, images_of(read, pods.values()))
    if parts:
        put_program(read, job, parts)


# --- The options of horovodrun in an MPIJob, as the settings of Horovod

_SWITCHES: Final = {
    "log_without_timestamp": ("log_with_timestamp", False),
    "log_hide_timestamp": ("log_with_timestamp", False),
    "no_log_hide_timestamp": ("log_with_timestamp", True),
}
"""Switches of horovodrun whose names differ from the setting that they turn on, or off with ``no``."""


def put_options(read: Reading, job: ForeignJob, line: Line, where: Path, tasks: int) -> None:
    """Put the settings of Horovod from horovodrun's options, in a job with this number of tasks."""
    kinds = {knob.key: knob.kind for knob in KNOBS}
    for name, value in line.knobs.items():
        key = name.replace("-", "_").replace("_num_proc", "_np")
        if key in ("gloo", "mpi"):
            job.set("horovod.controller", key, *where)
        elif value is None:
            plain = (key.removeprefix("no_"), not key.startswith("no_"))
            setting, is_on = _SWITCHES.get(key, plain)
            job.set(f"horovod.{setting}", is_on, *where)
        elif key in ("min_np", "max_np", "reset_limit"):
            number = _number(value, int)
            if key == "max_np" and isinstance(number, int) and number > tasks:
                why = f"{name} {number} has no effect: the job has {tasks} processes, and gets no more"
                read.warn(*where, why=why)
                number = tasks
            job.set(f"horovod.elastic.{key}", number, *where)
        else:
            number_of = {"integer": int, "number": float}.get(kinds[key], str)
            job.set(f"horovod.{key}", _number(value, number_of), *where)


def _number(value: str, number_of: type[int | float | str]) -> int | float | str:
    """Return the number, or the text for the model to refuse."""
    try:
        return number_of(value)
    except ValueError:
        return value


# --- MPIJob of Kubeflow's mpi-operator: v1alpha1, v1alpha2, v1 and v2beta1
#
# The workers are the replicas, and the Launcher's mpirun becomes hpcdist's own launch if all of it
# can be converted; else it runs once, unchanged, over the job's hosts.

_SPECS: Final[Path] = ("spec", "mpiReplicaSpecs")
_HOSTFILE: Final = re.compile(rf"""(['"]?){HOSTFILE}\1""")
_IGNORED: Final = {
    **dict.fromkeys(("mpiImplementation", "mpiDistribution"), "the site's launcher brings its own MPI"),
    "sshAuthMountPath": "the batch system starts the tasks on all nodes",
    **dict.fromkeys(
        ("launcherCreationPolicy", "launcherOnMaster"), "all nodes are allocated before anything starts"
    ),
}  # fmt: skip
_KNOBS: Final = frozenset(knob.key.replace("_", "-") for knob in KNOBS)
_OPTIONS: Final = _KNOBS | {"np", "min-np", "max-np", "num-proc", "min-num-proc", "max-num-proc", "hostfile"}
_DEFAULT_HOSTFILE: Final = 'export OMPI_MCA_orte_default_hostfile="$HPCDIST_HOSTFILE"'
"""What the operator sets for Open MPI, so that an mpirun without hosts finds them."""


class WorkerGroup(NamedTuple):
    """The replicas that run the ranks, with ``slots`` each; ``source`` is the key of their number."""

    number: int
    slots: int
    pod: Pod
    first: Pod
    source: Path


def mpijob(read: Reading, job: ForeignJob) -> None:
    """Read a whole MPIJob."""
    read.ignore_all(_IGNORED, "spec")
    main = read.word("spec", "mainContainer") or ""
    old = read.peek(*_SPECS) is None and read.peek("spec", "template") is not None
    group, launcher = _of_template(read, main) if old else _of_roles(read, main)
    if launcher is None or group is None:
        return
    if launcher.pod.command is None:
        refuse_missing_command(read, launcher)
    else:
        launched_ranks(read, job, group, launcher.pod)


def launched_ranks(read: Reading, job: ForeignJob, group: WorkerGroup, launcher: Pod) -> None:
    """Put ranks that the command of ``launcher`` starts."""
    try:
        line = parse_launch_line(launcher.command or "", group.pod.env | launcher.env)
        why = ""
    except UnsupportedLaunch as unclear:
        line, why = None, str(unclear)
    if line is not None and line.program != "torchrun":
        _native_launch(read, job, group, launcher, line)
    else:
        _unchanged_launch(read, job, group, launcher, why)
    take_image(job, read, images_of(read, [group.pod]))


def ranks(read: Reading, job: ForeignJob, group: WorkerGroup) -> None:
    """Put ranks that each run the command of its pod."""
    job.set("framework", "mpi", *group.pod.command_path)
    _put_group(read, job, group, group.slots)
    take_image(job, read, images_of(read, [group.pod]))
    put_program(read, job, [Part("master", group.pod, group.pod.command or "")])


def _of_roles(read: Reading, main: str) -> tuple[WorkerGroup | None, PodGroup | None]:
    found = roles(read, _SPECS, {"launcher": "launcher", "worker": "worker"}, main)
    launcher, worker = found.get("launcher"), found.get("worker")
    slots = read.whole("spec", "slotsPerWorker") or 1
    launcher_is_worker = read.word("spec", "runLauncherAsWorker") == "true"
    if launcher is None:
        if not read.remarks or "worker" in found:
            why = "Launcher is missing, so the file does not say what to run"
            hint = "write `Launcher: {template: ...}` with the mpirun"
            read.refuse("spec", "mpiReplicaSpecs", why=why, hint=hint)
        return None, None
    if launcher.number != 1:
        why = f"a job has one Launcher, not {launcher.number}"
        read.refuse(*launcher.path, "replicas", why=why, hint="write 1, or nothing")
    if worker is None or not worker.number:
        return WorkerGroup(1, slots, launcher.pod, launcher.pod, launcher.path), launcher
    _warn_of_pod_settings(read, launcher, worker, launcher_is_worker=launcher_is_worker)
    first = launcher.pod if launcher_is_worker else worker.pod
    return WorkerGroup(
        worker.number + launcher_is_worker, slots, worker.pod, first, (*worker.path, "replicas")
    ), launcher


def _warn_of_pod_settings(
    read: Reading, launcher: PodGroup, worker: PodGroup, *, launcher_is_worker: bool
) -> None:
    """Warn about settings that apply to only one of the two pods."""
    for key in ("command", "args"):
        if read.peek(*worker.pod.path, key) not in (None, "", [], [""]):
            why = f"{key!r} of a worker has no effect: the batch system starts the tasks on its nodes"
            read.warn(*worker.pod.path, key, why=why)
    if not launcher_is_worker and launcher.pod.resources:
        why = "what the Launcher needs has no effect: it is started on the first worker's node"
        read.warn(*launcher.pod.path, "resources", why=why)
    if not launcher_is_worker and launcher.pod.nodes:
        why = "where the Launcher runs has no effect: it is started on the first worker's node"
        read.warn(*launcher.pod.path[:-2], "nodeSelector", why=why)
    if launcher.pod.image and worker.pod.image and launcher.pod.image != worker.pod.image:
        why = f"the Launcher's image has no effect: the ranks run in the workers', {worker.pod.image}"
        read.warn(*launcher.pod.path, "image", why=why)
    for name, value in launcher.pod.env.items():
        if worker.pod.env.get(name, value) != value:
            why = f"{name} is {value!r} here and {worker.pod.env[name]!r} for the workers: this one is taken"
            read.warn(*launcher.pod.path, "env", why=why)


def _of_template(read: Reading, main: str) -> tuple[WorkerGroup | None, PodGroup | None]:
    """Read v1alpha1, which has one pod template, and counts GPUs, other units, or replicas."""
    member = pod(read, "spec", "template", main=main)
    slots = read.whole("spec", "slotsPerWorker")
    kind = read.word("spec", "processingResourceType") or "gpu"
    counted = [key for key in ("gpus", "processingUnits", "replicas") if read.peek("spec", key) is not None]
    per = read.whole("spec", "gpusPerNode") or read.whole("spec", "processingUnitsPerNode")
    if member is None:
        return None, None
    if len(counted) != 1:
        hint = "write one of `gpus`, `processingUnits`, `replicas`"
        read.refuse("spec", why=f"the size is given {len(counted)} times", hint=hint)
        return None, None
    for key in counted[1:]:
        read.get("spec", key)
    source: Path = ("spec", counted[0])
    count = read.whole(*source)
    if count is None:
        return None, None
    if counted[0] != "replicas":
        if per is None and (member.resources or slots):
            hint = "write `gpusPerNode`, or `replicas` with the GPUs of each in its `resources`"
            read.refuse(*source, why="the file does not say how many of them a worker has", hint=hint)
            return None, None
        per = min(per or 1, count) or 1
        if count % per:
            read.refuse(*source, why=f"{count} is not a multiple of {per}, what a node has", hint="write one")
            return None, None
        unit = "cpu" if kind == "cpu" else "gpu"
        member = member._replace(resources=member.resources | {unit: {"limits": per}})
        count, slots = count // per, slots or per
    role = PodGroup(("spec",), count, member)
    return WorkerGroup(max(count, 1), slots or member.gpus or 1, member, member, source), role


def _native_launch(read: Reading, job: ForeignJob, group: WorkerGroup, launcher: Pod, line: Line) -> None:
    """Take hpcdist's own launch, equivalent to the line."""
    where, env = launcher.command_path, group.pod.env | launcher.env
    room = RankCount(group.number, group.slots)
    found = ranks_of(read, line, room, where, "`replicas` or `slotsPerWorker`")
    if found.each != group.slots and read.peek("spec", "slotsPerWorker") is not None:
        why = f"slotsPerWorker has no effect: {line.program} starts {found.each} on each of the workers"
        read.warn("spec", "slotsPerWorker", why=why)
    _check_dashes(read, line, where)
    refuse_pod_names(read, line.command, where)
    report_line(read, line, env, where)
    job.set("framework", "horovod" if line.program == "horovodrun" else "mpi", *where)
    put_options(read, job, line, where, found.replicas * found.each)
    _put_group(read, job, group._replace(number=found.replicas), found.each)
    source = "env" if launcher.env else "command"
    first = put_variables(read, job, env | line.variables, *launcher.path, source)
    command = _with_hosts(read, line.command, where)
    folder = line.folder or launcher.folder or group.pod.folder
    put_command(read, job, in_folder(folder, command), where, first)


def _check_dashes(read: Reading, line: Line, where: Path) -> None:
    """Refuse an option without dashes, which would be read as the program."""
    first = line.command.partition(" ")[0]
    if line.program == "horovodrun" and first in _OPTIONS:
        why = f"{first} has no dashes, so horovodrun would start it as the program"
        read.refuse(*where, why=why, hint=f"write --{first}")


def _put_group(read: Reading, job: ForeignJob, group: WorkerGroup, each: int) -> None:
    """Take the replicas: a master and the other workers."""
    job.roles["master"] = group.first.replicas()
    if group.number > 1:
        job.roles["worker"] = group.pod.replicas(group.number - 1, *group.source)
    _put_slots(read, job, group, each)


def _put_slots(read: Reading, job: ForeignJob, group: WorkerGroup, each: int) -> None:
    slots = ("spec", "slotsPerWorker")
    if each != max(group.pod.gpus, 1):
        job.slots = Sourced(each, slots if read.peek(*slots) else group.source)


def _unchanged_launch(read: Reading, job: ForeignJob, group: WorkerGroup, launcher: Pod, why: str) -> None:
    """Take the Launcher's command unchanged: it runs once, over the job's hosts."""
    where = launcher.command_path
    refuse_pod_names(read, launcher.command or "", where)
    command = _with_hosts(read, launcher.command or "", where)
    deepspeed = re.match(r"(?:\S*/)?deepspeed\b", command)
    if deepspeed and "--hostfile" not in command:
        command = f'{deepspeed[0]} --hostfile="$HPCDIST_HOSTFILE"{command[deepspeed.end() :]}'
    put_unchanged(read, job, why, group.pod.replicas(group.number, *group.source), where)
    job.set("framework", "deepspeed" if deepspeed else "mpi", *where)
    if group.number == 1 and group.pod is launcher:
        del job.settings["backend"]
        job.roles = {"master": group.first.replicas()}
    _put_slots(read, job, group, group.slots)
    env = group.pod.env | launcher.env
    first = put_variables(read, job, env, *launcher.path, "env" if launcher.env else "command")
    text = in_folder(launcher.folder or group.pod.folder, command)
    put_command(read, job, text, where, first if deepspeed else [_DEFAULT_HOSTFILE, *first])


def _with_hosts(read: Reading, command: str, where: Path) -> str:
    """Return the command with the job's own list of hosts in place of the operator's."""
    if "/etc/mpi/discover_hosts.sh" in command:
        hint = "read the hosts from `$HPCDIST_HOSTFILE`"
        read.refuse(*where, why="there is no /etc/mpi/discover_hosts.sh", hint=hint)
    return _HOSTFILE.sub('"$HPCDIST_HOSTFILE"', command)
