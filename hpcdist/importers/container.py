"""Reads a Kubernetes container for a batch job: resources, variables, and its command.

Fields: ``v1.Container``
(https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from hpcdist.base.errors import ConfigError, Path
from hpcdist.base.words import join_commands, quote
from hpcdist.importers import Imported
from hpcdist.importers.reading import Reading, steps_of

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
_FABRIC: Final = "the site file configures network and disks"
_NO_AMOUNT: Final = re.compile(
    r"ephemeral-storage|hugepages-.*|vpc\.amazonaws\.com/efa|(?:.*\.)?rdma/.*|networking\.gke\.io.*"
    r"|[\w.-]+/(?:[\w-]*(?:mlnx|rdma|roce|sriov|hostdev|macvlan|hca|infiniband)[\w-]*"
    r"|resibp\w*|ib(?:[\d_p-][\w-]*)?|nics?|cx\d\w*)"
)
"""Resources for disks and network devices, by the names of their device plug-ins."""
_CHANNEL: Final = re.compile(r"channel|domain|imex|rdma|roce", re.IGNORECASE)
"""Names of claims that request the network between GPUs (NVIDIA's DRA driver, ``ComputeDomain``)."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
_MOUNTS: Final = "nothing is mounted; write the path of the site's own file system in the command"
_POD: Final = "it applies to pods only"
_PROGRAM: Final = re.compile(r"(?:.*/)?(?:python[\d.]*|(?:ba|da)?sh|mpirun|mpiexec|horovodrun|deepspeed"
                             r"|torchrun|accelerate|bpslaunch)|.*\.(?:py|sh)")  # fmt: skip
_SHELL: Final = re.compile(r"(?:/\S*/)?(?:env )?(?:ba|da|z)?sh")
_FLAGS: Final = re.compile(r"-[ceuxlo]+")
_BRACES: Final = re.compile(r"\{\{|\{%")
_QUOTE: Final = r'''"'", "'\\''"'''
IGNORED: Final = {
    "name": "a job has one container",
    "imagePullPolicy": "the site's container runtime gets images",
    "ports": "the nodes of a job reach each other on all ports",
    "volumeMounts": _MOUNTS,
    "volumeDevices": _MOUNTS,
    "securityContext": "the job runs as you, with your own rights",
    **dict.fromkeys(
        ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "stdin", "stdinOnce", "tty",
         "terminationMessagePath", "terminationMessagePolicy", "restartPolicy", "resizePolicy"), _POD,
    ),
}  # fmt: skip
"""Keys of a container that have no effect on a batch machine, and why."""


def quantity(value: object) -> float | None:
    """Return a Kubernetes quantity as a number, None for anything else: ``500m`` is 0.5, ``1Ki`` 1024."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if not match:
        return None
    return float(match[1]) * 10.0 ** int(match[2] or 0) * _SCALES[match[3] or ""]


def amounts(read: Reading, *path: str | int) -> dict[str, dict[str, object]]:
    """Take ``resources`` of a container; return the resources of a replica, with memory in whole MiB."""
    found: dict[str, dict[str, object]] = {}
    for level in ("requests", "limits"):
        for name in read.keys(*path, level):
            where = (*path, level, name)
            kind = _KINDS.get(name)
            if kind is None:
                _other_amount(read, name, where)
            elif (amount := _amount(read, kind, where)) is not None:
                found.setdefault(kind, {})[level] = amount
    check_claims(read, *path, "claims")
    return found


def check_claims(read: Reading, *path: str | int) -> None:
    """Check claims of devices, whose contents are not in the file."""
    for index, item in read.items(*path):
        where = (*path, index)
        read.get(*where)
        if _CHANNEL.search(str(item)):
            read.warn(*where, why=f"this claim has no effect: {_FABRIC}")
        else:
            hint = "request nvidia.com/gpu and remove the claim"
            read.refuse(*where, why="the file does not say what this claim requests", hint=hint)


def _amount(read: Reading, kind: str, where: Path) -> object:
    value = read.get(*where)
    if value is None:
        read.warn(*where, why="no amount is given, so none is requested", hint="write a number")
    if value is None or (isinstance(value, str) and "{{" in value):
        return value
    number = quantity(value)
    if number is None:
        hint = "write a number such as 2, 500m or 4Gi"
        read.refuse(*where, why=f"{value!r} is not an amount", hint=read.value_hint(value, hint))
        return None
    if kind == "memory":
        if 0 < number < 2**20:
            read.refuse(
                *where, why=f"{value} is less than a program needs", hint=f"write {value}Mi for mebibytes"
            )
        return math.ceil(number / 2**20)
    return int(number) if number == int(number) else number


def _other_amount(read: Reading, name: str, where: Path) -> None:
    if _NO_AMOUNT.fullmatch(name):
        read.ignore(*where, why=_FABRIC)
    elif "mig-" in name:
        read.refuse(*where, why=f"{name} is a part of a GPU", hint="request it with `batch.directives`")
    else:
        read.refuse(
            *where,
            why=f"batch systems have no resource {name!r}",
            hint="remove it, or request nvidia.com/gpu",
        )


def variables(read: Reading, *path: str | int, fields: Mapping[str, str] = _NO_FIELDS) -> dict[str, str]:
    """Take the list ``env``; return those with a value, and report the others.

    ``$(NAME)`` of an earlier variable is expanded, as Kubernetes does. ``fields``: the values of the
    pod's fields, by their paths.
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
        elif field := fields.get(str(read.peek(*where, "valueFrom", "fieldRef", "fieldPath"))):
            read.get(*where)
            read.warn(*where, why=f"{name} is {field}: a batch job has no pods")
            found[name] = field
        elif "valueFrom" in item and item["valueFrom"] is not None:
            _value_from(read, name, (*where, "valueFrom"))
        elif isinstance(item.get("value"), (dict, list)):
            read.refuse(*where, "value", why="the value of a variable must be text", hint="write it as text")
        else:
            text = read.text(*where, "value") or ""
            found[name] = _REFERENCE.sub(lambda match: found.get(match[1], match[0]), text)
    return found


