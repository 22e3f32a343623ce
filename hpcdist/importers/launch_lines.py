"""Parses launch lines: the options of mpirun, horovodrun or torchrun, and the program that they start.

A line that does more than start one program is not converted. ``-x A=$B`` becomes an assignment before the
program, which each task's shell expands.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpcdist.base.errors import Path
from hpcdist.base.words import VARIABLE_NAME, quote
from hpcdist.experiment.launch_line import user_launch
from hpcdist.experiment.launch_options import HOROVOD, MPI, TORCH, Option, names_that_begin, read_options
from hpcdist.experiment.shell_words import ASSIGNMENT, expand, single_command
from hpcdist.importers.job import ForeignJob, Role
from hpcdist.importers.reading import Reading

# --- The values of words, if the file determines them

_DEFAULT: Final = re.compile(r"\$\{(\w+):?-([^{}$]*)\}")
_LITERAL: Final = re.compile(r"'[^']*'|\\.", re.DOTALL)
_DYNAMIC: Final = re.compile(r"\$\(|`|\$\$|\$\{?RANDOM\b")
"""Expansions that may give another value each time."""


class UnsupportedLaunch(ValueError):  # noqa: N818 - it is not an error
    """A launch line that is not converted; the message continues `a command`."""


def is_expanded_once(word: str) -> bool:
    """Return whether only the launcher's shell may expand a word: tasks might get other values."""
    return bool(_DYNAMIC.search(_LITERAL.sub("", word)))


def value_of(raw: str, env: Mapping[str, str]) -> str:
    """Return a word as the shell expands it.

    Raises:
        UnsupportedLaunch: when it needs a variable that is not in ``env``.
    """

    def unknown(text: str) -> str:
        if (default := _DEFAULT.fullmatch(text)) is None:
            raise UnsupportedLaunch(f"whose word {raw} is known only at run time")
        return env.get(default[1], default[2])

    return expand(raw, env, unknown)


