"""The ``mpirun`` of a master command, taken apart: what it says of processes, and the program as written.

The options are those of Open MPI's mpirun(1), and of MPICH's and Intel MPI's what Open MPI has not.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, Final, NamedTuple

from hpcdist.words import VARIABLE_NAME

HOSTFILE: Final = "/generated/hostfile"
"""Where Gradient puts the hostfile (its documentation, "Distributed Training using Horovod")."""
_PROGRAMS: Final = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
_WORD: Final = re.compile(
    r"""(?:[^\s'"\\;&|<>()`] | \\. | '[^']*' | "(?:[^"\\]|\\.)*")+""", re.VERBOSE | re.DOTALL
)
_SPACE: Final = re.compile(r"(?:[ \t]|\\\n)*")
_COMPUTED: Final = re.compile(r"\$\(|`")
_LITERAL: Final = re.compile(r"'[^']*'")
_QUOTED: Final = re.compile(
    rf"""'[^']*' | "(?:[^"\\]|\\.)*" | \\. | {HOSTFILE}(?![\w.-])""", re.VERBOSE | re.DOTALL
)
_HERE: Final = re.compile(rf"{HOSTFILE}(?![\w.-])")
_PAIRS: Final = frozenset({"mca", "gmca"})
_FLAGS: Final = frozenset(
    ("oversubscribe", "nooversubscribe", "tag-output", "timestamp-output", "report-bindings", "display-map",
     "display-allocation", "show-progress", "v", "verbose", "q", "quiet")
)  # fmt: skip
_VALUED: Final = frozenset({"bind-to", "timeout", "output-filename", "am", "tune"})
_OURS: Final = frozenset({("bind-to", "none"), ("map-by", "slot"), ("rank-by", "slot")})
"""What hpcdist's own launch says too."""
_PPR: Final = re.compile(r"ppr:(\d+):node")
_TAKEN: Final = {
    **dict.fromkeys(("np", "n", "c"), "tasks"),
    **dict.fromkeys(("npernode", "N", "ppn", "perhost"), "each"),
    **dict.fromkeys(("hostfile", "machinefile", "default-hostfile", "f", "H", "host", "hosts"), "hosts"),
    **dict.fromkeys(("wdir", "wd"), "folder"),
}


class Line(NamedTuple):
    """A launch: the processes in all (``tasks``) and of ``each`` node as written, None where they are not.

    ``program`` is the text that each process runs; ``sets`` the variables of ``-x NAME=VALUE``, ``named``
    those of ``-x NAME``; ``args`` what mpirun itself is to be given; ``dropped`` what nobody needs; ``hosts``
    and ``folder`` as written.
    """

    program: str = ""
    tasks: str | None = None
    each: str | None = None
    hosts: str | None = None
    folder: str | None = None
    sets: tuple[tuple[str, str], ...] = ()
    named: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def taken_apart(text: str) -> Line | str:
    """Return what such a command says; where it must stay as it is, why: a piece of a sentence."""
    raw = _split(text.strip())
    if raw is None:
        return "it is more than one command"
    words = [_unquoted(word) for word in raw]
    if not words or words[0].rsplit("/", 1)[-1] not in _PROGRAMS:
        return "it does not begin with mpirun"
    line, at = Line(), 1
    while at < len(words) and words[at].startswith("-"):
        step = _option(line, words, raw, at)
        if step is None:
            return f"hpcdist's own launch does not know its {' '.join(words[at : at + 2])}"
        line, at = step
    if at == len(words) or ":" in words:
        return "it starts several programs" if ":" in words else "it starts no program"
    return line._replace(program=line.program + " ".join(raw[at:]))


def with_hostfile(text: str) -> str:
    """Return a command in which ``/generated/hostfile`` is hpcdist's, however it is quoted."""
    return _QUOTED.sub(_with_ours, text)


def _with_ours(match: re.Match[str]) -> str:
    quotation = {"'": "'\"$HPCDIST_HOSTFILE\"'", '"': "$HPCDIST_HOSTFILE"}.get(match[0][0])
    if quotation is None:
        return '"$HPCDIST_HOSTFILE"' if match[0] == HOSTFILE else match[0]
    return _HERE.sub(lambda _: quotation, match[0])


def _split(text: str) -> list[str] | None:
    """Return the words of a simple command as they are written, None where it is more than that."""
    words: list[str] = []
    at = _end_of_space(text, 0)
    while at < len(text):
        word = _WORD.match(text, at)
        if not word or word[0].startswith("#") or _COMPUTED.search(_LITERAL.sub("", word[0])):
            return None
        words.append(word[0])
        at = _end_of_space(text, word.end())
        if at == word.end() < len(text):
            return None
    return words


def _end_of_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _unquoted(word: str) -> str:
    return "".join(shlex.split(word))


def _option(line: Line, words: list[str], raw: list[str], at: int) -> tuple[Line, int] | None:
    """Take the option at that word; return the line with it and the next word, None where it is unknown."""
    name, values = words[at].lstrip("-"), words[at + 1 :]
    if name in _FLAGS:
        return line._replace(args=(*line.args, f"--{name}" if len(name) > 1 else f"-{name}")), at + 1
    if name == "allow-run-as-root":
        return line._replace(dropped=(*line.dropped, words[at])), at + 1
    if name in _PAIRS:
        return (
            (line._replace(args=(*line.args, f"--{name}", *values[:2])), at + 3) if len(values) > 1 else None
        )
    if name in {"genv", "env"} and len(values) > 1 and VARIABLE_NAME.fullmatch(values[0]):
        return _with_variable(line, values[0], values[1], raw[at + 2]), at + 3
    found = _valued(line, name, values[0], raw[at + 1]) if values else None
    return (found, at + 2) if found else None


def _valued(line: Line, name: str, value: str, raw: str) -> Line | None:
    """Take an option with one value."""
    ppr = _PPR.fullmatch(value) if name == "map-by" else None
    if ppr or name in _TAKEN:
        written = ppr[1] if ppr else raw if _TAKEN[name] == "folder" else value
        changed: dict[str, Any] = {"each" if ppr else _TAKEN[name]: written}
        return line._replace(**changed)
    if name == "x":
        return _exported(line, raw, value)
    if name == "prefix":
        return line._replace(dropped=(*line.dropped, f"--prefix {value}"))
    if name in _VALUED and (name, value) not in _OURS:
        return line._replace(args=(*line.args, f"--{name}", value))
    return line if (name, value) in _OURS else None


def _exported(line: Line, raw: str, value: str) -> Line | None:
    """Take the value of ``-x``: a variable by its name alone, or with its value."""
    key, equals, text = value.partition("=")
    if not VARIABLE_NAME.fullmatch(key):
        return None
    if not equals:
        return line._replace(named=(*line.named, key))
    written = raw.removeprefix(f"{key}=")
    return _with_variable(line, key, text, written) if written != raw or not _is_filled_in(raw) else None


def _with_variable(line: Line, name: str, value: str, raw: str) -> Line:
    """Add a variable; one whose value the shell is to fill in is set where the program is started."""
    if not _is_filled_in(raw):
        return line._replace(sets=(*line.sets, (name, value)))
    return line._replace(program=f"{line.program}{name}={raw} ")


def _is_filled_in(raw: str) -> bool:
    return "$" in _LITERAL.sub("", raw)