def is_program(word: str) -> bool:
    """Return whether the first word of ``args`` is a program, not an argument of the image's program."""
    return bool(_PROGRAM.fullmatch(word))


def command_path(read: Reading, *path: str | int) -> Path:
    """Return the path of a container's command: ``command``, else ``args``."""
    return (*path, "command" if read.peek(*path, "command") else "args")


def export_hint(name: str) -> str:
    """Return the hint for a variable whose value only a server has."""
    return f"export {name} in the shell that submits the job; the job inherits its variables"


def _value_from(read: Reading, name: str, where: Path) -> None:
    source = read.get(*where)
    if isinstance(source, Mapping) and source.keys() & {"secretKeyRef", "configMapKeyRef"}:
        read.warn(*where, why=f"{name} comes from Kubernetes", hint=export_hint(name))
    else:
        read.refuse(*where, why=f"{name} would be set by the pod", hint="write its `value`")


def read_env_from(read: Reading, *path: str | int) -> None:
    """Take ``envFrom``, whose variables are unknown here."""
    if read.peek(*path):
        read.get(*path)
        hint = "export them in the shell that submits the job; the job inherits its variables"
        read.warn(*path, why="these variables come from Kubernetes", hint=hint)


def words(read: Reading, *path: str | int) -> list[str] | str | None:
    """Take ``command`` or ``args``: a list of words, one text, or None without either."""
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


def script_of(words: list[str]) -> str | None:
    """Return the script of ``sh -c``, None for any other command."""
    if not words or not _SHELL.fullmatch(words[0]):
        return None
    options, rest = "", words[1:]
    while "c" not in options and rest and _FLAGS.fullmatch(rest[0]):
        piped = "o" in rest[0] and rest[1:2] == ["pipefail"]
        options, rest = options + rest[0][1:] + "p" * piped, rest[1 + piped :]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if "c" not in options or options.count("o") != options.count("p") or len(rest) != 1:
        return None
    own = "".join(letter for letter in "eux" if letter in options)
    set_own = " ".join(["set", *[f"-{own}"] * bool(own), *["-o pipefail"] * ("p" in options)])
    return (f"{set_own}\n" if set_own != "set" else "") + rest[0].strip("\n")


def as_word(name: str, *, plain: bool = False) -> str:
    """Return the template of a param that a shell reads as one word; a number needs no quotes."""
    return f"{{{{ {name} }}}}" if plain else f"'{{{{ ({name})|replace({_QUOTE}) }}}}'"


def escape_templates(text: str) -> str:
    """Escape braces in a text, so that hpcdist reads none as a template."""
    return _BRACES.sub(lambda match: "{% raw %}" + match[0] + "{% endraw %}", text)


