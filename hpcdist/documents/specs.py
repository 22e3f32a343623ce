"""What a text must be to be meant: signals, dependencies, modules, variables, arguments and others.

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
_FORWARDED: Final = {"TERM": 15, "INT": 2, "HUP": 1, "USR1": 10, "USR2": 12}
"""The signals that the job script hands on to the program; any other ends it."""
_SIGNALS: Final = frozenset(
    (*_FORWARDED, "QUIT", "ABRT", "KILL", "ALRM", "URG", "CONT", "STOP", "TSTP", "TTIN", "TTOU")
)
_SIGNAL: Final = re.compile(r"((?P<shell>[BR]+):)?(?P<signal>\w+)(@(?P<seconds>\d{1,5}))?", re.ASCII)
_FLUX_JOB: Final = "[f\u0192][1-9A-HJ-NP-Za-km-z]{4,11}"
_PBS_JOB: Final = r"\d+(?:\[\d*\])?(?:\.[A-Za-z0-9-]+)*"
_JOB: Final = rf"(?:\d+(?:_\d+|_\*)?(?:\+\d+)?|{_FLUX_JOB}|{_PBS_JOB})"
_CONDITION: Final = r"after(?:any|ok|notok|corr|burstbuffer)?"
_WAIT: Final = rf"(?:singleton|(?:{_CONDITION}:)?{_JOB}(?::{_JOB})*)"
_DEPENDENCY: Final = re.compile(rf"{_WAIT}(?:[,?]{_WAIT})*", re.ASCII)
_MODULE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+:@=~%-]*")
_SPACK_NAME: Final = re.compile(r"\w[\w/-]*")
"""As Spack 1.1 takes it (spack.environment, ``valid_environment_name_re``)."""


def signal_problems(text: str, path: Path) -> Iterator[Problem]:
    """Read ``USR1``, ``B:USR1@120``, ``10@60``."""
    match = _SIGNAL.fullmatch(text)
    if not match:
        yield Problem(f"{text!r} is no signal", path, "write NAME@SECONDS, such as USR1@120 or B:TERM@60")
        return
    name = match["signal"].upper().removeprefix("SIG")
    if not (0 < int(name) <= 64 if name.isdecimal() else name in _SIGNALS):  # noqa: PLR2004 - SIGRTMAX
        yield Problem(f"there is no signal {match['signal']!r}", path, did_you_mean(name, _SIGNALS))
    elif "B" in (match["shell"] or "") and name not in {*_FORWARDED, *map(str, _FORWARDED.values())}:
        hint = f"after `B:` stands one that it hands on: {', '.join(_FORWARDED)}"
        yield Problem(f"{match['signal']} would end the job script", path, hint)


def dependency_problems(texts: Iterable[str], path: Path) -> Iterator[Problem]:
    """Read ``4711``, ``afterok:4711:4712``, ``after:4711+5``, ``singleton``."""
    for text in texts:
        if not _DEPENDENCY.fullmatch(text):
            yield Problem(f"{text!r} is nothing to wait for", path, "write an id, afterok:ID:ID or singleton")


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
