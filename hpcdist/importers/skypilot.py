"""Tasks of SkyPilot: ``run`` is executed once on each of ``num_nodes`` nodes.

Fields: https://docs.skypilot.co/en/latest/reference/yaml-spec.html. A task is one document; a service
is not a job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.importers import Imported, node_job
from hpcdist.importers.container import escape_templates, ignore_set_keys, in_folder
from hpcdist.importers.job import ForeignJob, Role, Sourced, product_type
from hpcdist.importers.reading import Reading

_KEYS: Final = {"setup", "num_nodes", "file_mounts", "workdir", "envs", "secrets", "resources", "config"}
_CLOUD: Final = "the site is one place, with its own machines"
_RESOURCES_IGNORED: Final = {
    **dict.fromkeys(
        ("cloud", "infra", "region", "zone", "instance_type", "use_spot", "disk_size", "disk_tier", "labels",
         "network_tier", "max_hourly_cost", "autostop", "local_disk", "priority", "priority_class",
         "accelerator_args", "ephemeral_storage"), _CLOUD,
    ),
    **dict.fromkeys(("job_recovery", "spot_recovery"), "`environment: {max_restarts: 3}` restarts the job"),
    "ports": "the nodes of a job reach each other on all ports",
}  # fmt: skip
_IGNORED: Final = {
    **dict.fromkeys(
        ("config", "experimental", "event_callback", "api_server", "api_server_access", "inputs", "outputs"),
        _CLOUD,
    ),
    "volumes": "nothing is mounted; write the path of the site's own file system in the command",
    "pool": "the partition is `batch.partition`",
}
_SERVICE: Final = ("a service serves a model: hpcdist runs batch jobs only", "remove it, if `run` ends")
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:[Gg]i?[Bb])?\+?")
_ACCELERATOR: Final = re.compile(r"([\w.-]+?)(?::(\d+(?:\.\d+)?))?")


class SkyPilot:
    """The importer of tasks."""

    def recognises(self, data: Map) -> bool:
        """Tell by `run` as a text with another key of a task, or by the accelerators of a cloud."""
        run, resources = data.get("run"), data.get("resources")
        cloud = isinstance(resources, Map) and resources.keys() & {"accelerators", "cloud", "infra", "any_of"}
        return (isinstance(run, str) and bool(_KEYS & data.keys())) or ("run" not in data and bool(cloud))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when it is a service, or has no command.
        """
        read, job = node_job.begin(data, _IGNORED, {"service": _SERVICE})
        for section in ("envs", "secrets"):
            for name in read.keys(section):
                node_job.take_variable(read, job, name, read.word(section, name), section, name)
        for key in read.keys("file_mounts"):
            hint = "put it where the nodes can read it, and write that path in the command"
            read.get("file_mounts", key)
            read.warn("file_mounts", key, why=f"nothing is copied or mounted at {key}", hint=hint)
        nodes, role = read.whole("num_nodes", least=1) or 1, _resources(read, job)
        variables = _variables(nodes, role.gpus)
        found = node_job.NodeJob("SkyPilot", nodes, ("num_nodes",), role, _command(read), ("run",), variables)
        node_job.put(read, job, found)
        _setup(read, job)
        return node_job.finish(read, job)


IMPORTER: Final = SkyPilot()


def _variables(nodes: int, gpus: int) -> Mapping[str, str]:
    known = {
        "NUM_NODES": nodes, "NUM_GPUS_PER_NODE": gpus, "NODE_RANK": "$HPCDIST_NODE",
        "NODE_IPS": node_job.HOSTS, "TASK_ID": "$HPCDIST_JOB_ID",
    }  # fmt: skip
    return {f"SKYPILOT_{name}": str(value) for name, value in known.items()}


def _command(read: Reading) -> str:
    """Return the command, with a change to ``workdir``, which SkyPilot copies."""
    command, folder = read.word("run") or "", read.peek("workdir")
    if isinstance(folder, Mapping):
        read.refuse("workdir", why="code is not fetched", hint="clone it, and submit the job there")
        return command
    return in_folder(read.text("workdir") or "", command)


def _setup(read: Reading, job: ForeignJob) -> None:
    """Take the step that each node does first."""
    if not (text := read.word("setup")):
        return
    if job.image:
        hint = "build the image with what it installs, and remove it"
        read.refuse("setup", why="hpcdist runs steps before the program outside of the image", hint=hint)
        return
    job.set("run.prepare", {"cmd": escape_templates(text), "per": "node"}, "setup")
    hint = "install once beforehand what nodes share, and remove it"
    read.warn("setup", why="it runs in each job, on each node", hint=hint)


def _resources(read: Reading, job: ForeignJob) -> Role:
    """Take what a node needs, with memory in GiB, and its image."""
    top: Path = ("resources",)
    ignore_set_keys(read, _RESOURCES_IGNORED, *top)
    for key in ("any_of", "ordered"):
        if options := list(read.items("resources", key)):
            read.get("resources", key)
            read.warn("resources", key, why=f"of {len(options)} choices the first is taken")
            if read.peek("resources", "accelerators") is None:
                top = ("resources", key, 0)
    image = str(read.get("resources", "image_id") or "")
    if image.startswith("docker:"):
        job.image = Sourced(escape_templates(image.removeprefix("docker:")), ("resources", "image_id"))
    elif image:
        read.warn("resources", "image_id", why="it is the image of a cloud's machine, which is not used")
    kind, gpus = _accelerators(read, *top, "accelerators")
    amounts = {"gpu": gpus, "cpu": _amount(read, "cpus"), "memory": _amount(read, "memory") * 1024}
    return node_job.role_of(kind, amounts, ("resources",), (*top, "accelerators"))


def _amount(read: Reading, key: str) -> float:
    text = read.word("resources", key)
    if not (match := _AMOUNT.fullmatch(text or "")) and text:
        read.refuse("resources", key, why=f"{text!r} is not an amount", hint="write a number such as 8 or 8+")
    return float(match[1]) if match else 0


def _accelerators(read: Reading, *path: str | int) -> tuple[str, int]:
    """Take the type and the number of accelerators: the first of several choices."""
    value: Any = read.get(*path)
    if isinstance(value, Map):  # `{H100: 8}`, or the set `{H100:8, A100:8}`
        value = [name if number is None else f"{name}:{number}" for name, number in value.items()]
    choices = value if isinstance(value, list) else [] if value is None else [value]
    match = _ACCELERATOR.fullmatch(str(choices[0])) if choices else None
    if len(choices) > 1:
        read.warn(*path, why=f"of {len(choices)} choices the first is taken, {choices[0]}")
    if choices and (match is None or float(match[2] or 1) % 1 or re.match("(?i)tpu|trainium|inf", match[1])):
        why = f"batch systems have no {choices[0]!r}"
        read.refuse(*path, why=why, hint="write whole GPUs, such as `A100:8`")
        return "", 0
    return (product_type(match[1]), int(float(match[2] or 1))) if match else ("", 0)
