"""Checks of texts: mail events, modules, Spack environments, log levels, variables.

Each function yields the problems of a text at a path, none if it is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpcdist.base.errors import Path, Problem, did_you_mean
from hpcdist.base.words import variable_name_error

MAX_BYTES: Final = 120 * 1024
"""The most bytes of an argument or variable: Linux refuses 128 KiB (execve(2), MAX_ARG_STRLEN)."""

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "NOTSET")
_EXPANDED: Final = re.compile(r"\$[A-Za-z_{(]|^~(/|$)")
_SAFE_IN_QUOTES: Final = re.compile(r"[\w/.:,@%+=~${}-]+", re.ASCII)
_MAIL_EVENTS: Final = frozenset(
    ("none", "begin", "end", "fail", "requeue", "all", "invalid_depend", "stage_out", "time_limit",
     "time_limit_90", "time_limit_80", "time_limit_50", "array_tasks")
)  # fmt: skip
_MODULE: Final = re.compile(r"-?[A-Za-z0-9_./][A-Za-z0-9_./+:@=~%-]*")
PATH_IN_QUOTES: Final = r"(?:[A-Za-z0-9_./+@=-]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+"
"""A path that double quotes in bash hold, with variables of the job."""
_BIND: Final = re.compile(rf"{PATH_IN_QUOTES}(?::{PATH_IN_QUOTES}){{0,2}}")
_BIND_OPTIONS: Final = frozenset(("ro", "rw"))
_NODE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SPACK_NAME: Final = re.compile(r"\w[\w/-]*")
"""As Spack 1.1 accepts it (spack.environment, ``valid_environment_name_re``)."""


def mail_problems(events: Iterable[str], path: Path) -> Iterator[Problem]:
    """Check that these are mail events, such as ``begin``, ``end``, ``fail``."""
    for index, event in enumerate(events):
        if event.lower() not in _MAIL_EVENTS:
            yield Problem(
                f"{event!r} is not a mail event", (*path, index), did_you_mean(event.lower(), _MAIL_EVENTS)
            )


MODULE_RESETS: Final = frozenset(("purge", "reset"))
"""Names that unload all modules, or all but the machine's default ones."""


def module_problems(names: Sequence[str], path: Path) -> Iterator[Problem]:
    """Check names such as ``cuda``, ``cuda/12.4`` and ``-cray-mpich``, and that each is listed once."""
    for index, name in enumerate(names):
        if not _MODULE.fullmatch(name):
            hint = "write NAME or NAME/VERSION, -NAME to unload it, or `purge` or `reset`"
            yield Problem(f"{name!r} is not a valid module name", (*path, index), hint)
        elif name in names[:index]:
            yield Problem(f"the module {name} is listed twice", (*path, index), "remove it")


def node_problems(names: Sequence[str], path: Path) -> Iterator[Problem]:
    """Check that these are names of single nodes."""
    for index, name in enumerate(names):
        if not _NODE.fullmatch(name):
            hint = "write the name of one node, as the batch system lists it"
            yield Problem(f"{name!r} is not the name of a node", (*path, index), hint)


def bind_problems(binds: Sequence[str], path: Path) -> Iterator[Problem]:
    """Check what a container is to mount: ``/data``, ``$SCRATCH/data:/data``, ``/data:/data:ro``."""
    first: dict[str, str] = {}
    for index, bind in enumerate(binds):
        source, *target = bind.split(":")
        mounted = target[0] if target else source
        if not _BIND.fullmatch(bind) or not {*target[1:]} <= _BIND_OPTIONS:
            hint = "write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only"
            yield Problem(f"{bind!r} is not a valid bind", (*path, index), hint)
        elif first.setdefault(mounted, source) != source:
            message = f"{first[mounted]!r} and {source!r} would both be {mounted!r} in the container"
            yield Problem(message, (*path, index), "write another target: SRC:DST")


def spack_env_problems(text: str, path: Path) -> Iterator[Problem]:
    """Check the name or path of a Spack environment: ``torch``, ``./torch``, ``/projects/torch``."""
    if text[:1] not in ("/", ".") and not _SPACK_NAME.fullmatch(text):
        hint = "write its name, or the path of its folder, beginning with / or ./"
        yield Problem(f"{text!r} is not a valid Spack environment", path, hint)
    elif "$" in text:
        yield Problem(f"variables are not expanded in {text!r}", path, "write the value of the variable")
    elif not text.isprintable():
        yield Problem(f"{text!r} cannot be used as a path in a script", path, "rename the folder")


def log_level_problems(level: str, path: Path) -> Iterator[Problem]:
    """Check that this is a log level of Polyaxon or of Python's logging."""
    if level.upper() not in LOG_LEVELS:
        yield Problem(f"there is no log level {level!r}", path, did_you_mean(level.upper(), LOG_LEVELS))


def variable_problems(name: str, value: str, path: Path) -> Iterator[Problem]:
    """Check the name and the value of a user's variable.

    ``$NAME`` or ``~`` in a value is a warning, because a program gets it unexpanded; for PATH it is an error,
    because then no program is found.
    """
    if message := variable_name_error(name):
        yield Problem(message, path)
    yield from length_problems(f"the variable {name}", value, path)
    if _EXPANDED.search(value):
        line = (
            f' by `export {name}="{re.sub("^~", "$HOME", value)}"`'
            if _SAFE_IN_QUOTES.fullmatch(value)
            else ""
        )
        hint = f"to have bash expand it, set it in the command{line}"
        problem = Problem(f"variables and ~ are not expanded in {value!r}", path, hint)
        yield problem if name == "PATH" else problem._replace(severity="warning")


def length_problems(what: str, text: str, path: Path) -> Iterator[Problem]:
    """Refuse a text that is too long for an argument or variable of a process."""
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        limit = f"Linux accepts at most {MAX_BYTES // 1024} KiB in one argument or variable"
        yield Problem(
            f"{what} has {size // 1024} KiB; {limit}", path, "write it to a file that the program reads"
        )
