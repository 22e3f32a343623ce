"""The roles of Gradient's experiments, as replicas: one node, parameter servers and their workers.

Gradient's TF_CONFIG has the first worker twice, as ``master`` and as ``worker`` 0 (by the test of
``get_tf_config`` in gradient-sdk), so there are as many replicas as Gradient starts: the first is the master.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from hpcdist.errors import Key, did_you_mean
from hpcdist.importers.container import escape_templates
from hpcdist.importers.gradient.fields import put_command, text_of
from hpcdist.importers.machines import Machine, put_machine
from hpcdist.importers.reading import Reading

# --- Machine types of Gradient: the GPUs of each and their type, or the CPUs and memory of those without
#
# Paperspace's own are those of its documentation (https://github.com/Paperspace/Docs,
# ``instances/instance-types.md`` and ``more/instance-types/README.md``; the newest of
# https://docs.digitalocean.com/products/paperspace/machines/details/availability), where ``x2``, ``x4`` and
# ``x8`` count GPUs; of C1 to C10 gradient-cli has all names (``MACHINE_TYPES`` of its ``constants.py``).
# Private clusters on AWS name its machines: those with GPUs are of https://github.com/rapidsai/deployment
# (``source/cloud/aws``) and AWS's tables of P2, G3 and G4, the others of
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/compute-optimized-instances.html.

_FREE: Final = {"Free-CPU": "C3", "Free-GPU+": "GPU+", "Free-GPU": "GPU+", "Free-P5000": "P5000"}
"""Those of the free tier (``more/instance-types/free-instances.md`` there)."""
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


def machine(name: str) -> Machine | None:
    """Return the machine of that name, None where there is none."""
    name = _FREE.get(name, name)
    if name in _CPUS:
        cpus, gib = _CPUS[name]
        return Machine(cpus=cpus, gib=gib)
    many = _MANY.fullmatch(name)
    if many and _GPUS.get(many[1], (0, ""))[0] == 1:
        return Machine(int(many[2]), _GPUS[many[1]][1])
    return Machine(*_GPUS[name]) if name in _GPUS else None


def nearest(name: str) -> str:
    """Return the hint that names the machine of Gradient with the nearest name; empty if none is near."""
    hint = did_you_mean(name, (*_GPUS, *_CPUS, *_FREE))
    return hint if hint.startswith("did") else ""


# --- The roles of Gradient's experiments, as replicas

MOST: Final = 100_000
WORKERS: Final = "environment.replicas.default_worker"
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_MACHINE: Final = re.compile(r"[A-Za-z][\w.+-]*")
_A_MACHINE: Final = "write the machine, such as P4000 or C7"
_WRITE_SIZE: Final = "write `--set environment.resources.cpu.requests=N`, and `gpu` for `cpu` for GPUs"
_VERSION: Final = re.compile(r"(?:.*/)?tensorflow[^:/]*:v?(\d+(?:\.\d+)*)(?![\d.])")
_SDK: Final = (
    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" '
    'TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"'
)
"""What ``get_tf_config`` of gradient-sdk reads: TF_CONFIG in base64, with the letters of URLs."""


def put_single(read: Reading) -> None:
    """Make one replica of an experiment of one node."""
    for key in ("experimentType", "experimentTypeId"):
        read.get(key)
    _put_machine(read, "machineType", "environment")
    put_image(read, "container")
    command = command_of(read, "command")
    if command:
        put_command(read, command, "command")


def put_parameter_servers(read: Reading, given: set[str]) -> None:
    """Make workers and parameter servers of TensorFlow of an experiment of the type GRPC."""
    ignore_role(read, given, "master", "an experiment of the type GRPC has no such role")
    workers, servers = count_of(read, "workerCount"), count_of(read, "parameterServerCount")
    read.put("framework", "tensorflow", "experimentType")
    _put_machine(read, "workerMachineType", "environment", WORKERS)
    _put_machine(read, "parameterServerMachineType", "environment.replicas.default_ps")
    if workers and servers:
        if workers > 1:
            read.put("environment.replicas.n_workers", workers - 1, "workerCount")
        read.put("environment.replicas.n_ps", servers, "parameterServerCount")
        read.put("batch.nodes", workers + servers, "workerCount")
        which = f"the first of {workers} workers" if workers > 1 else "the one worker"
        why = f"{which} is TF_CONFIG's master, and not worker 0 too as on Gradient"
        second = "worker 0 is the second; " * (workers > 1)
        hint = f"{second}WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same"
        read.warn("workerCount", why=why, hint=hint)
    put_image(read, "workerContainer", "parameterServerContainer")
    _put_version(read)
    worker, server = command_of(read, "workerCommand"), command_of(read, "parameterServerCommand")
    if worker and server:
        put_command(read, _by_role(worker, server), "workerCommand", before=_SDK)


def ignore_role(read: Reading, given: set[str], role: str, why: str) -> None:
    """Ignore the options of a role that the experiment does not have."""
    for last in ("Container", "MachineType", "Command", "Count"):
        if role + last in given:
            read.ignore(role + last, why=why)


def _by_role(worker: str, server: str) -> str:
    """Return one command that runs the command of each role."""
    if worker.strip() == server.strip():
        return worker
    script = 'case "$HPCDIST_ROLE" in\nps) exec bash -c {} ;;\n*) exec bash -c {} ;;\nesac'
    return script.format(shlex.quote(server), shlex.quote(worker))


def _put_version(read: Reading) -> None:
    """Put the TensorFlow version from the tag of the image, 1 if it has none, as on Gradient."""
    found = _VERSION.fullmatch(str(read.peek("workerContainer") or "").partition("-")[0])
    read.put("tensorflow.version", found[1] if found else "1", "workerContainer")
    if not found:
        why = "its TensorFlow version is unknown, so TF_CONFIG has the form of version 1, as on Gradient"
        read.warn("workerContainer", why=why, hint="for TensorFlow 2 add `--set tensorflow.version=2`")


def put_image(read: Reading, key: str, other: str = "") -> None:
    """Put the image of a role, and check that the other role has the same."""
    image, second = text_of(read, key), text_of(read, other) if other else None
    if image:
        read.put("build.image", escape_templates(image), key)
    if not image or not second or image == second:
        return
    if image.replace("-gpu", "") == second.replace("-gpu", ""):
        read.warn(other, why=f"an experiment has one image: {image} is used here too")
    else:
        why = f"an experiment has one image, and {key} is {image}"
        read.refuse(other, why=why, hint="write the same in both")


def command_of(read: Reading, key: str) -> str | None:
    """Take a command; refuse a missing one."""
    command = text_of(read, key)
    if command is None or not command.strip():
        if not isinstance(read.peek(key), (dict, list)):
            read.refuse(Key(key), why=f"{key} is missing", hint="write it, or give it by `--set`")
        return None
    return command.strip()


def count_of(read: Reading, key: str, default: int | None = None) -> int | None:
    """Take the number of replicas of a role; refuse anything else."""
    value = read.get(key)
    if value is None and default is not None:
        return default
    number = number_of(value) if isinstance(value, str) else value
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST:
        return number
    why = f"{key} is missing" if value is None else f"{read.text(key)!r} is not a number from 1 to {MOST}"
    read.refuse(Key(key), why=why, hint="write the number of replicas")
    return None


def number_of(text: str | None) -> int | None:
    """Return the number in a text, None for other text."""
    return int(text) if text and _DIGITS.fullmatch(text) else None


def machine_of(read: Reading, key: str) -> Machine | None:
    """Take a machine type; refuse a misspelt one with the nearest, and warn of a missing or unknown one."""
    name = text_of(read, key)
    if name is None:
        if not isinstance(read.peek(key), (dict, list)):
            why = f"{key} is missing, so no GPUs, and the site's default of CPUs and memory, are requested"
            read.warn(Key(key), why=why, hint=_A_MACHINE)
        return None
    found = machine(name)
    if found is None:
        _unknown_machine(read, key, name)
    elif not any(found):
        read.warn(key, why=f"the size of the machine type {name!r} is unknown", hint=_WRITE_SIZE)
    return found


def _unknown_machine(read: Reading, key: str, name: str) -> None:
    """Refuse what looks like a slip, and warn of a machine of a private cluster."""
    hint = nearest(name)
    if hint or name.startswith("TPU") or not _MACHINE.fullmatch(name):
        read.refuse(key, why=f"unknown machine type {name!r}", hint=hint or _A_MACHINE)
    else:
        why = f"{name!r} is no machine of Paperspace's, and its size is unknown: none is requested"
        read.warn(key, why=why, hint=_WRITE_SIZE)


def _put_machine(read: Reading, key: str, *sections: str) -> None:
    kind = machine_of(read, key)
    if kind:
        put_machine(read, kind, (key,), *sections)
