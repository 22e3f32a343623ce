"""The roles of Gradient's experiments, as replicas: one node, parameter servers and their workers, MPI.

Gradient's TF_CONFIG has the first worker twice, as ``master`` and as ``worker`` 0 (by the test of
``get_tf_config`` in gradient-sdk), so there are as many replicas as Gradient starts: the first is the master.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from hpcdist.errors import Key
from hpcdist.importers.gradient.fields import protected, put_command, put_variable, text_of
from hpcdist.importers.gradient.machines import Machine, machine, nearest
from hpcdist.importers.gradient.mpirun import HOSTFILE, Line, taken_apart, with_hostfile
from hpcdist.importers.reading import Reading

MOST: Final = 100_000
_WORKERS: Final = "environment.replicas.default_worker.resources"
_WAITS: Final = re.compile(
    r"(?:sudo )?sleep \S+|tail -f /dev/null|while true; ?do sleep \S+; ?done|"
    r"(?:exec )?(?:/usr/sbin/)?sshd\b[^;&|]*"
)
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_VERSION: Final = re.compile(r"(?:.*/)?tensorflow[^:/]*:v?(\d+(?:\.\d+)*)(?![\d.])")
_NO_MASTER: Final = "mpirun runs on the node of the first worker"
_SDK: Final = (
    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" '
    'TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"'
)
"""What ``get_tf_config`` of gradient-sdk reads: TF_CONFIG in base64, with the letters of URLs."""
_ROLE: Final = {"worker": "worker", "parameterServer": "parameter server", "master": "master"}


def put_single(read: Reading) -> None:
    """Make one replica of an experiment of one node."""
    for key in ("experimentType", "experimentTypeId"):
        read.get(key)
    _put_machine(read, "machineType", "environment.resources")
    _put_image(read, "container")
    command = _command(read, "command")
    if command:
        put_command(read, command, "command")


def put_parameter_servers(read: Reading, given: set[str]) -> None:
    """Make workers and parameter servers of TensorFlow of an experiment of the type GRPC."""
    _ignore_role(read, given, "master", "an experiment of the type GRPC has no such role")
    workers, servers = _count(read, "workerCount"), _count(read, "parameterServerCount")
    read.put("framework", "tensorflow", "experimentType")
    _put_machine(read, "workerMachineType", "environment.resources", _WORKERS)
    _put_machine(read, "parameterServerMachineType", "environment.replicas.default_ps.resources")
    if workers == 1:
        why = "the one worker is TensorFlow's master, and parameter servers need a worker beside it"
        read.refuse("workerCount", why=why, hint="write 2 or more")
    elif workers and servers:
        read.put("environment.replicas.n_workers", workers - 1, "workerCount")
        read.put("environment.replicas.n_ps", servers, "parameterServerCount")
        why = f"the first of {workers} workers is TF_CONFIG's master, and not worker 0 too as on Gradient"
        hint = "worker 0 is the second; WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same"
        read.warn("workerCount", why=why, hint=hint)
    _put_image(read, "workerContainer", "parameterServerContainer")
    _put_version(read)
    ours, theirs = _command(read, "workerCommand"), _command(read, "parameterServerCommand")
    if ours and theirs:
        put_command(read, _by_role(ours, theirs), "workerCommand", before=_SDK)


def put_mpi(read: Reading, given: set[str]) -> None:
    """Make as many replicas as mpirun starts processes on, and its program the command."""
    _ignore_role(read, given, "parameterServer", "an experiment of the type MPI has no such role")
    _workers_wait(read, given)
    _put_image(read, "workerContainer", "masterContainer")
    image = str(read.peek("workerContainer") or "")
    read.put("framework", "horovod" if "horovod" in image.lower() else "mpi", "experimentType")
    workers, masters = _count(read, "workerCount"), _count(read, "masterCount", default=1)
    kind = _machine(read, "workerMachineType")
    command = _command(read, "masterCommand")
    if masters and masters > 1:
        read.refuse("masterCount", why=f"{masters} masters would each start mpirun", hint="write 1")
    if not workers or not command:
        read.get("masterMachineType")
        return
    line = taken_apart(command)
    if isinstance(line, Line):
        _put_line(read, line, workers, kind)
    else:
        _put_as_it_is(read, command, line, workers, kind)


def _put_line(read: Reading, line: Line, workers: int, kind: Machine | None) -> None:
    """Make hpcdist's own launch of an mpirun that was taken apart."""
    if line.hosts not in {None, HOSTFILE}:
        why = f"mpirun names its hosts ({line.hosts}), and a job has others"
        read.refuse("masterCommand", why=why, hint=f"write --hostfile {HOSTFILE}")
    if not _put_replicas_of(read, line, workers, kind):
        read.ignore("masterMachineType", why=_NO_MASTER)
    for option in line.dropped:
        read.warn("masterCommand", why=f"{option} of mpirun has no effect: the site's own mpirun runs as you")
    for name, value in line.sets:
        put_variable(read, name, value, "masterCommand")
    _say_of_names(read, line)
    if line.args:
        read.put(
            "batch.launcher",
            {"name": "mpirun", "args": [protected(word) for word in line.args]},
            "masterCommand",
        )
        why = f"{shlex.join(line.args)} is what Gradient's machines wanted"
        hint = "remove `batch.launcher`, and the site's own launcher and network are used"
        read.warn("masterCommand", why=why, hint=hint)
    folder = f"cd {line.folder} && " if line.folder else ""
    put_command(read, folder + with_hostfile(line.program), "masterCommand")


