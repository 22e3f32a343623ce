"""Experiments of Gradient of the type MPI: the mpirun of the master becomes hpcdist's own launch.

Its processes run on the workers, and on the master too where their number requires it.
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.experiment.launch_options import with_hostfile
from hpcdist.importers.gradient.fields import put_command, put_variable, text_of
from hpcdist.importers.gradient.roles import (
    WORKERS,
    command_of,
    count_of,
    ignore_role,
    machine_of,
    number_of,
    put_image,
)
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, parse_launch_line
from hpcdist.importers.machines import Machine, put_machine
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_WAITS: Final = re.compile(
    r"(?:sudo )?sleep \S+|tail -f /dev/null|while true; ?do sleep \S+; ?done|"
    r"(?:exec )?(?:/usr/sbin/)?sshd\b[^;&|]*"
)
_NETWORK: Final = ("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl")
_NO_MASTER: Final = "mpirun runs on the node of the first worker"


def put_mpi(read: Reading, given: set[str]) -> None:
    """Put a replica for each node of mpirun, and its program as the command."""
    ignore_role(read, given, "parameterServer", "an experiment of the type MPI has no such role")
    _check_worker_command(read, given)
    put_image(read, "workerContainer", "masterContainer")
    image = str(read.peek("workerContainer") or "")
    read.put("framework", "horovod" if "horovod" in image.lower() else "mpi", "experimentType")
    workers, masters = count_of(read, "workerCount"), count_of(read, "masterCount", default=1)
    kind = machine_of(read, "workerMachineType")
    command = command_of(read, "masterCommand")
    if masters and masters > 1:
        read.refuse("masterCount", why=f"{masters} masters would each start mpirun", hint="write 1")
    if not workers or not command:
        read.get("masterMachineType")
        return
    try:
        line = _line(read, command)
    except UnsupportedLaunch as reason:
        _put_unchanged(read, command, str(reason), workers, kind)
    else:
        _put_line(read, line, workers, kind)


def _line(read: Reading, command: str) -> Line:
    variables = (read.native.get("environment") or {}).get("env_vars") or {}
    line = parse_launch_line(command, {name: text for name, text in variables.items() if "{" not in text})
    if line is None or line.program != "mpirun":
        raise UnsupportedLaunch("which does not begin with mpirun")
    if line.by_node:
        raise UnsupportedLaunch("which places processes round-robin on the nodes")
    return line


def _put_line(read: Reading, line: Line, workers: int, kind: Machine | None) -> None:
    """Put hpcdist's own launch for a parsed mpirun line."""
    if line.hosts and line.np is None:
        why = f"mpirun would fill the slots of its hosts ({line.hosts}), and a job has other hosts"
        read.refuse("masterCommand", why=why, hint="write -np with the number of processes")
    if not _put_replicas_of(read, line, workers, kind):
        read.ignore("masterMachineType", why=_NO_MASTER)
    if line.dropped:
        words = ", ".join(line.dropped)
        why = f"hpcdist starts the processes itself, so these words have no effect: {words}"
        read.warn("masterCommand", why=why)
    for name, value in line.variables.items():
        put_variable(read, name, value, "masterCommand")
    _warn_of_variables(read, line)
    folder = f"cd {quote(line.folder)} && " if line.folder else ""
    put_command(read, folder + with_hostfile(line.command), "masterCommand")


def _warn_of_variables(read: Reading, line: Line) -> None:
    """Warn of variables without a value in the file, and of those that select Gradient's network."""
    set_here = ((read.native.get("environment") or {}).get("env_vars") or {}).keys()
    unset = [name for name in line.passed if name not in set_here]
    if unset:
        why = f"-x {' '.join(unset)} of mpirun names what is not in `experimentEnv`"
        read.warn(
            "masterCommand", why=why, hint="the tasks get its value from the site's modules and your shell"
        )
    network = [name for name in line.variables if name.startswith(_NETWORK)]
    if network:
        why = f"mpirun selects a network of Gradient's machines with {' and '.join(network)}"
        hint = "remove that from `environment.env_vars`, and the site's own network is used"
        read.warn("masterCommand", why=why, hint=hint)


