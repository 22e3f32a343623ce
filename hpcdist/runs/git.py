"""Commands of git, and how names in its answers are read.

Sources: git(1), git-config(1) ``core.quotePath``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hpcdist.base.command import Command, Runner
from hpcdist.base.words import join

_DROP: Final = (
    "GIT_COMMON_DIR", "GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_TRACE", "GIT_WORK_TREE",
)  # fmt: skip
"""Variables of a git that runs hpcdist, as in a hook: they name its own repository."""

_ENVIRONMENT: Final = (
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS_REQUIRE", "never"),
)
_ANSWERS: Final = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=true")
_OFFLINE: Final = (("GIT_ALLOW_PROTOCOL", "none"),)
"""Missing objects of a partial clone are not fetched: its configuration may name programs for that."""

_FILTER: Final = re.compile(r"filter\.[A-Za-z0-9_ .-]+", re.ASCII)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\[abfnrtv"\\]|\\[0-7]{3})*"', re.ASCII)


def command(folder: Path, *words: str, timeout: float, offline: bool = False) -> Command:
    """Return a command of git that runs in this folder and never waits for an answer of the user."""
    return _bounded(folder, ("git", *_ANSWERS, *words), timeout, offline=offline)


def script(folder: Path, text: str, *words: str, timeout: float, options: Sequence[str] = ()) -> Command:
    """Return a shell script in which ``git`` is as in `command`, offline and with options.

    ``words`` are ``$1`` and so on.
    """
    body = f'git() {{ command git {join((*_ANSWERS, *options))} "$@"; }}\n{text}'
    return _bounded(folder, ("sh", "-c", body, "git", *words), timeout, offline=True)


def without_filters(folder: Path, runner: Runner, timeout: float) -> tuple[str, ...] | None:
    """Return the options that switch off the filters of a folder's git, which are programs.

    None where that is not possible: a name with a = has no option, and git before 2.6 does not list them.
    """
    words = ("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
    done = runner.run(command(folder, *words, timeout=timeout, offline=True))
    found = {name.rpartition(".")[0] for name in done.stdout.split("\0") if name}
    if done.returncode not in (0, 1) or not all(map(_FILTER.fullmatch, found)):  # 1: no filters
        return None
    settings = (
        f"{name}.{key}"
        for name in sorted(found)
        for key in ("clean=", "smudge=", "process=", "required=false")
    )
    return tuple(word for setting in settings for word in ("-c", setting))


def _bounded(folder: Path, words: tuple[str, ...], timeout: float, *, offline: bool) -> Command:
    environment = (*_ENVIRONMENT, *(_OFFLINE if offline else ()))
    return Command(words, environment=environment, drop_environment=_DROP, cwd=str(folder), timeout=timeout)


def names(text: str) -> list[str]:
    """Return the names of files, one a line, that git has quoted where they are unusual; each once."""
    return [*dict.fromkeys(map(unquoted, filter(None, text.split("\n"))))]


def unquoted(name: str) -> str:
    """Return a name as the file system has it; git writes unusual ones as strings of C, in ASCII."""
    import ast  # for unusual names alone

    if _QUOTED.fullmatch(name) and name.isascii():
        return os.fsdecode(ast.literal_eval(f"b{name}"))
    return name
