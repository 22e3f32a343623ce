"""A launch line taken apart: what mpirun, horovodrun or torchrun were told, and the program that they start.

Options: mpirun(1) of Open MPI 4.1, mpiexec of Hydra (MPICH, Intel MPI), ``horovodrun --help`` 0.28,
``torchrun --help`` 2. A line that does more than start one program stays as it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

_WORD: Final = re.compile(
    r"""(?:[^\s;&|()<>'"`\\$\#] | (?<=\S)\# | \\[^\n] | '[^']*' | "(?:[^"\\]|\\.)*"
    | \$\([^()]*\) | \$\{[^{}]*\} | `[^`]*` | \$)+""",
    re.VERBOSE | re.DOTALL,
)
_SPACE: Final = re.compile(r"(?:[^\S\n]|\\\n)+")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::?-([^{}$]*))?\}|(\w+))")

MPI: Final = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
_MPI: Final = {
    **dict.fromkeys(("n", "np", "c"), "np"),
    **dict.fromkeys(("npernode", "N", "ppn", "perhost"), "per_node"),
    **dict.fromkeys(("hostfile", "machinefile", "default-hostfile", "f", "H", "host", "hosts"), "hosts"),
    **dict.fromkeys(("x",), "x"),
    **dict.fromkeys(("mca", "gmca"), "mca"),
    **dict.fromkeys(("genv", "env"), "genv"),
    **dict.fromkeys(("wdir", "wd"), "folder"),
    "map-by": "map",
    **dict.fromkeys(("bind-to", "rank-by", "iface", "prefix", "cpus-per-proc"), "value"),
    **dict.fromkeys(
        ("allow-run-as-root", "oversubscribe", "nooversubscribe", "report-bindings", "display-map",
         "display-allocation", "tag-output", "timestamp-output", "v", "verbose", "q", "quiet", "l",
         "prepend-rank", "genvall", "envall", "byslot", "bind-to-none", "bind-to-core"), "flag",
    ),
    **dict.fromkeys(("pernode", "bynode"), "each"),
}  # fmt: skip
"""What each option of mpirun is, without its dashes."""
_HOROVOD: Final = {
    **dict.fromkeys(("np", "num-proc", "n"), "np"),
    **dict.fromkeys(("hosts", "H", "hostfile", "host-discovery-script"), "hosts"),
    **dict.fromkeys(("min-np", "min-num-proc", "max-np", "max-num-proc", "reset-limit"), "elastic"),
    **dict.fromkeys(
        ("ssh-port", "p", "ssh-identity-file", "i", "start-timeout", "network-interfaces",
         "network-interface", "elastic-timeout", "slots-per-host", "slots"), "value",
    ),
    **dict.fromkeys(("verbose", "disable-cache"), "flag"),
    **dict.fromkeys(("gloo", "mpi"), "controller"),
}  # fmt: skip
_TORCH: Final = {
    "nproc-per-node": "per_node",
    "nnodes": "nodes",
    "max-restarts": "restarts",
    **dict.fromkeys(
        ("node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id",
         "rdzv-conf", "local-addr"), "value",
    ),
    "standalone": "flag",
}  # fmt: skip
_OWN: Final = frozenset(
    {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "node-rank", "master-addr", "master-port"}
)
"""Options of torchrun that say where the replicas meet, which hpcdist says itself."""


class Line(NamedTuple):
    """What a launch line says; ``command`` is the program with its arguments, as shell text.

    ``per_node`` is a number or a word such as ``auto``; ``by_node``: ranks go to the nodes in turn.
    ``knobs`` are options of horovodrun or torchrun by name; ``dropped`` have no effect here.
    """

    program: str
    command: str
    np: int | None = None
    per_node: str | None = None
    by_node: bool = False
    folder: str = ""
    variables: dict[str, str] = {}
    passed: tuple[str, ...] = ()
    knobs: dict[str, str] = {}
    dropped: tuple[str, ...] = ()


class Unclear(ValueError):  # noqa: N818 - it is no fault
    """Why a launch line stays as it is: words to stand behind `a command`."""


def take_apart(text: str, env: Mapping[str, str], knobs: frozenset[str] = frozenset()) -> Line | None:
    """Return what a launch line says, None for what is no launch line; ``knobs`` are horovodrun's own.

    Raises:
        Unclear: for a launch that cannot be told in another way.
    """
    raw = _words(text)
    assigned: dict[str, str] = {}
    at = 0
    while at < len(raw) and (match := _ASSIGNMENT.fullmatch(raw[at][0])):
        assigned[match[1]] = _value(match[2], env)
        at += 1
    if at < len(raw) and raw[at][0] == "exec":
        at += 1
    if at >= len(raw):
        return None
    program, at = _program([word for word, _ in raw], at)
    table = {"horovodrun": _HOROVOD, "torchrun": _TORCH}.get(program, _MPI)
    if not program:
        return None
    found = _Options(table, env, knobs if program == "horovodrun" else frozenset())
    at = found.read([word for word, _ in raw], at)
    if at >= len(raw):
        raise Unclear("in which no program is started")
    command = text[raw[at][1] :].strip()
    words = [word for word, _ in raw[at:]]
    if ":" in words:
        raise Unclear("which starts several programs")
    if any(re.search(r"\$\(|`|\$RANDOM|\$\$", word) for word in words):
        raise Unclear("whose arguments the shell makes, once")
    return found.line(program, _run_by(program, command), assigned)