def variable(raw: str, env: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the name, the value and the text of ``NAME=VALUE``, or of ``NAME``.

    If the shell must expand the value, it is empty and the text sets the variable before a program;
    else the text is empty.

    Raises:
        UnsupportedLaunch: when the name is invalid, or the value may differ each time.
    """
    if is_expanded_once(raw):
        raise UnsupportedLaunch(f"whose word {raw} is known only at run time")
    written, _, rest = raw.partition("=")
    quotation = '"' if written[:1] == '"' else ""
    try:
        name, _, value = value_of(raw, env).partition("=")
        text = ""
    except UnsupportedLaunch:
        name, value = written.removeprefix(quotation), ""
        text = f"{name}={quotation}{rest}"
    if not VARIABLE_NAME.fullmatch(name):
        raise UnsupportedLaunch(f"whose variable {name!r} has no valid name")
    return name, value, text


# --- The options of mpirun, horovodrun and torchrun, and their conversion
#
# The meaning of each option, with its source: ``hpcdist.experiment.launch_options``.

_RENDEZVOUS: Final = frozenset(
    {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "node-rank", "master-addr", "master-port"}
)
"""Options of torchrun's rendezvous, which hpcdist sets itself."""
_DEFAULT_RANKING: Final = ("rank-by", "slot")
"""The ranking that hpcdist's launch uses with every launcher; the site configures binding."""
_SYSTEM_HOSTFILES: Final = ("/etc/mpi/", "/job/hostfile", "/generated/hostfile")
"""Where Kubeflow, AWS and Gradient write the hosts of the job, which hpcdist's launch replaces."""
_CONNECTION_PARAMETERS: Final = re.compile(
    r"(?:plm|ras|oob_tcp|orte_keep_fqdn|orte_default_hostfile|orte_set_default_slots)"
)
_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+")
"""A word that Python's argparse reads as a value although it begins like an option."""


_TABLES: Final = {"mpirun": MPI, "horovodrun": HOROVOD, "torchrun": TORCH}


@dataclass
class Line:
    """A parsed launch line."""

    program: str
    command: str = ""
    """The program with its arguments, as shell text."""
    np: int | None = None
    per_node: str | None = None
    """A number, or a word such as ``auto``."""
    by_node: bool = False
    """Whether ranks go to the nodes in turn."""
    folder: str = ""
    hosts: str = ""
    """The hosts that the line names, empty for the hostfile that its system writes."""
    variables: dict[str, str] = field(default_factory=dict)
    """The variables whose values are known."""
    passed: list[str] = field(default_factory=list)
    """The variables that are exported by name only."""
    knobs: dict[str, str | None] = field(default_factory=dict)
    """Options of horovodrun by name, None for those without a value."""
    nodes: str = ""
    """Of torchrun, as the next one."""
    restarts: str = ""
    dropped: list[str] = field(default_factory=list)
    """Words that have no effect here."""
    before: list[str] = field(default_factory=list)
    """Assignments before the program, which each task's shell expands."""


class _Options:
    """The options of one launch line, read from left to right into ``line``."""

    def __init__(self, line: Line, env: Mapping[str, str]) -> None:
        self.line, self._table, self._env = line, _TABLES[line.program], env
        self._mca: dict[str, str] = {}

    def read(self, words: list[str]) -> int:
        """Return how many of the words behind the launcher are options.

        Raises:
            UnsupportedLaunch: when hpcdist's own launch has no equivalent.
        """
        options, end = read_options(self.line.program, [expand(word, self._env) for word in words])
        for option in options:
            self._read(option, words[option.start : option.end])
        return end

    def assign(self, raw: str) -> None:
        """Set a variable for the program, in place of an earlier value."""
        name, value, text = variable(raw, self._env)
        line = self.line
        line.before = [item for item in line.before if not item.startswith(f"{name}=")]
        line.variables.pop(name, None)
        if text:
            line.before.append(text)
        else:
            line.variables[name] = value

    def _read(self, option: Option, words: list[str]) -> None:
        name, equals, _ = expand(words[0], {}).partition("=")
        written = name.removesuffix(option.value) if option.glued and not equals else name
        kind = self._table.get(option.name, "")
        if len(meant := names_that_begin(self._table, option.name)) > 1:
            raise UnsupportedLaunch(f"whose option {written} may be {' or '.join(meant)}")
        if not kind:
            raise UnsupportedLaunch(f"whose option {written} has no equivalent")
        if option.glued and kind in ("switch", "controller"):
            raise UnsupportedLaunch(f"whose option {written} takes no value")
        if option.lacks_value or (self._table is not MPI and any(map(_is_option, words[1:]))):
            raise UnsupportedLaunch(f"whose option {written} has no value")
        raw = [self._glued(words[0], option)] if option.glued else words[1:]
        if kind == "variable" and "=" not in raw[0]:
            self.line.passed.append(variable(raw[0], self._env)[0])
        elif kind in ("variable", "genv"):
            self.assign("=".join(raw))
        elif self._table is TORCH and kind in ("value", "nodes"):  # may be known only at run time
            self._store(kind, option.name, written, raw[:1])
        else:
            self._store(kind, option.name, written, [value_of(word, self._env) for word in raw])

    def _glued(self, raw: str, option: Option) -> str:
        """Return the raw value in the word of an option, which may be quoted as a whole."""
        name, equals, value = raw.partition("=")
        if equals and name.startswith("-"):
            return value
        return quote(value_of(raw, self._env).partition("=")[2] or option.value)

    def _store(self, kind: str, name: str, option: str, values: list[str]) -> None:  # noqa: C901 - a table
        """Store an option in native form; list any other in ``dropped``."""
        line = self.line
        if kind == "np":
            if not values[0].isdecimal():
                raise UnsupportedLaunch(f"in which {values[0]!r} is not a number of processes")
            line.np = int(values[0])
        elif kind == "per_node":
            is_number = values[0].isascii() and values[0].isdecimal()
            line.per_node = str(int(values[0])) if is_number else values[0]
        elif kind in ("folder", "nodes", "restarts"):
            setattr(line, kind, values[0])
        elif kind == "names":
            line.passed += values[0].split(",")
        elif kind == "mca":
            self._parameter(option, *values)
        elif kind == "map":
            self._map(option, values[0])
        elif kind == "each":
            line.per_node, line.by_node = ("1", line.by_node) if name == "pernode" else (line.per_node, True)
        elif kind in ("knob", "switch", "elastic", "controller"):
            line.knobs[name] = values[0] if values else None
        elif kind in ("hosts", "hostfile"):
            if not values[0].startswith(_SYSTEM_HOSTFILES):
                line.hosts = values[0]
                line.dropped.append(f"{option} {values[0]}")
        elif not (name in _RENDEZVOUS or (name, *values) == _DEFAULT_RANKING):
            line.dropped.append(" ".join([option, *values]))

    def _parameter(self, option: str, key: str, value: str) -> None:
        """Convert an MCA parameter to Open MPI's variable; drop those for reaching the hosts.

        Variables are used instead of words in ``batch.launcher.args``: mpirun passes its parameters to the
        ranks as these variables (mpirun(1), "MCA"), so a rank sees the same; they also work if the site's
        launcher is srun, which has no such option; and `hpcdist lint` knows their names. If one is set twice,
        its values are joined by a comma (mpirun(1)).
        """
        if _CONNECTION_PARAMETERS.match(key):
            self.line.dropped.append(f"{option} {key} {value}")
        else:
            self._mca[key] = f"{self._mca[key]},{value}" if key in self._mca else value
            self.line.variables[f"OMPI_MCA_{key}"] = self._mca[key]

    def _map(self, option: str, value: str) -> None:
        """Take the processes of a node, or round-robin placement; modifiers are dropped."""
        shared = re.fullmatch(r"ppr:(\d+):node(?::(.+))?", value)
        policy, _, behind = value.partition(":")
        if shared:
            self.line.per_node, behind = str(int(shared[1])), shared[2] or ""
        elif policy == "node":
            self.line.by_node = True
        elif policy == "ppr":
            raise UnsupportedLaunch(f"in which {option} {value} counts by a part of a node")
        elif policy != "slot":
            self.line.dropped.append(f"{option} {value}")
            behind = ""
        if behind:
            self.line.dropped.append(f"{behind} of {option}")


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not _NUMBER.fullmatch(word)


# --- Parses launch lines

__all__ = ["Line", "UnsupportedLaunch", "parse_launch_line"]

_NAMES: Final = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
_LAUNCH: Final = re.compile(r"(?:^|[^\w-])(?:mpirun|mpiexec\S*|orterun|horovodrun|torchrun)\s")


def parse_launch_line(text: str, env: Mapping[str, str]) -> Line | None:
    """Parse a launch line; return None for any other command.

    ``env`` are the variables that the file sets.

    Raises:
        UnsupportedLaunch: for a launch that cannot be converted.
    """
    found = single_command(text)
    words = [word for word, _ in found]
    start = next((at for at, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)), len(words))
    program, at = _program(words, start + (words[start : start + 1] == ["exec"]))
    if not program:
        if not found and _LAUNCH.search(text):
            raise UnsupportedLaunch("which does more than start processes")
        return None
    line = Line(program)
    options = _Options(line, env)
    for word in words[:start]:
        options.assign(word)
    at += options.read(words[at:])
    _check_program(words[at:])
    text = _program_text(program, text[found[at][1] :].strip())
    line.command, line.before = " ".join([*line.before, text]), []
    return line