def finish_with_command(read: Reading) -> Imported:
    """Return the native form, which must have a program.

    Raises:
        ConfigError: with all remarks, if it has no program; one remark gives the reason.
    """
    found = read.finish()
    if not {"cmd", "entrypoint"} & set(found.data.get("run") or ()):
        raise ConfigError(*found.remarks)
    return found


def ignore_set_keys(read: Reading, reasons: Mapping[str, str], *above: str | int) -> None:
    """Ignore each key of a table that is set; null, false and empty values cause no warning."""
    for key, why in reasons.items():
        value = read.get(*above, key)
        if value is not None and value is not False and value not in ("", [], {}):
            read.ignore(*above, key, why=why)


def skip_empty(read: Reading) -> None:
    """Mark null and empty values as read."""
    for path in list(_empty(read.data, ())):
        read.get(*path)


def _empty(node: object, path: Path) -> Iterator[Path]:
    if path and (node is None or (isinstance(node, (str, dict, list)) and not node)):
        yield path
    for step in steps_of(node):
        yield from _empty(node[step], (*path, step))  # type: ignore[index]


# --- The shell context of a placeholder, and the quotes in which a variable in its place is expanded

COMMENT: Final = "#"
LINES: Final = "<<"
"""A here-document, in which variables are expanded, and quotes are plain characters."""
PLAIN_LINES: Final = "<<'"
"""A here-document with a quoted delimiter, in which nothing is expanded."""

_AROUND: Final = {"": '"', "'": "'\"", '"': "", COMMENT: "", LINES: "", PLAIN_LINES: ""}
"""The quotes to open so that a variable is expanded as one word, by the context around it."""
_TRANSITIONS: Final = {
    "": re.compile(
        r"""\\. | (?P<quote>['"]) | (?P<comment>(?:\A|(?<=[\s;&|()]))\#) | <<<
        | \(\([^\n]*?\)\) | (?P<line>\n)
        | <<(?P<tabs>-?)[ \t]*(?P<mark>['"]?)(?P<escape>\\?)(?P<word>[A-Za-z_][\w.-]*)(?P=mark)""",
        re.VERBOSE | re.DOTALL,
    ),
    "'": re.compile(r"(?P<quote>')"),
    '"': re.compile(r'\\.|(?P<quote>")', re.DOTALL),
    COMMENT: re.compile(r"(?=(?P<line>\n))"),
}


class _Advice(NamedTuple):
    message: str
    hint: str


NOT_EXPANDED: Final = _Advice(
    "a here-document with a quoted delimiter, in which nothing is expanded",
    "it is known only when the job runs: write the delimiter without quotes, `<<EOF`",
)
"""The problem of a value of the job in ``PLAIN_LINES``, and what to write instead."""


class _Lines(NamedTuple):
    """A here-document that begins on the next line; ``end`` matches its last line."""

    within: str
    end: re.Pattern[str]


class Quoting:
    """Reads a command piece by piece; ``within`` is the context after what was read.

    It is a quote, ``COMMENT``, ``LINES``, ``PLAIN_LINES``, or empty (Bash Reference Manual, 3.1 and 3.6.6).
    """

    def __init__(self, command: str) -> None:
        self.within = ""
        self._command = command
        self._previous = ""
        self._pending: list[_Lines] = []

    def expanded(self, text: str) -> str:
        """Return text with variables, in the quotes with which the shell expands it here as one word.

        In ``PLAIN_LINES`` no quotes do so.
        """
        self.value()
        around = _AROUND[self.within]
        return around + text + around[::-1]

    def value(self) -> None:
        """Skip a value; no comment can begin directly after it."""
        self._previous = "x"

    def read(self, text: str) -> None:
        """Read the next piece of the command."""
        text, at = self._previous + text, len(self._previous)
        while match := self._pattern().search(text, at):
            at = match.end()
            self._transition(match)
        self._previous = text[-1:]

    def _pattern(self) -> re.Pattern[str]:
        return self._pending[0].end if self.within in (LINES, PLAIN_LINES) else _TRANSITIONS[self.within]

    def _transition(self, match: re.Match[str]) -> None:
        found = match.groupdict()
        if self.within in (LINES, PLAIN_LINES):
            del self._pending[0]
            self._next_line()
        elif found.get("quote"):
            self.within = "" if self.within else found["quote"]
        elif found.get("comment"):
            self.within = COMMENT
        elif found.get("line"):
            self._next_line()
        elif found.get("word"):
            tabs = "\t*" if found["tabs"] else ""
            end = re.compile(rf"(?<=\n){tabs}{re.escape(found['word'])}(?=\n|\Z)")
            within = PLAIN_LINES if found["mark"] or found["escape"] else LINES
            if end.search(self._command):  # without an end, it is a shift: $((a << b))
                self._pending.append(_Lines(within, end))

    def _next_line(self) -> None:
        self.within = self._pending[0].within if self._pending else ""