def _say_of_names(read: Reading, line: Line) -> None:
    environment = read.native.get("environment") or {}
    unset = [name for name in line.named if name not in (environment.get("env_vars") or {})]
    if unset:
        why = f"-x {' '.join(unset)} of mpirun names what is not in `experimentEnv`"
        read.warn("masterCommand", why=why, hint="the tasks get what the site's modules and your shell say")


def _put_replicas_of(read: Reading, line: Line, workers: int, kind: Machine | None) -> bool:
    """Ask for the replicas that such a launch fills; tell whether the master's machine is one of them."""
    count, each = _number(line.tasks), _number(line.each)
    for text, number in ((line.tasks, count), (line.each, each)):
        if text is not None and not number:
            why = f"mpirun is to start {text!r} processes, which is no number from 1"
            read.refuse("masterCommand", why=why, hint="write the number itself")
            return False
    per = each or (kind.gpus if kind else 0) or 1
    if count is None or count == workers * per:
        _put_nodes(read, workers, per if each else None, kind)
        return False
    if count == (workers + 1) * per:
        return _put_with_master(read, workers, per if each else None, kind)
    if kind and not kind.gpus and each is None and count % workers == 0:
        _put_nodes(read, workers, count // workers, kind)
        return False
    _refuse_count(read, count, workers, per, kind)
    return False


def _put_with_master(read: Reading, workers: int, per: int | None, kind: Machine | None) -> bool:
    """Ask for the workers and the master, whose machine must be as good."""
    master = _machine(read, "masterMachineType") if read.peek("masterMachineType") is not None else kind
    if master and kind and master.gpus != kind.gpus:
        why = f"mpirun starts processes on the master too, which has {master.gpus} GPUs, a worker {kind.gpus}"
        read.refuse("masterMachineType", why=why, hint="write the workers' machine")
    _put_nodes(read, workers + 1, per, kind)
    return True


def _refuse_count(read: Reading, count: int, workers: int, per: int, kind: Machine | None) -> None:
    each = f"{per} GPU{'s' * (per > 1)} each" if kind and kind.gpus else f"{per} each"
    why = f"mpirun starts {count} (-np), and {workers} workers are for {workers * per} processes ({each})"
    hint = f"write -np {workers * per}, or {(workers + 1) * per} with the master, or another workerCount"
    read.refuse("masterCommand", why=why, hint=hint)


def _put_nodes(read: Reading, nodes: int, per: int | None, kind: Machine | None) -> None:
    """Ask for so many replicas, the master among them."""
    if kind:
        _put_amount(read, kind, "workerMachineType", "environment.resources")
    if nodes > 1:
        read.put("environment.replicas.n_workers", nodes - 1, "workerCount")
        if kind:
            _put_amount(read, kind, "workerMachineType", _WORKERS)
    if per and not (kind and kind.gpus == per):
        read.put("environment.processes_per_replica", per, "masterCommand")


def _put_as_it_is(read: Reading, command: str, why: str, workers: int, kind: Machine | None) -> None:
    """Leave the launch to the command (``backend: mpi``): it runs once, and the workers are all there is."""
    read.ignore("masterMachineType", why=_NO_MASTER)
    read.put("backend", "mpi", "masterCommand")
    read.put("environment.replicas.n_workers", workers, "workerCount")
    if kind:
        _put_amount(read, kind, "workerMachineType", _WORKERS)
    hint = "a program that reads /generated/hostfile by itself finds it at $HPCDIST_HOSTFILE"
    read.warn("masterCommand", why=f"{why}, so it runs as it stands, once, on the first node", hint=hint)
    put_command(read, with_hostfile(command), "masterCommand")


def _workers_wait(read: Reading, given: set[str]) -> None:
    command = text_of(read, "workerCommand") if "workerCommand" in given else None
    if command is None:
        return
    if _WAITS.fullmatch(command.strip()):
        read.ignore("workerCommand", why="the nodes of a job need nothing to wait for mpirun")
    else:
        why = "it would run on every worker beside what mpirun starts there"
        read.refuse("workerCommand", why=why, hint="write `sleep infinity`, and put it into masterCommand")


def _ignore_role(read: Reading, given: set[str], role: str, why: str) -> None:
    for last in ("Container", "MachineType", "Command", "Count"):
        if role + last in given:
            read.ignore(role + last, why=why)


def _by_role(ours: str, theirs: str) -> str:
    """Return one command that does what each role is to do."""
    if ours.strip() == theirs.strip():
        return ours
    script = 'case "$HPCDIST_ROLE" in\nps) exec bash -c {} ;;\n*) exec bash -c {} ;;\nesac'
    return script.format(shlex.quote(theirs), shlex.quote(ours))


def _put_version(read: Reading) -> None:
    """Say which TensorFlow it is, by the tag of its image; without one, by Gradient's ``master``."""
    found = _VERSION.fullmatch(str(read.peek("workerContainer") or "").partition("-")[0])
    read.put("tensorflow.version", found[1] if found else "1", "workerContainer")
    if not found:
        why = "which TensorFlow it has is not known, so TF_CONFIG is that of version 1, as Gradient's own"
        read.warn("workerContainer", why=why, hint="for TensorFlow 2 add `--set tensorflow.version=2`")


def _put_image(read: Reading, key: str, other: str = "") -> None:
    image, second = text_of(read, key), text_of(read, other) if other else None
    if image:
        read.put("build.image", protected(image), key)
    if not image or not second or image == second:
        return
    if image.replace("-gpu", "") == second.replace("-gpu", ""):
        read.warn(other, why=f"an experiment has one image: it is {image} here too")
    else:
        why = f"an experiment has one image, and {key} is {image}"
        read.refuse(other, why=why, hint="write the same in both")


def _command(read: Reading, key: str) -> str | None:
    command = text_of(read, key)
    if command is None or not command.strip():
        if not isinstance(read.peek(key), (dict, list)):
            read.refuse(Key(key), why=f"{key} is missing", hint="write the command")
        return None
    return command.strip()


def _count(read: Reading, key: str, default: int | None = None) -> int | None:
    value = read.get(key)
    if value is None and default is not None:
        return default
    number = _number(value) if isinstance(value, str) else value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST:
        return number
    told = f"{key} is missing" if value is None else f"{read.text(key)!r} is no number from 1 to {MOST}"
    read.refuse(Key(key), why=told, hint="write how many there are")
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and _DIGITS.fullmatch(text) else None


def _machine(read: Reading, key: str) -> Machine | None:
    """Take a machine type; refuse an unknown one with the nearest."""
    name = text_of(read, key)
    if name is None:
        if not isinstance(read.peek(key), (dict, list)):
            read.refuse(Key(key), why=f"{key} is missing", hint="write the machine, such as P4000 or C7")
        return None
    found = machine(name)
    if found is None:
        read.refuse(key, why=f"which GPUs the machine {name!r} has is not known", hint=nearest(name))
    return found


def _put_machine(read: Reading, key: str, *targets: str) -> None:
    kind = _machine(read, key)
    for target in targets if kind else ():
        _put_amount(read, kind, key, target)  # type: ignore[arg-type]


def _put_amount(read: Reading, kind: Machine, key: str, target: str) -> None:
    name, number = kind.amount
    read.put(target, {name: {"requests": number}}, key)