def _words(text: str) -> list[tuple[str, int]]:
    """Return the words of one simple command, each with its place; none for anything else."""
    text, at = text.strip(), len(text) - len(text.lstrip())
    found, here = [], 0
    while here < len(text):
        if match := _WORD.match(text, here):
            found.append((match[0], here + at))
        else:
            match = _SPACE.match(text, here)
        if not match:
            if found and re.search(r"(?:^|\W)(?:mpirun|mpiexec\S*|horovodrun|torchrun)\s", text):
                raise Unclear("which does more than start processes")
            return []
        here = match.end()
    return found


def _program(words: list[str], at: int) -> tuple[str, int]:
    name = words[at].rsplit("/", 1)[-1]
    if name in MPI:
        return "mpirun", at + 1
    if name in ("horovodrun", "torchrun"):
        return name, at + 1
    if re.fullmatch(r"python[\d.]*", name) and words[at + 1 : at + 3] == ["-m", "torch.distributed.run"]:
        return "torchrun", at + 3
    return "", at


def _run_by(program: str, command: str) -> str:
    """Return what torchrun would run: a Python script, unless it is told otherwise."""
    if program != "torchrun":
        return command
    first, _, rest = command.partition(" ")
    if first in ("--no-python", "--no_python"):
        return rest.strip()
    module = first in ("-m", "--module")
    return f"python -u -m {rest.strip()}" if module else f"python -u {command}"


def _value(raw: str, env: Mapping[str, str]) -> str:
    """Return what the shell makes of a word, where the file alone says it."""
    text = _VARIABLE.sub(lambda match: _known(match, env), raw) if "'" not in raw else raw
    if re.search(r"[$`]", re.sub(r"'[^']*'|\\.", "", text)):
        raise Unclear(f"of which {raw} is known only when it runs")
    try:
        return "".join(shlex.split(text))
    except ValueError:
        raise Unclear("with a quotation that is not closed") from None


def _known(match: re.Match[str], env: Mapping[str, str]) -> str:
    name, default = match[1] or match[3], match[2]
    return env[name] if name in env else match[0] if default is None else default