def in_folder(folder: str, command: str) -> str:
    """Return a command with a change to a folder; ``~`` is the home directory."""
    folder = folder.rstrip("/") or folder[:1]
    word = f"~/{quote(folder[2:])}" if folder.startswith("~/") else quote(folder)
    return command if folder in ("", ".") else join_commands([f"cd {word}", command])


# --- Loops in which a command waits until other pods answer: without pods they never end

_LEAD: Final = r"(?P<lead>(?:\A|[;&|\n{(]|\b(?:do|then|else)\b)\s*)"
_LOOP: Final = re.compile(
    _LEAD + r"(?P<head>(?:until|while|for)\b(?:\\\n|[^;\n])*)(?:;|\n)\s*do\b"
    r"(?P<body>(?:(?!\b(?:do|done)\b).)*)\bdone\b(?:[ \t]*\d?[<>]+&?[ \t]*\S+)*", re.DOTALL
)  # fmt: skip
_SSHD: Final = re.compile(
    _LEAD + r"(?:/usr/sbin/sshd\b[^;&|\n]*|(?:service +|/etc/init\.d/)sshd? +(?:re)?start\b)"
)
_ASKS: Final = re.compile(
    r"(?:until|while\s+!)\s+(?:timeout\s+\S+\s+)?(?:sshpass\s+\S+\s+\S+\s+)?"
    r"(ssh|ssh-keyscan|nslookup|getent|ping|host|dig|nc)\s.*", re.DOTALL
)  # fmt: skip
_IDLE: Final = re.compile(
    r"\s*(?:(?:if|then|elif|else|fi)\b\s*)*"
    r"(?:(?:sleep|echo|printf|date|let|exit|return|break|continue|true)\b.*|:|\[.*|\(\(.*|\w+=.*|\0)?\s*",
    re.DOTALL,
)  # fmt: skip
"""A statement that only waits or reports; NUL stands for a loop that does."""
_CLEAN: Final = (
    (re.compile(r"[^\n;&|]*\|\s*\0"), "\0"),
    (re.compile(r"(\b(?:then|do|else)\s+|[{(]\s*)\0"), r"\1:"),
    (re.compile(r"[ \t]*(?:&&|;)[ \t]*\0(?=[ \t]*(?:\n|\Z))"), ""),
    (re.compile(r"\0[ \t]*(?:\|\|[^;&\n]*)?(?:;|&&|\n|\Z)\s*"), ""),
    (re.compile(r"\0"), ":"),
)


def without_waits(command: str) -> tuple[str, str]:
    """Return a command without the loops that wait for other pods, and the head of the first, or "".

    Raises:
        ValueError: with the head of a loop that waits for an sshd and does more.
    """
    heads: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        head, idle = (
            match["head"].strip(),
            all(map(_IDLE.fullmatch, re.split(r"[;\n]|&&|\|\|", match["body"]))),
        )
        asks = _ASKS.fullmatch(head)
        if asks and not idle and asks[1].startswith("ssh"):
            raise ValueError(head)
        if not idle or not (asks or "\0" in match["body"]):
            return match[0]
        heads.extend([head] if asks else [])
        return f"{match['lead']}\0"

    text, before = _SSHD.sub(r"\g<lead>\0", command), ""
    while text != before:
        text, before = _LOOP.sub(replacement, text), text
    if text == command:
        return command, ""
    for pattern, instead in _CLEAN:
        text = pattern.sub(instead, text)
    return (text.strip(), heads[0] if heads else "sshd") if text.strip() else (command, "")


def drop_waits(read: Reading, command: str, *path: str | int) -> str:
    """Return a command without the loops that wait for other pods, with a warning."""
    why = "all nodes are allocated before anything starts, and none has an sshd of the job"
    try:
        text, head = without_waits(command)
    except ValueError as error:
        why = f"no node has an sshd of the job, so `{error}` would wait until the time limit"
        read.refuse(*path, why=why, hint="remove the loop: all nodes are allocated before anything starts")
        return command
    if head:
        read.warn(*path, why=f"`{head}` has no effect: {why}")
    return text
