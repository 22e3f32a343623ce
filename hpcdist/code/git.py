"""Commands of git, and how names in its answers are read.

Sources: git(1), git-config(1) ``core.quotePath``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from hpcdist.host.command import Command

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
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\[abfnrtv"\\]|\\[0-7]{3})*"', re.ASCII)


def command(folder: Path, *words: str, timeout: float) -> Command:
    """Return a command of git that runs in this folder and never waits for an answer of the user."""
    return _bounded(folder, ("git", *_ANSWERS, *words), timeout)


def script(folder: Path, text: str, *words: str, timeout: float) -> Command:
    """Return a shell script in which ``git`` is as in `command`, and ``words`` are ``$1`` and so on."""
    body = f'git() {{ command git {" ".join(_ANSWERS)} "$@"; }}\n{text}'
    return _bounded(folder, ("sh", "-c", body, "git", *words), timeout)


def _bounded(folder: Path, words: tuple[str, ...], timeout: float) -> Command:
    return Command(words, environment=_ENVIRONMENT, drop_environment=_DROP, cwd=str(folder), timeout=timeout)


def names(text: str) -> list[str]:
    """Return the names of files, one a line, that git has quoted where they are unusual; each once."""
    return [*dict.fromkeys(map(unquoted, filter(None, text.split("\n"))))]


def unquoted(name: str) -> str:
    """Return a name as the file system has it; git writes unusual ones as strings of C, in ASCII."""
    import ast  # for unusual names alone

    if _QUOTED.fullmatch(name) and name.isascii():
        return os.fsdecode(ast.literal_eval(f"b{name}"))
    return name
