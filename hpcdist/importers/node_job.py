"""A job of a tool that runs one command on each of its nodes, with the tool's variables.

A command that is one torchrun becomes hpcdist's own launch; any other runs once on each node, with the
variables of PyTorch for one process of each. Used by the readers of SkyPilot, dstack and TorchX.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.importers import Imported, container
from hpcdist.importers.job import ForeignJob, Role, Sourced, put_name
from hpcdist.importers.launch_lines import (
    Line,
    UnsupportedLaunch,
    parse_launch_line,
    refuse_launch_per_replica,
    value_of,
)
from hpcdist.importers.reading import Reading

HOSTS: Final = "$(sed 's/[ :].*//' \"$HPCDIST_HOSTFILE\")"
"""The hosts of the job, a line each."""
_SECRET: Final = re.compile(r"\$\{\{.*\}\}")
_ADVICE: Final = "write an experiment with `framework: {framework}`, and the {program} line as `run.cmd`"


class NodeJob(NamedTuple):
    """One command, and the nodes that run it."""

    tool: str
    """The name of the tool, with which the names of its variables begin in capitals."""
    nodes: int
    nodes_source: Path
    role: Role
    """What each node needs."""
    command: str
    source: Path
    variables: Mapping[str, str]
    """The values of the tool's variables, as text in double quotes."""


def begin(
    data: Map, ignored: Mapping[str, str], refused: Mapping[str, tuple[str, str]]
) -> tuple[Reading, ForeignJob]:
    """Return a file and its job with its name; ``ignored``, ``refused``: keys, why, and what to write."""
    read, job = Reading(data), ForeignJob()
    for key in (key for key in refused if read.peek(key)):
        read.refuse(key, why=refused[key][0], hint=refused[key][1])
    container.ignore_set_keys(read, ignored)
    if name := (read.word("name") or "").strip("/"):
        put_name(read, name, "name")
    return read, job


def finish(read: Reading, job: ForeignJob) -> Imported:
    """Return the native form.

    Raises:
        ConfigError: when there is no command.
    """
    job.write(read)
    container.skip_empty(read)
    return container.finish_with_command(read)


def take_variable(read: Reading, job: ForeignJob, name: str, text: str | None, *path: str | int) -> None:
    """Take a variable; warn of one whose value is not in the file, or is a secret."""
    if text is None or _SECRET.search(text):
        read.warn(*path, why=f"the value of {name} is not in this file", hint=container.export_hint(name))
    else:
        job.env[name] = Sourced(container.escape_templates(text), path)


def role_of(kind: str, amounts: Mapping[str, float], path: Path, gpu_path: Path) -> Role:
    """Return what a node needs, with memory in MiB, and its type of GPU."""
    found = {name: {"requests": math.ceil(number)} for name, number in amounts.items() if number > 0}
    return Role(None, (), found, path, {"gpu_type": kind} if kind and "gpu" in found else None, gpu_path)


def put(read: Reading, job: ForeignJob, found: NodeJob) -> None:
    """Take the nodes, what each needs, and the command."""
    if not found.command.strip():
        read.refuse(*found.source, why="there is no command", hint="write the command to run")
        return
    line = _torchrun(found, job)
    if line:
        each = int(line.per_node) if line.per_node else max(found.role.gpus, 1)
        job.set("framework", "pytorch", *found.source)
        job.set("pytorch.launch", "torchrun", *found.source)
        if (line.restarts or "0").isdecimal() and int(line.restarts or 0):
            job.set("pytorch.max_restarts", int(line.restarts), *found.source)
        if each != max(found.role.gpus, 1):
            job.slots = Sourced(each, found.source)
        check_nodes(read, line.nodes, found.nodes, found.source)
        if line.dropped:
            why = f"hpcdist starts torchrun itself, so these words have no effect: {', '.join(line.dropped)}"
            read.warn(*found.source, why=why)
        job.env |= {name: Sourced(value, found.source) for name, value in line.variables.items()}
    elif refuse_launch_per_replica(read, found.command, found.nodes, found.source, advice=_ADVICE):
        return
    elif found.nodes > 1:
        job.set("framework", "pytorch", *found.source)
    job.roles["master"] = found.role
    if found.nodes > 1:
        job.roles["worker"] = found.role._replace(count=found.nodes - 1, source=found.nodes_source)
        job.nodes = Sourced(found.nodes, found.nodes_source)
    text = line.command if line else found.command
    lines = [*_exports(read, found, text, everything=found.nodes > 1 and not line), text]
    job.command = Sourced(container.escape_templates("\n".join(lines)), found.source)


def _torchrun(found: NodeJob, job: ForeignJob) -> Line | None:
    """Return the command as a launch line of torchrun, with its numbers; None for any other."""
    env = {name: str(value.value) for name, value in job.env.items()}
    env |= {name: value for name, value in found.variables.items() if "$" not in value}
    try:
        line = parse_launch_line(found.command, env)
        nodes = value_of(line.nodes, env) if line else ""
    except UnsupportedLaunch:
        return None
    if line is None or line.program != "torchrun":
        return None
    line.nodes = nodes
    if line.per_node in ("gpu", "auto"):
        line.per_node = str(found.role.gpus) if found.role.gpus else "?"
    return line if (line.per_node or "1").isdecimal() else None


def check_nodes(read: Reading, nodes: str, total: int, where: Path) -> None:
    """Compare the number of nodes of torchrun, which may be a range, with the replicas."""
    least, _, most = nodes.partition(":")
    if not nodes or "$" in nodes or nodes == str(total):
        return
    if not (least.isdecimal() and (most or least).isdecimal()):
        read.refuse(*where, why=f"{nodes!r} is not a number of replicas", hint=f"write --nnodes={total}")
    elif int(least) <= total <= int(most or least):
        read.warn(*where, why=f"--nnodes={nodes} has no effect: the number of replicas of a job is fixed")
    else:
        why = f"torchrun waits for {nodes} replicas, but the job has {total}"
        read.refuse(*where, why=why, hint=f"write --nnodes={total}, or other `replicas`")


def _exports(read: Reading, found: NodeJob, text: str, *, everything: bool) -> list[str]:
    """Return lines that set the tool's variables in a text, or all; warn of those without a value here."""
    used = dict.fromkeys(re.findall(rf"\b{found.tool.upper()}_[A-Z\d_]+", text))
    for name in (name for name in used if name not in found.variables and f"{name}=" not in text):
        why = f"{name} is set by {found.tool} only, not here"
        read.warn(*found.source, why=why, hint=f"write the value itself, or {container.export_hint('it')}")
    known = found.variables if everything else [name for name in used if name in found.variables]
    return [f'export {name}="{found.variables[name]}"' for name in known]
