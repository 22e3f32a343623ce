"""Which files a snapshot has: those that git would track, else all but what is plainly no code.

A snapshot is of the whole work tree, even where a job is submitted in a folder of it: programs import and
read what is beside that folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.code import git
from hpcdist.code.state import State
from hpcdist.errors import ConfigError, Problem
from hpcdist.host.command import Runner

MOST_FILES: Final = 100_000
PATH: Final = ("batch", "code")

_TIMEOUT: Final = 60.0
_DEEPEST: Final = 20
"""Levels of repositories within repositories."""

_NO_CODE: Final = frozenset(
    (".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox", ".eggs",
     ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "runs", "hpcdist-tracking")
)  # fmt: skip
_ENVIRONMENTS: Final = ("pyvenv.cfg", "conda-meta")
"""What a folder has that is a virtual environment."""

LeftOut = Callable[[Path], bool]
"""Whether a file or folder is left out of a snapshot and what is recorded, as directories of runs are."""


class Listing(NamedTuple):
    """The files of a snapshot below ``top``; the job starts in the folder ``start`` of it, or in ``top``.

    ``names`` with a final / are empty folders. ``by_git``: whether git chose them.
    """

    top: Path
    start: str
    names: tuple[str, ...]
    by_git: bool


def read(folder: Path, state: State | None, runner: Runner, left_out: LeftOut) -> Listing:
    """Return the files of a snapshot of a folder; one that its repository ignores is taken by itself.

    Raises:
        ConfigError: when there are too many, or a folder cannot be read.
    """
    if state:
        names = _bounded(_tracked(state.top, runner, left_out), state.top)
        if not state.prefix or any(name.startswith(state.prefix) for name in names):
            return Listing(state.top, state.prefix, names, by_git=True)
    return Listing(folder, "", _bounded(_walked(folder, left_out), folder), by_git=False)


def _bounded(names: Iterator[str], top: Path) -> tuple[str, ...]:
    found = []
    for name in names:
        found.append(name)
        if len(found) > MOST_FILES:
            hint = "submit in a folder that has only the code, or list what is no code in .gitignore"
            raise ConfigError(Problem(f"{top} has more than {MOST_FILES} files", PATH, hint))
    return tuple(found)


def _tracked(top: Path, runner: Runner, left_out: LeftOut, depth: int = 0) -> Iterator[str]:
    """Yield what git would track, also in submodules and other work trees below this one."""
    words = ("ls-files", "--cached", "--others", "--exclude-standard")
    done = runner.run(git.command(top, *words, timeout=_TIMEOUT, offline=True))
    if not done.ok:
        why = f"no answer in {_TIMEOUT:.0f} s" if done.timed_out else done.stderr.strip()
        hint = "repair the repository, or copy the folder yourself and submit there"
        raise ConfigError(Problem(f"git cannot list the files of {top}: {why}", PATH, hint))
    for name in git.names(done.stdout):
        path = top / name
        if left_out(path):
            continue
        if path.is_symlink() or not path.is_dir():
            yield name
        elif depth < _DEEPEST and os.path.lexists(path / ".git"):
            below = _tracked(path, runner, left_out, depth + 1)
            yield from (f"{name.rstrip('/')}/{inner}" for inner in below)


def _walked(top: Path, left_out: LeftOut) -> Iterator[str]:
    for folder, folders, files in os.walk(top, onerror=_unreadable):
        here = Path(folder)
        prefix = "" if here == top else f"{here.relative_to(top)}/"
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in links and _is_code(here / name, left_out)]
        found = [name for name in (*links, *files) if _is_code(here / name, left_out)]
        yield from (f"{prefix}{name}" for name in found)
        if not (found or folders or files or here == top):
            yield prefix


def _is_code(path: Path, left_out: LeftOut) -> bool:
    if path.name in _NO_CODE or path.suffix in (".pyc", ".pyo"):
        return False
    return not left_out(path) and not any(os.path.lexists(path / name) for name in _ENVIRONMENTS)


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise ConfigError(Problem(f"{error.filename} cannot be read: {error.strerror}", PATH)) from error