def _program(words: list[str], at: int) -> tuple[str, int]:
    """Return the launcher at a position, and the position of its options."""
    name = words[at].rsplit("/", 1)[-1] if at < len(words) else ""
    if name in _NAMES:
        return "mpirun", at + 1
    if name in ("horovodrun", "torchrun"):
        return name, at + 1
    if re.fullmatch(r"python[\d.]*", name) and words[at + 1 : at + 3] == ["-m", "torch.distributed.run"]:
        return "torchrun", at + 3
    return "", at


def _check_program(words: list[str]) -> None:
    if not words:
        raise UnsupportedLaunch("in which no program is started")
    if ":" in words:
        raise UnsupportedLaunch("which starts several programs")
    if any(map(is_expanded_once, words)):
        raise UnsupportedLaunch("whose arguments the shell expands only once")


def _program_text(program: str, command: str) -> str:
    """Return the command of torchrun's program, a Python script unless an option changes that."""
    if program != "torchrun":
        return command
    first, _, rest = command.partition(" ")
    if first in ("--no-python", "--no_python"):
        return rest.strip()
    module = first in ("-m", "--module")
    return f"python -u -m {rest.strip()}" if module else f"python -u {command}"


# --- Refuses launches that hpcdist runs once, in files whose system runs them in every replica