class _Options:
    """The options of one launch line, read from left to right."""

    def __init__(self, table: Mapping[str, str], env: Mapping[str, str], knobs: frozenset[str]) -> None:
        self._table, self._env, self._names = table, env, knobs
        self._said: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._passed: list[str] = []
        self._knobs: dict[str, str] = {}
        self._dropped: list[str] = []

    def read(self, words: list[str], at: int) -> int:
        """Return where the program begins."""
        while at < len(words) and words[at].startswith("-") and words[at] not in _PROGRAMS:
            option, equals, glued = words[at], "", ""
            if option.startswith("--"):
                option, equals, glued = option.partition("=")
            name = option.lstrip("-")
            if self._table is _TORCH:
                name = name.replace("_", "-")
            kind = self._table.get(name) or ("knob" if name in self._names else "")
            if not kind and self._names and name.removeprefix("no-") in self._names:
                kind = "knob"
            if not kind:
                raise Unclear(f"whose option {option} is not known here")
            count = {"flag": 0, "each": 0, "controller": 0, "mca": 2, "genv": 2}.get(kind, 1)
            count = 0 if kind == "knob" and self._is_flag(name, words[at + 1 : at + 2]) else count
            rest = [glued] if equals else words[at + 1 : at + 1 + count]
            if len(rest) < count:
                raise Unclear(f"whose option {option} has no value")
            lenient = self._table is _TORCH and kind in ("value", "nodes")
            self._take(kind, name, option, [word if lenient else _value(word, self._env) for word in rest])
            at += 1 if equals else 1 + count
        return at

    def _is_flag(self, name: str, following: list[str]) -> bool:
        """Tell whether an option of Horovod's own has no value: the program follows, or another option."""
        value = r"[\d.]+|[A-Z]+|\S*\.(?:json|csv|log|txt)|/\S*"
        return name.startswith("no-") or not (following and re.fullmatch(value, following[0]))

    def _take(self, kind: str, name: str, option: str, values: list[str]) -> None:
        if kind in ("np", "per_node", "folder", "nodes", "restarts"):
            self._said[kind] = values[0]
        elif kind == "x":
            key, equals, value = values[0].partition("=")
            self._passed.append(key)
            self._variables |= {key: value} if equals else {}
        elif kind == "genv":
            self._variables[values[0]] = values[1]
        elif kind == "mca":
            self._parameter(option, *values)
        elif kind == "map":
            self._map(option, values[0])
        elif kind == "each":
            self._said["per_node" if name == "pernode" else "by_node"] = "1"
        elif kind in ("knob", "elastic", "controller"):
            self._knobs[name] = values[0] if values else ""
        elif kind == "hosts" and values[0].startswith(("/etc/mpi/", "/job/hostfile")):
            return
        elif not (name in _OWN or (name == "bind-to" and values == ["none"])):
            self._dropped.append(" ".join([option, *values]))

    def _parameter(self, option: str, key: str, value: str) -> None:
        """Keep an MCA parameter as the variable that Open MPI reads, but for how pods were reached."""
        if re.match(r"(?:plm_rsh|oob_tcp|orte_keep_fqdn|orte_default_hostfile|ras|plm)", key):
            self._dropped.append(f"{option} {key} {value}")
        else:
            self._variables[f"OMPI_MCA_{key}"] = value

    def _map(self, option: str, value: str) -> None:
        share = re.fullmatch(r"ppr:(\d+):node(?::.*)?", value)
        if share:
            self._said["per_node"] = share[1]
        elif value.startswith("node"):
            self._said["by_node"] = "1"
        elif value.startswith("ppr:"):
            raise Unclear(f"in which {option} {value} counts by less than a node")
        elif value != "slot":
            self._dropped.append(f"{option} {value}")

    def line(self, program: str, command: str, assigned: dict[str, str]) -> Line:
        """Return all of it."""
        np = self._said.get("np")
        if np is not None and not np.isdecimal():
            raise Unclear(f"in which {np!r} is no number of processes")
        return Line(
            program=program,
            command=command,
            np=int(np) if np else None,
            per_node=self._said.get("per_node"),
            by_node="by_node" in self._said,
            folder=self._said.get("folder", ""),
            variables=assigned | self._variables,
            passed=tuple(self._passed),
            knobs=self._knobs | {key: self._said[key] for key in ("nodes", "restarts") if key in self._said},
            dropped=tuple(self._dropped),
        )


_PROGRAMS: Final = frozenset({"-m", "--module", "--no-python", "--no_python"})
"""Options of torchrun that belong to what it starts."""
