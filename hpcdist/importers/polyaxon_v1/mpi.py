"""An mpijob of Polyaxon: the launcher's mpirun becomes hpcdist's launch, the workers are the replicas.

Polyaxon runs it with Kubeflow's MPI operator: the processes run on the workers, ``slotsPerWorker`` on each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hpcdist.errors import Path
from hpcdist.importers import launch_lines
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch
from hpcdist.importers.polyaxon_v1.roles import Replica, one_less, put_count, put_shared
from hpcdist.importers.polyaxon_v1.text import TemplateMask
from hpcdist.importers.reading import Reading

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