def refuse_launch_per_replica(read: Reading, command: str, total: int, path: Path, *, advice: str) -> bool:
    """Refuse such a launch if there are several replicas; return whether it was refused.

    ``advice`` is the hint; ``{program}`` in it is the launcher, ``{framework}`` what it would start.
    """
    launch = user_launch(command)
    if total == 1 or launch is None or launch.runs != "once":
        return False
    framework = "horovod" if launch.program == "horovodrun" else "mpi"
    hint = advice.format(program=launch.program, framework=framework)
    if launch.program == "deepspeed":
        hint = "write torchrun instead, which runs in each replica"
    why = f"hpcdist runs a command with {launch.program} once, on the first node, and not in {total} replicas"
    read.refuse(*path, why=why, hint=hint)
    return True


# --- The ranks of a launch line on the replicas of a job: mpirun fills one replica after the other


class RankCount(NamedTuple):
    """The number of replicas on which a line starts processes, and of processes on each."""

    replicas: int
    each: int


def ranks_of(read: Reading, line: Line, room: RankCount, path: Path, sizes: str) -> RankCount:
    """Return the ranks that a line starts in a job with that room; ``sizes`` names the keys that set it.

    Replicas without processes are not requested, with a warning. A number that does not fit
    is refused.
    """
    is_number = bool(line.per_node and re.fullmatch(r"[1-9]\d{0,5}", line.per_node, re.ASCII))
    each = int(line.per_node or 0) if is_number else room.each
    total, np = room.replicas * each, line.np
    if line.per_node and not is_number:
        why = f"{line.per_node!r} is not a number of processes on each node"
        read.refuse(*path, why=why, hint="write one such as 4")
    elif line.by_node and np and np < total and np % room.replicas == 0 and not line.per_node:
        return RankCount(room.replicas, np // room.replicas)
    elif np is not None and np != total:
        if 0 < np < total and (np < each or np % each == 0):
            return _fewer(read, line, RankCount(room.replicas, each), path)
        why = (
            f"{line.program} is to start {np} processes; {room.replicas} workers with {each} each are {total}"
        )
        read.refuse(*path, why=why, hint=f"write -np {total}, or other {sizes}")
    return RankCount(room.replicas, each)


def _fewer(read: Reading, line: Line, room: RankCount, path: Path) -> RankCount:
    np = line.np or 0
    found = RankCount(max(1, np // room.each), min(np, room.each))
    if found.replicas < room.replicas:
        number = f"{np} process{'es' * (np > 1)}"
        where = f"{found.replicas} of {room.replicas} workers"
        why = f"{line.program} starts {number} (-np) on {where}: no other is requested"
        read.warn(*path, why=why, hint=f"write -np {room.replicas * room.each} for all")
    return found


def report_line(read: Reading, line: Line, known: Container[str], path: Path) -> None:
    """Warn about words of a launch line without effect, and variables without a value in the file."""
    if line.dropped:
        why = f"hpcdist starts the processes itself, so these words have no effect: {', '.join(line.dropped)}"
        read.warn(*path, why=why)
    for name in line.passed:
        if name not in known and name not in line.variables and name not in _OF_SITES:
            hint = f"export {name} in the shell that submits the job, if the program needs it"
            read.warn(*path, why=f"the value of {name} is not in this file", hint=hint)


_OF_SITES: Final = frozenset({"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"})
"""Variables that the site's modules set."""


def put_unchanged(read: Reading, job: ForeignJob, why: str, workers: Role, path: Path) -> None:
    """Leave the launch to the command, which runs once, over the workers."""
    reason = f", {why}," if why else ""
    message = f"this command{reason} runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`"
    read.warn(*path, why=message)
    job.set("backend", "mpi", *path)
    job.roles = {"worker": workers}
