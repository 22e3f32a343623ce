"""Gradient's experiments as replicas: one node, parameter servers with their workers, and MPI.

Gradient's TF_CONFIG has the first worker twice, as ``master`` and as ``worker`` 0 (by the test of
``get_tf_config`` in gradient-sdk), so there are as many replicas as Gradient starts: the first is the master.
The processes of an mpirun run on the workers, and on the master if their number requires it.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from hpcdist.base.errors import Key, did_you_mean
from hpcdist.base.words import quote
from hpcdist.experiment.launch_options import with_hostfile
from hpcdist.importers.container import escape_templates
from hpcdist.importers.gradient.options import put_command
from hpcdist.importers.job import CloudMachine, ForeignJob, Sourced, on_machine
from hpcdist.importers.launch_lines import (
    Line,
    RankCount,
    UnsupportedLaunch,
    parse_launch_line,
    put_unchanged,
    ranks_of,
    report_line,
)
from hpcdist.importers.reading import Reading

# --- Machine types of Gradient: the GPUs of each and their type, or the CPUs and memory of those without
#
# Paperspace's own types are from its documentation (https://github.com/Paperspace/Docs,
# ``instances/instance-types.md`` and ``more/instance-types/README.md``; the newest of
# https://docs.digitalocean.com/products/paperspace/machines/details/availability), where ``x2``, ``x4`` and
# ``x8`` count GPUs; of C1 to C10 gradient-cli has all names (``MACHINE_TYPES`` of its ``constants.py``).
# Private clusters on AWS name its machines: types with GPUs are from https://github.com/rapidsai/deployment
# (``source/cloud/aws``) and AWS's tables of P2, G3 and G4, the others of
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/compute-optimized-instances.html.

_FREE: Final = {"Free-CPU": "C3", "Free-GPU+": "GPU+", "Free-GPU": "GPU+", "Free-P5000": "P5000"}
"""The types of the free tier (``more/instance-types/free-instances.md`` there)."""
_MANY: Final = re.compile(r"(.+)x([248])")
_ONE_GPU: Final = (
    "M4000", "P4000", "P5000", "P6000", "RTX4000", "RTX5000", "A4000", "A5000", "A6000", "A100", "A100-80G",
    "V100", "V100-32G", "GV100", "K80", "P100", "H100",
)  # fmt: skip
_GPUS: Final = {
    **{kind: (1, kind) for kind in _ONE_GPU},
    "GPU+": (1, "M4000"),
    "p2.xlarge": (1, "K80"), "p2.8xlarge": (8, "K80"), "p2.16xlarge": (16, "K80"),
    "p3.2xlarge": (1, "V100"), "p3.8xlarge": (4, "V100"), "p3.16xlarge": (8, "V100"),
    "p3dn.24xlarge": (8, "V100-32G"), "p4d.24xlarge": (8, "A100"),
    "g3s.xlarge": (1, "M60"), "g3.4xlarge": (1, "M60"), "g3.8xlarge": (2, "M60"), "g3.16xlarge": (4, "M60"),
    "g4dn.xlarge": (1, "T4"), "g4dn.2xlarge": (1, "T4"), "g4dn.4xlarge": (1, "T4"),
    "g4dn.12xlarge": (4, "T4"), "g4dn.metal": (8, "T4"),
}  # fmt: skip
_CPUS: Final = {
    **dict.fromkeys(("C1", "C4", "C6", "C8", "C9", "C10"), (0, 0)),  # no table has their size
    "C2": (1, 1), "C3": (2, 2), "C5": (4, 8), "C7": (12, 30), "G1": (1, 3.75), "G6": (6, 24), "G12": (12, 64),
    "c5.large": (2, 4), "c5.xlarge": (4, 8), "c5.2xlarge": (8, 16), "c5.4xlarge": (16, 32),
    "c5.9xlarge": (36, 72), "c5.12xlarge": (48, 96), "c5.18xlarge": (72, 144), "c5.24xlarge": (96, 192),
}  # fmt: skip
"""CPUs and GiB of memory."""


def machine(name: str) -> CloudMachine | None:
    """Return the machine of that name, None if there is no such type."""
    name = _FREE.get(name, name)
    if name in _CPUS:
        cpus, gib = _CPUS[name]
        return CloudMachine(cpus=cpus, gib=gib)
    many = _MANY.fullmatch(name)
    if many and _GPUS.get(many[1], (0, ""))[0] == 1:
        return CloudMachine(int(many[2]), _GPUS[many[1]][1])
    return CloudMachine(*_GPUS[name]) if name in _GPUS else None


# --- The roles of Gradient's experiments

MOST: Final = 100_000
_MACHINE: Final = re.compile(r"[A-Za-z][\w.+-]*")
_A_MACHINE: Final = "write the machine, such as P4000 or C7"
_WRITE_SIZE: Final = "write `--set environment.resources.cpu.requests=N`, and `gpu` for `cpu` for GPUs"
_VERSION: Final = re.compile(r"(?:.*/)?tensorflow[^:/]*:v?(\d+(?:\.\d+)*)(?![\d.])")
_SDK: Final = (
    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" '
    'TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"'
)
"""What ``get_tf_config`` of gradient-sdk reads: TF_CONFIG in base64, with the letters of URLs."""


def put_single(read: Reading, job: ForeignJob) -> None:
    """Take an experiment of one node."""
    for key in ("experimentType", "experimentTypeId"):
        read.get(key)
    job.roles["master"] = on_machine(read, _machine_of(read, "machineType"), "machineType")
    _image(read, job, "container")
    if command := _command_of(read, "command"):
        put_command(read, job, command, "command")


def put_parameter_servers(read: Reading, job: ForeignJob, given: set[str]) -> None:
    """Take workers and parameter servers of TensorFlow: an experiment of the type GRPC."""
    _ignore_role(read, given, "master", "an experiment of the type GRPC has no such role")
    workers, servers = _count_of(read, "workerCount"), _count_of(read, "parameterServerCount")
    job.set("framework", "tensorflow", "experimentType")
    worker = on_machine(read, _machine_of(read, "workerMachineType"), "workerMachineType")
    key = "parameterServerMachineType"
    server = on_machine(read, _machine_of(read, key), key)
    job.roles = {"master": worker, "worker": worker, "ps": server}
    if workers and servers:
        rest = workers - 1 or None
        job.roles["worker"] = worker._replace(count=rest, source=("workerCount",))
        job.roles["ps"] = server._replace(count=servers, source=("parameterServerCount",))
        job.nodes = Sourced(workers + servers, ("workerCount",))
        which = f"the first of {workers} workers" if workers > 1 else "the one worker"
        why = f"{which} is TF_CONFIG's master, and not worker 0 too as on Gradient"
        second = "worker 0 is the second; " * (workers > 1)
        hint = f"{second}WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same"
        read.warn("workerCount", why=why, hint=hint)
    _image(read, job, "workerContainer", "parameterServerContainer")
    _version(read, job)
    commands = _command_of(read, "workerCommand"), _command_of(read, "parameterServerCommand")
    if commands[0] and commands[1]:
        put_command(read, job, _by_role(commands[0], commands[1]), "workerCommand", before=_SDK)


def _by_role(worker: str, server: str) -> str:
    """Return one command that runs the command of each role."""
    if worker == server:
        return worker
    script = 'case "$HPCDIST_ROLE" in\nps) exec bash -c {} ;;\n*) exec bash -c {} ;;\nesac'
    return script.format(shlex.quote(server), shlex.quote(worker))


def _version(read: Reading, job: ForeignJob) -> None:
    """Take the TensorFlow version from the tag of the image, 1 if it has none, as on Gradient."""
    found = _VERSION.fullmatch(str(read.peek("workerContainer") or "").partition("-")[0])
    job.set("tensorflow.version", found[1] if found else "1", "workerContainer")
    if not found:
        why = "its TensorFlow version is unknown, so TF_CONFIG has the form of version 1, as on Gradient"
        read.warn("workerContainer", why=why, hint="for TensorFlow 2 add `--set tensorflow.version=2`")


def _ignore_role(read: Reading, given: set[str], role: str, why: str) -> None:
    """Ignore the options of a role that the experiment does not have."""
    for last in ("Container", "MachineType", "Command", "Count"):
        if role + last in given:
            read.ignore(role + last, why=why)


def _image(read: Reading, job: ForeignJob, key: str, other: str = "") -> None:
    """Take the image of a role, and check that the other role has the same."""
    image, second = read.word(key), read.word(other) if other else None
    if image:
        job.image = Sourced(escape_templates(image), (key,))
    if not image or not second or image == second:
        return
    if image.replace("-gpu", "") == second.replace("-gpu", ""):
        read.warn(other, why=f"an experiment has one image: {image} is used here too")
    else:
        why = f"an experiment has one image, and {key} is {image}"
        read.refuse(other, why=why, hint="write the same in both")


def _command_of(read: Reading, key: str) -> str | None:
    """Take a command; refuse a missing one."""
    command = read.word(key)
    if command is None or not command.strip():
        if not isinstance(read.peek(key), (dict, list)):
            read.refuse(Key(key), why=f"{key} is missing", hint="write it, or give it by `--set`")
        return None
    return command.strip()


def _count_of(read: Reading, key: str, default: int | None = None) -> int | None:
    """Take the number of replicas of a role; refuse anything else."""
    value = read.get(key)
    if value is None and default is not None:
        return default
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value) else value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST:
        return number
    why = f"{key} is missing" if value is None else f"{read.text(key)!r} is not a number from 1 to {MOST}"
    read.refuse(Key(key), why=why, hint="write the number of replicas")
    return None


def _machine_of(read: Reading, key: str) -> CloudMachine | None:
    """Take a machine type; refuse a misspelt one with the nearest, and warn of a missing or unknown one."""
    name = read.word(key)
    if name is None:
        if not isinstance(read.peek(key), (dict, list)):
            why = f"{key} is missing, so no GPUs, and the site's default of CPUs and memory, are requested"
            read.warn(Key(key), why=why, hint=_A_MACHINE)
        return None
    found = machine(name)
    hint = did_you_mean(name, (*_GPUS, *_CPUS, *_FREE), otherwise="") if found is None else ""
    if found is None and (hint or name.startswith("TPU") or not _MACHINE.fullmatch(name)):
        read.refuse(key, why=f"unknown machine type {name!r}", hint=hint or _A_MACHINE)
    elif found is None:
        why = f"{name!r} is no machine of Paperspace's, and its size is unknown: none is requested"
        read.warn(key, why=why, hint=_WRITE_SIZE)
    elif not any(found):
        read.warn(key, why=f"the size of the machine type {name!r} is unknown", hint=_WRITE_SIZE)
    return found


# --- Experiments of the type MPI

_WAITS: Final = re.compile(
    r"(?:sudo )?sleep \S+|tail -f /dev/null|while true; ?do sleep \S+; ?done|"
    r"(?:exec )?(?:/usr/sbin/)?sshd\b[^;&|]*"
)
_NETWORK: Final = ("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl")
_NO_MASTER: Final = "mpirun runs on the node of the first worker"


def put_mpi(read: Reading, job: ForeignJob, given: set[str]) -> None:
    """Take the nodes of mpirun as replicas, and its program as the command."""
    _ignore_role(read, given, "parameterServer", "an experiment of the type MPI has no such role")
    _check_worker_command(read, given)
    _image(read, job, "workerContainer", "masterContainer")
    image = str(read.peek("workerContainer") or "")
    job.set("framework", "horovod" if "horovod" in image.lower() else "mpi", "experimentType")
    workers, masters = _count_of(read, "workerCount"), _count_of(read, "masterCount", default=1)
    kind = _machine_of(read, "workerMachineType")
    command = _command_of(read, "masterCommand")
    if masters and masters > 1:
        read.refuse("masterCount", why=f"{masters} masters would each start mpirun", hint="write 1")
    if not workers or not command:
        read.get("masterMachineType")
        return
    role = on_machine(read, kind, "workerMachineType")._replace(source=("workerCount",))
    try:
        line = _line(job, command)
    except UnsupportedLaunch as reason:
        read.ignore("masterMachineType", why=_NO_MASTER)
        job.nodes = Sourced(workers, ("workerCount",))
        put_unchanged(read, job, str(reason), role._replace(count=workers), ("masterCommand",))
        put_command(read, job, with_hostfile(command), "masterCommand")
    else:
        _put_line(read, job, line, RankCount(workers, role.gpus or 1), kind)


def _line(job: ForeignJob, command: str) -> Line:
    known = {name: one.value for name, one in job.env.items() if "{" not in one.value}
    line = parse_launch_line(command, known)
    if line is None or line.program != "mpirun":
        raise UnsupportedLaunch("which does not begin with mpirun")
    if line.by_node:
        raise UnsupportedLaunch("which places processes round-robin on the nodes")
    return line


def _put_line(read: Reading, job: ForeignJob, line: Line, room: RankCount, kind: CloudMachine | None) -> None:
    """Take hpcdist's own launch for a parsed mpirun line."""
    role = on_machine(read, kind, "workerMachineType")._replace(source=("workerCount",))
    if line.hosts and line.np is None:
        why = f"mpirun would fill the slots of its hosts ({line.hosts}), and a job has other hosts"
        read.refuse("masterCommand", why=why, hint="write -np with the number of processes")
    found = _ranks(read, line, room, kind)
    if found.replicas <= room.replicas:
        read.ignore("masterMachineType", why=_NO_MASTER)
    job.roles["master"] = role
    if found.replicas > 1:
        job.roles["worker"] = role._replace(count=found.replicas - 1)
        job.nodes = Sourced(found.replicas, ("workerCount",))
    is_own = bool(line.per_node) or found.each != room.each or found.replicas < room.replicas
    if is_own and found.each != role.gpus:
        job.slots = Sourced(found.each, ("masterCommand",))
    report_line(read, line, job.env, ("masterCommand",))
    job.env |= {
        name: Sourced(escape_templates(value), ("masterCommand",)) for name, value in line.variables.items()
    }
    network = [name for name in line.variables if name.startswith(_NETWORK)]
    if network:
        why = f"mpirun selects a network of Gradient's machines with {' and '.join(network)}"
        hint = "remove that from `environment.env_vars`, and the site's own network is used"
        read.warn("masterCommand", why=why, hint=hint)
    folder = f"cd {quote(line.folder)} && " if line.folder else ""
    put_command(read, job, folder + with_hostfile(line.command), "masterCommand")


