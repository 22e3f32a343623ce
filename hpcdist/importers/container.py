"""A Kubernetes container as a batch job sees it: amounts, variables, and the words of its command.

Its fields are those of ``v1.Container``
(https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.errors import ConfigError, Path
from hpcdist.importers import Imported
from hpcdist.importers.reading import Reading

_QUANTITY: Final = re.compile(
    r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d{1,2}))?(m|[KMGTPE]i|[kMGTPE])?", re.ASCII
)
_SCALES: Final = {
    "": 1.0, "m": 0.001, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_KINDS: Final = {
    "cpu": "cpu",
    "memory": "memory",
    **dict.fromkeys(
        ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe",
         "alpha.kubernetes.io/nvidia-gpu"), "gpu",
    ),
}  # fmt: skip
_FABRIC: Final = "the site says how its network and its disks are used"
_NO_AMOUNT: Final = re.compile(
    r"ephemeral-storage|hugepages-.*|vpc\.amazonaws\.com/efa|(?:.*\.)?rdma/.*|networking\.gke\.io.*"
    r"|[\w.-]+/(?:\w*(?:mlnx|rdma|roce|sriov|hostdev|macvlan|hca)\w*|resibp\w*|ib\w?|nics?)"
)
"""Disks, and the devices of networks, by the names that their plug-ins give them."""
_CHANNEL: Final = re.compile(r"channel|domain|imex|rdma|roce", re.IGNORECASE)
"""How claims are called that ask for the network between GPUs (NVIDIA's DRA driver, ``ComputeDomain``)."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")
_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_POD: Final = "it is for the pod of a container"
_BRACES: Final = re.compile(r"\{\{|\{%")
_QUOTE: Final = r'''"'", "'\\''"'''
IGNORED: Final = {
    "name": "a job has one container",
    "imagePullPolicy": "no registry is asked",
    "ports": "nothing stands between the nodes of a job",
    "volumeMounts": _MOUNTS,
    "volumeDevices": _MOUNTS,
    "securityContext": "the job runs as you, with your own rights",
    **dict.fromkeys(
        ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "stdin", "stdinOnce", "tty",
         "terminationMessagePath", "terminationMessagePolicy", "restartPolicy", "resizePolicy"), _POD,
    ),
}  # fmt: skip
"""What a container says that means nothing on a batch machine."""


def quantity(value: object) -> float | None:
    """Return a Kubernetes quantity as a number, None for what is none: ``500m`` is 0.5, ``1Ki`` 1024."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    return float(match[1]) * 10.0 ** int(match[2] or 0) * _SCALES[match[3] or ""]


def amounts(read: Reading, *path: str | int) -> dict[str, dict[str, object]]:
    """Take ``resources`` of a container; return those of a replica, with memory in whole MiB."""
    found: dict[str, dict[str, object]] = {}
    for level in ("requests", "limits"):
        for name in read.keys(*path, level):
            where = (*path, level, name)
            kind = _KINDS.get(name)
            if kind is None:
                _other_amount(read, name, where)
            elif (amount := _amount(read, kind, where)) is not None:
                found.setdefault(kind, {})[level] = amount
    claims(read, *path, "claims")
    return found


def claims(read: Reading, *path: str | int) -> None:
    """Judge claims of devices, of which the file tells only the names."""
    for index, item in read.items(*path):
        where = (*path, index)
        read.get(*where)
        if _CHANNEL.search(str(item)):
            read.warn(*where, why=f"this claim has no effect: {_FABRIC}")
        else:
            hint = "ask for nvidia.com/gpu, and remove it"
            read.refuse(*where, why="what this claim asks for is not written here", hint=hint)


def _amount(read: Reading, kind: str, where: Path) -> object:
    value = read.get(*where)
    if value is None:
        read.warn(*where, why="there is not an amount here, so none is asked for", hint="write a number")
    if value is None or (isinstance(value, str) and "{{" in value):
        return value
    number = quantity(value)
    if number is None:
        hint = "write a number such as 2, 500m or 4Gi"
        read.refuse(*where, why=f"{value!r} is not an amount", hint=to_fill_in(value, hint))
        return None
    if kind == "memory":
        if 0 < number < 2**20:
            read.refuse(*where, why=f"{value} is less than a program needs", hint=f"write {value}Mi, if so")
        return math.ceil(number / 2**20)
    return int(number) if number == int(number) else number


def to_fill_in(value: object, hint: str) -> str:
    """Return what to do about a value that is none: to fill a variable of a shell in, or the hint."""
    return "fill it in first: `envsubst < FILE > NEW`" if re.match(r"\$\{?\w", str(value)) else hint


def _other_amount(read: Reading, name: str, where: Path) -> None:
    if _NO_AMOUNT.fullmatch(name):
        read.ignore(*where, why=_FABRIC)
    elif "mig-" in name:
        read.refuse(*where, why=f"{name} is a part of a GPU", hint="ask for it by `batch.directives`")
    else:
        read.refuse(
            *where, why=f"no batch system gives {name!r}", hint="remove it, or ask for nvidia.com/gpu"
        )


def variables(read: Reading, *path: str | int) -> dict[str, str]:
    """Take the list ``env``; return what has a value, and say of the rest where it is to come from.

    ``$(NAME)`` of an earlier variable is filled in, as Kubernetes does.
    """
    node = read.peek(*path)
    if node is not None and not isinstance(node, list):
        read.refuse(*path, why="expected a list", hint="write `- {name: NAME, value: VALUE}`")
    found: dict[str, str] = {}
    for index, item in read.items(*path):
        where = (*path, index)
        name = read.text(*where, "name")
        if not isinstance(item, Mapping) or not name or isinstance(item["name"], (dict, list)):
            read.refuse(*where, why="this is not a variable", hint="write `{name: NAME, value: VALUE}`")
        elif "valueFrom" in item and item["valueFrom"] is not None:
            _value_from(read, name, (*where, "valueFrom"))
        elif isinstance(item.get("value"), (dict, list)):
            read.refuse(*where, "value", why="a variable is one text", hint="write it as one")
        else:
            text = read.text(*where, "value") or ""
            found[name] = _REFERENCE.sub(lambda match: found.get(match[1], match[0]), text)
    return found


def said_in(read: Reading, *path: str | int) -> Path:
    """Return where a container's command stands: at ``command``, else at ``args``."""
    return (*path, "command" if read.peek(*path, "command") else "args")


