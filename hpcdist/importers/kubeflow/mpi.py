"""MPIJob of Kubeflow's mpi-operator: v1alpha1, v1alpha2, v1 and v2beta1.

The workers are the replicas, and the Launcher's mpirun becomes hpcdist's own launch where all of it
can be converted; else it runs once, unchanged, over the job's hosts.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hpcdist.errors import Path
from hpcdist.importers.job import ForeignJob, Sourced, take_image
from hpcdist.importers.kubeflow.pod import Pod, pod
from hpcdist.importers.kubeflow.roles import (
    HOSTFILE,
    Part,
    Role,
    images_of,
    in_folder,
    put_command,
    put_program,
    put_variables,
    refuse_missing_command,
    refuse_pod_names,
    roles,
)
from hpcdist.importers.launch_lines import (
    Line,
    Ranks,
    UnsupportedLaunch,
    parse_launch_line,
    put_unchanged,
    ranks_of,
    report_line,
)
from hpcdist.importers.reading import Reading
from hpcdist.layers.frameworks.horovod import KNOBS

# --- The options of horovodrun in an MPIJob, as the settings of Horovod

_SWITCHES: Final = {
    "log_without_timestamp": ("log_with_timestamp", False),
    "log_hide_timestamp": ("log_with_timestamp", False),
    "no_log_hide_timestamp": ("log_with_timestamp", True),
}
"""Switches of horovodrun that are not named as the setting that they turn on, or off with ``no``."""


def put_options(read: Reading, job: ForeignJob, line: Line, where: Path, tasks: int) -> None:
    """Put what the options of horovodrun set for Horovod, in a job of so many tasks."""
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


# --- MPIJob of Kubeflow's mpi-operator

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
    """Put ranks each of which runs the command of its pod."""
    job.set("framework", "mpi", *group.pod.command_path)
    _put_group(read, job, group, group.slots)
    take_image(job, read, images_of(read, [group.pod]))
    put_program(read, job, [Part("master", group.pod, group.pod.command or "")])


def _of_roles(read: Reading, main: str) -> tuple[WorkerGroup | None, Role | None]:
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


def _warn_of_pod_settings(read: Reading, launcher: Role, worker: Role, *, launcher_is_worker: bool) -> None:
    """Warn of settings that apply to one of the two pods only."""
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


def _of_template(read: Reading, main: str) -> tuple[WorkerGroup | None, Role | None]:
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
    role = Role(("spec",), count, member)
    return WorkerGroup(max(count, 1), slots or member.gpus or 1, member, member, source), role


def _native_launch(read: Reading, job: ForeignJob, group: WorkerGroup, launcher: Pod, line: Line) -> None:
    """Take hpcdist's own launch, equivalent to the line."""
    where, env = launcher.command_path, group.pod.env | launcher.env
    room = Ranks(group.number, group.slots)
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
    """Refuse an option without dashes, which would be taken for the program."""
    first = line.command.partition(" ")[0]
    if line.program == "horovodrun" and first in _OPTIONS:
        hint = f"write --{first}"
        read.refuse(
            *where, why=f"{first} has no dashes, so horovodrun would start it as the program", hint=hint
        )


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