def _ranks(read: Reading, line: Line, room: RankCount, kind: CloudMachine | None) -> RankCount:
    """Return the nodes that such a launch fills: one more than the workers if the master is included."""
    each = int(line.per_node) if line.per_node and line.per_node.isdecimal() else room.each
    if line.np and line.np == (room.replicas + 1) * each:
        key = "masterMachineType"
        master = _machine_of(read, key) if read.peek(key) is not None else kind
        if master and kind and master.gpus != kind.gpus:
            sizes = f"which has {master.gpus} GPUs, a worker {kind.gpus}"
            why = f"mpirun starts processes on the master too, {sizes}"
            read.refuse(key, why=why, hint="write the workers' machine")
        return RankCount(room.replicas + 1, each)
    if line.np and kind and not kind.gpus and not line.per_node and line.np % room.replicas == 0:
        return RankCount(room.replicas, line.np // room.replicas)
    sizes = f"`workerCount`, or -np {(room.replicas + 1) * each} with the master"
    return ranks_of(read, line, room, ("masterCommand",), sizes)


def _check_worker_command(read: Reading, given: set[str]) -> None:
    command = read.word("workerCommand") if "workerCommand" in given else None
    if command is None:
        return
    if _WAITS.fullmatch(command.strip()):
        read.ignore("workerCommand", why="the nodes of a job need no command that waits for mpirun")
    else:
        why = "it would run on every worker in addition to the processes of mpirun"
        read.refuse("workerCommand", why=why, hint="write `sleep infinity`, and put it into masterCommand")