def exported(name: str) -> str:
    """Return what to do about a variable whose value a server would have known."""
    return f"export {name} in the shell that submits the job, whose variables it gets"


def _value_from(read: Reading, name: str, where: Path) -> None:
    source = read.get(*where)
    if isinstance(source, Mapping) and source.keys() & {"secretKeyRef", "configMapKeyRef"}:
        read.warn(*where, why=f"{name} comes from Kubernetes", hint=exported(name))
    else:
        read.refuse(*where, why=f"{name} would be set by the pod", hint="write its `value`")


def more_variables(read: Reading, *path: str | int) -> None:
    """Take ``envFrom``, whose variables nobody here knows."""
    if read.peek(*path):
        read.get(*path)
        hint = "export them in the shell that submits the job, whose variables it gets"
        read.warn(*path, why="these variables come from Kubernetes", hint=hint)


def words(read: Reading, *path: str | int) -> list[str] | str | None:
    """Take ``command`` or ``args``: a list of words, one text, or None where there is none."""
    node = read.peek(*path)
    if isinstance(node, Mapping) or (isinstance(node, list) and any(_is_section(item) for item in node)):
        read.refuse(*path, why="expected a list of words", hint="write `[python, train.py]`")
        return None
    if not isinstance(node, list):
        return read.text(*path)
    read.get(*path)
    return [text for index, _ in read.items(*path) if (text := read.text(*path, index)) is not None]


def _is_section(item: object) -> bool:
    return isinstance(item, (dict, list))


def as_word(name: str, *, plain: bool = False) -> str:
    """Return the template of a param that a shell reads as one word; a number needs no quotes."""
    return f"{{{{ {name} }}}}" if plain else f"'{{{{ ({name})|replace({_QUOTE}) }}}}'"


def protected(text: str) -> str:
    """Return a text of a form without templates, whose own braces are no template of hpcdist's."""
    return _BRACES.sub(lambda match: "{% raw %}" + match[0] + "{% endraw %}", text)


def finished(read: Reading) -> Imported:
    """Return what was read of a file.

    Raises:
        ConfigError: with all remarks, when there is no command; one of them tells why.
    """
    found = read.finish()
    if "cmd" not in (found.data.get("run") or ()):
        raise ConfigError(*found.remarks)
    return found


def ignore_said(read: Reading, reasons: Mapping[str, str], *above: str | int) -> None:
    """Ignore each key of a table that says something: null, false, and what is empty are taken in silence."""
    for key, why in reasons.items():
        value = read.get(*above, key)
        if value is not None and value is not False and value not in ("", [], {}):
            read.ignore(*above, key, why=why)


def skip_empty(read: Reading) -> None:
    """Count what is there and empty as taken: null, no text, no keys, no items say nothing."""
    for path in list(_empty(read.data, ())):
        read.get(*path)


def _empty(node: object, path: Path) -> Iterator[Path]:
    if path and (node is None or (isinstance(node, (str, dict, list)) and not node)):
        yield path
    below: list[tuple[str | int, object]] = (
        list(node.items())
        if isinstance(node, Mapping)
        else list(enumerate(node))
        if isinstance(node, list)
        else []
    )
    for step, item in below:
        yield from _empty(item, (*path, step))
