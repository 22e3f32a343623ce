"""What a text must be to be meant: mail, modules, variables, arguments and others.

Each function yields what is wrong with a text at a path, and nothing for one that can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpcdist.errors import Path, Problem, did_you_mean
from hpcdist.words import misnomer

LONGEST: Final = 120 * 1024
"""How many bytes an argument or variable may have: Linux refuses 128 KiB (execve(2), MAX_ARG_STRLEN)."""

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "NOTSET")
_EXPANDED: Final = re.compile(r"\$[A-Za-z_{(]|^~(/|$)")
_PLAIN: Final = re.compile(r"[\w/.:,@%+=~${}-]+", re.ASCII)
_MAIL_EVENTS: Final = frozenset(
    ("none", "begin", "end", "fail", "requeue", "all", "invalid_depend", "stage_out", "time_limit",
     "time_limit_90", "time_limit_80", "time_limit_50", "array_tasks")
)  # fmt: skip
_MODULE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+:@=~%-]*")
_SPACK_NAME: Final = re.compile(r"\w[\w/-]*")
"""As Spack 1.1 takes it (spack.environment, ``valid_environment_name_re``)."""


def mail_problems(events: Iterable[str], path: Path) -> Iterator[Problem]:
    """Read ``begin``, ``end``, ``fail`` and the like."""
    for index, event in enumerate(events):
        if event.lower() not in _MAIL_EVENTS:
            yield Problem(
                f"no mail comes at {event!r}", (*path, index), did_you_mean(event.lower(), _MAIL_EVENTS)
            )


def module_problems(names: Sequence[str], path: Path) -> Iterator[Problem]:
    """Read ``cuda``, ``cuda/12.4``, each once."""
    for index, name in enumerate(names):
        if not _MODULE.fullmatch(name):
            hint = "write NAME or NAME/VERSION; other lines of bash belong in the site's `setup`"
            yield Problem(f"{name!r} cannot be the name of a module", (*path, index), hint)
        elif name in names[:index]:
            yield Problem(f"the module {name} stands here for the second time", (*path, index), "remove it")


def spack_env_problems(text: str, path: Path) -> Iterator[Problem]:
    """Read ``torch``, ``./torch``, ``/projects/torch``."""
    if text[:1] not in ("/", ".") and not _SPACK_NAME.fullmatch(text):
        hint = "write its name, or the path of its folder, which begins with / or ./"
        yield Problem(f"{text!r} is no Spack environment", path, hint)
    elif "$" in text:
        yield Problem(f"no variable is expanded in {text!r}", path, "write what it stands for")
    elif not text.isprintable():
        yield Problem(f"{text!r} cannot be a path in a script", path, "rename the folder")


def log_level_problems(level: str, path: Path) -> Iterator[Problem]:
    """Read the levels of Polyaxon and of Python's logging."""
    if level.upper() not in LOG_LEVELS:
        yield Problem(f"there is no log level {level!r}", path, did_you_mean(level.upper(), LOG_LEVELS))


def variable_problems(name: str, value: str, path: Path) -> Iterator[Problem]:
    """Refuse names that are none or not the user's, and values that no process can be given.

    What a shell would expand is told: a program gets it as it stands, and with such a PATH none is found.
    """
    if message := misnomer(name):
        yield Problem(message, path)
    yield from length_problems(f"the variable {name}", value, path)
    if _EXPANDED.search(value):
        line = f' by `export {name}="{re.sub("^~", "$HOME", value)}"`' if _PLAIN.fullmatch(value) else ""
        hint = f"if bash is to read it, set it in the command{line}"
        told = Problem(f"nothing is expanded in {value!r}", path, hint)
        yield told if name == "PATH" else told._replace(severity="warning")


def length_problems(what: str, text: str, path: Path) -> Iterator[Problem]:
    """Refuse what no process can be given."""
    size = len(text.encode(errors="surrogatepass"))
    if size > LONGEST:
        message = (
            f"{what} has {size // 1024} KiB; Linux gives a process at most {LONGEST // 1024} in one text"
        )
        yield Problem(message, path, "put it in a file, and let the program read that")
