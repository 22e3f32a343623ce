"""Tasks of dstack: ``commands`` run one after the other on each of ``nodes`` nodes.

Fields: https://dstack.ai/docs/reference/dstack.yml/task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.base.words import join_commands
from hpcdist.importers import Imported, node_job
from hpcdist.importers.container import escape_templates, ignore_set_keys, in_folder, quantity
from hpcdist.importers.job import ForeignJob, Role, Sourced, product_type
from hpcdist.importers.reading import Reading

_TYPES: Final = {
    "service": "it serves a model",
    "dev-environment": "it is for an editor",
    **dict.fromkeys(("fleet", "volume", "gateway", "preset"), "it sets up machines"),
}
_KEYS: Final = {"commands", "nodes", "groups", "ide", "resources", "env", "model", "ssh_config", "image"}
_CLOUD: Final = "the site is one place, with its own machines"
_FILES: Final = "nothing is fetched or mounted: submit the job where its code is, and write paths of the site"
_IGNORED: Final = {
    **dict.fromkeys(
        ("backends", "regions", "availability_zones", "instance_types", "reservation", "spot_policy",
         "max_price", "creation_policy", "idle_duration", "fleets", "tags", "utilization_policy",
         "single_branch", "stop_duration", "ssh_config", "instances"), _CLOUD,
    ),
    **dict.fromkeys(("volumes", "files", "repos", "registry_auth"), _FILES),
    **dict.fromkeys(("python", "nvcc"), "they are in dstack's own image: name one in `build.image`"),
    **dict.fromkeys(("user", "privileged", "shell", "home_dir"), "the job runs as you, in bash"),
    "ports": "the nodes of a job reach each other on all ports",
    "priority": "`batch.qos` sets the priority",
    "retry": "`environment: {max_restarts: 3}` restarts the job",
    "init": "hpcdist runs the program itself",
    **dict.fromkeys(("startup_order", "stop_criteria"), "all nodes start together, and end with the program"),
}  # fmt: skip
_REFUSED: Final = {
    "schedule": ("jobs are not repeated", "use cron"),
    "entrypoint": ("the image's own program is not replaced", "write it in `commands`"),
    "docker": ("a batch job starts no containers itself", "name its image in `image`"),
}


class Dstack:
    """The importer of tasks."""

    def recognises(self, data: Map) -> bool:
        """Tell by the type, with another key of a configuration."""
        return data.get("type") in ("task", *_TYPES) and bool({*_KEYS, *_IGNORED} & data.keys())

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when it is not a task, or has no command.
        """
        if (kind := data["type"]) in _TYPES:
            why = f"this is a {kind} of dstack: {_TYPES[kind]}, and hpcdist runs batch jobs"
            Reading(data).fail("type", why=why, hint="give a file with `type: task`")
        if data.get("groups"):
            hint = "write an experiment for each, or one with `replicas`"
            Reading(data).fail("groups", why="the nodes run different commands", hint=hint)
        read, job = node_job.begin(data, _IGNORED, _REFUSED)
        read.get("type")
        if image := read.word("image"):
            job.image = Sourced(escape_templates(image), ("image",))
        _variables(read, job)
        if (limit := read.word("max_duration") or "off").lower() not in ("off", "true", "false"):
            job.set("batch.walltime", f"{limit}s" if limit.isdecimal() else limit, "max_duration")
        nodes, role = read.whole("nodes", least=1) or 1, _resources(read)
        read.get("commands")
        commands = [read.word("commands", at) or "" for at, _ in read.items("commands")]
        text = in_folder(read.word("working_dir") or "", join_commands(commands))
        variables = _variables_of_a_node(nodes, role.gpus, read.peek("name"))
        node_job.put(
            read, job, node_job.NodeJob("dstack", nodes, ("nodes",), role, text, ("commands",), variables)
        )
        return node_job.finish(read, job)


IMPORTER: Final = Dstack()