def _put_replicas_of(read: Reading, line: Line, workers: int, kind: Machine | None) -> bool:
    """Ask for the replicas that such a launch fills; return whether the master is one of them."""
    count, each = line.np, number_of(line.per_node)
    if count == 0 or (line.per_node is not None and not each):
        processes = "0 processes" if count == 0 else f"{line.per_node} processes on each node"
        read.refuse("masterCommand", why=f"mpirun is to start {processes}", hint="write a number from 1")
        return False
    per = each or (kind.gpus if kind else 0) or 1
    if count is None or count == workers * per:
        _put_nodes(read, workers, per if each else None, kind)
        return False
    if count == (workers + 1) * per:
        return _put_with_master(read, workers, per if each else None, kind)
    if kind and not kind.gpus and each is None and count % workers == 0:
        _put_nodes(read, workers, count // workers, kind)
    elif count < workers * per and (count < per or count % per == 0):
        _put_fewer(read, count, workers, per, kind)
    else:
        _refuse_count(read, count, workers, per, kind)
    return False


def _put_fewer(read: Reading, count: int, workers: int, per: int, kind: Machine | None) -> None:
    """Ask only for the first workers: mpirun fills one after the other, and starts nothing on the others."""
    nodes = max(1, count // per)
    if nodes < workers:
        number = f"{count} process{'es' * (count > 1)}"
        why = f"mpirun starts {number} (-np) on {nodes} of {workers} workers: no other is requested"
        read.warn("masterCommand", why=why, hint=f"write -np {workers * per} for all")
    _put_nodes(read, nodes, min(count, per), kind)


def _put_with_master(read: Reading, workers: int, per: int | None, kind: Machine | None) -> bool:
    """Ask for the workers and the master, whose machine must have as many GPUs."""
    master = machine_of(read, "masterMachineType") if read.peek("masterMachineType") is not None else kind
    if master and kind and master.gpus != kind.gpus:
        why = f"mpirun starts processes on the master too, which has {master.gpus} GPUs, a worker {kind.gpus}"
        read.refuse("masterMachineType", why=why, hint="write the workers' machine")
    _put_nodes(read, workers + 1, per, kind)
    return True


def _refuse_count(read: Reading, count: int, workers: int, per: int, kind: Machine | None) -> None:
    each = f"{per} GPU{'s' * (per > 1)} each" if kind and kind.gpus else f"{per} each"
    why = (
        f"mpirun starts {count} processes (-np), but {workers} workers have room for {workers * per} ({each})"
    )
    hint = f"write -np {workers * per}, or {(workers + 1) * per} with the master, or another workerCount"
    read.refuse("masterCommand", why=why, hint=hint)


def _put_nodes(read: Reading, nodes: int, per: int | None, kind: Machine | None) -> None:
    """Ask for so many replicas, the master among them."""
    if nodes > 1:
        read.put("environment.replicas.n_workers", nodes - 1, "workerCount")
        read.put("batch.nodes", nodes, "workerCount")
    if kind:
        put_machine(read, kind, ("workerMachineType",), "environment", *([WORKERS] if nodes > 1 else []))
    if per and not (kind and kind.gpus == per):
        read.put("environment.processes_per_replica", per, "masterCommand")


def _put_unchanged(read: Reading, command: str, why: str, workers: int, kind: Machine | None) -> None:
    """Leave the launch to the command (``backend: mpi``): it runs once, over the workers."""
    read.ignore("masterMachineType", why=_NO_MASTER)
    read.put("backend", "mpi", "masterCommand")
    read.put("environment.replicas.n_workers", workers, "workerCount")
    read.put("batch.nodes", workers, "workerCount")
    if kind:
        put_machine(read, kind, ("workerMachineType",), WORKERS)
    hint = "a program that reads /generated/hostfile by itself finds it at $HPCDIST_HOSTFILE"
    why = f"a command {why} runs unchanged, once, on the first node"
    read.warn("masterCommand", why=why, hint=hint)
    put_command(read, with_hostfile(command), "masterCommand")


def _check_worker_command(read: Reading, given: set[str]) -> None:
    command = text_of(read, "workerCommand") if "workerCommand" in given else None
    if command is None:
        return
    if _WAITS.fullmatch(command.strip()):
        read.ignore("workerCommand", why="the nodes of a job need no command that waits for mpirun")
    else:
        why = "it would run on every worker in addition to the processes of mpirun"
        read.refuse("workerCommand", why=why, hint="write `sleep infinity`, and put it into masterCommand")