def _variables_of_a_node(nodes: int, gpus: int, name: object) -> Mapping[str, str]:
    known = {
        "NODES_NUM": nodes, "GPUS_PER_NODE": gpus, "GPUS_NUM": nodes * gpus, "NODE_RANK": "$HPCDIST_NODE",
        "MASTER_NODE_IP": "$HPCDIST_HEAD_ADDRESS", "NODES_IPS": node_job.HOSTS, "RUN_ID": "$HPCDIST_JOB_ID",
        "MPI_HOSTFILE": "$HPCDIST_HOSTFILE", "RUN_NAME": name or "$HPCDIST_JOB_ID",
    }  # fmt: skip
    return {f"DSTACK_{name}": str(value) for name, value in known.items()}


def _variables(read: Reading, job: ForeignJob) -> None:
    """Take ``env``: keys, or a list of ``NAME=VALUE`` and names."""
    pairs: list[tuple[str, str | None, Path]]
    pairs = [(name, read.word("env", name), ("env", name)) for name in read.keys("env")]
    for at, _ in read.items("env"):
        name, equals, value = (read.word("env", at) or "").partition("=")
        pairs.append((name, value if equals else None, ("env", at)))
    for name, text, path in pairs:
        node_job.take_variable(read, job, name, text, *path)


def _resources(read: Reading) -> Role:
    """Take what a node needs at least."""
    ignore_set_keys(
        read, dict.fromkeys(("shm_size", "disk"), "shared memory and disks belong to the node"), "resources"
    )
    kind, gpus = _gpus(read)
    memory = _least(read, read.peek("resources", "memory"), "resources", "memory")
    cpus = str(read.peek("resources", "cpu") or "").rpartition(":")[2]
    amounts = {"gpu": gpus, "cpu": _least(read, cpus, "resources", "cpu"), "memory": memory / 2**20}
    return node_job.role_of(kind, amounts, ("resources",), ("resources", "gpu"))


def _least(read: Reading, value: object, *path: str) -> float:
    """Return the least amount of a range, with memory in bytes; 0 if it is not given."""
    read.get(*path)
    text = str(value or "").partition("..")[0].strip()
    number = quantity(re.sub(r"([KMGT])i?B$", r"\1i", text, flags=re.IGNORECASE)) if text else 0.0
    if number is None:
        read.refuse(*path, why=f"{value!r} is not an amount", hint="write one such as 8 or 200GB")
    return number or 0.0


def _gpus(read: Reading) -> tuple[str, int]:
    """Take the GPUs, as text (``A100:80GB:8``), a number, or keys; of ranges and names the first."""
    value: Any = read.get("resources", "gpu")
    if isinstance(value, Map):
        names = value.get("name") or ""
        name = str(names[0] if isinstance(names, list) else names)
        parts = [name, str(value.get("memory") or ""), str(value.get("count") or 1)]
    else:
        parts = [] if value is None else re.sub(r"\s", "", str(value)).split(":")
    counts = [part for part in parts if re.fullmatch(r"\d+(?:\.\.\d*)?", part)]
    name = "-".join(part.partition("..")[0] for part in parts if part not in counts).partition(",")[0]
    if re.match(r"(?i)tpu|v\d+[a-z]*-\d", name):
        read.refuse("resources", "gpu", why=f"batch systems have no {value!r}", hint="write GPUs: `A100:8`")
        return "", 0
    if re.search(r",|\.\.", str(value)):
        read.warn("resources", "gpu", why=f"of the range {value} the first is requested")
    if re.search(r"\d[GM]i?B", name, re.IGNORECASE) and not product_type(name):
        why, hint = f"the memory of a GPU ({name}) chooses none", "write `node_selector: {gpu_type: ...}`"
        read.warn("resources", "gpu", why=why, hint=hint)
    return product_type(name), int(counts[-1].partition("..")[0]) if counts else int(bool(parts))
