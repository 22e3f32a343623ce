"""Commit, branch, remote and changes of the folder in which a job is submitted.

Source: git-status(1), "Porcelain Format Version 2".
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpcdist.code import git
from hpcdist.experiment.repository import without_credentials
from hpcdist.host.command import Command, Runner

MOST_DIFF: Final = 1 << 20
"""The bytes of a diff that are kept."""

MOST_NAMES: Final = 1000
"""The names of changed files, and of files that git does not track, that are kept."""

_TIMEOUT: Final = 10.0
_READ: Final = """\
git rev-parse --show-toplevel --show-prefix || exit
git config --get-regexp '^remote\\..*\\.url$'
git -c status.relativePaths=false status --porcelain=v2 --branch --untracked-files=normal "$@"
"""
_DIFF: Final = """\
most=$1
shift
git diff --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/ "$@" HEAD | head -c "$most"
"""
_TOP_ALONE: Final = ("--ignore-submodules=dirty",)
"""Submodules have a configuration of their own, with filters of their own."""

_WORDS: Final = {"1": 8, "2": 9, "u": 10}
"""How many words of a line of ``git status`` come before the name, by the kind of the line."""


class State(NamedTuple):
    """The state of a git work tree; ``prefix`` is the path from its ``top`` to the folder, with a final /.

    ``changed``: files that are tracked and differ from the commit; ``untracked``: others that git does not
    ignore, folders with a final /. ``options``: those of git without filters, None with them.
    """

    top: Path
    prefix: str
    commit: str | None = None
    branch: str | None = None
    remote: str | None = None
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    options: tuple[str, ...] | None = None


def read(
    folder: Path, runner: Runner, left_out: Callable[[Path], bool], *, filters: bool = True
) -> State | None:
    """Return the state of the folder's work tree, None where there is none, no git, or no answer in time.

    ``left_out``: whether a file or folder without a track is none of the user's, as a directory of runs.
    ``filters``: whether the programs that the folder's configuration names as filters may be run.
    """
    options = None if filters else git.without_filters(folder, runner, _TIMEOUT)
    if not filters and options is None:
        return None
    done = runner.run(_script(folder, _READ, options=options))
    lines = done.stdout.split("\n")
    if not done.ok or len(lines) < 3:  # noqa: PLR2004 - top, prefix, state
        return None
    top, prefix = Path(lines[0]), lines[1]
    if not _is(folder, top / prefix):  # a name with a line break, or one that is not UTF-8
        return None
    state = _parsed(State(top, prefix, options=options), lines[2:])
    return state._replace(untracked=tuple(name for name in state.untracked if not left_out(top / name)))


def _script(folder: Path, text: str, *words: str, options: tuple[str, ...] | None) -> Command:
    more = () if options is None else _TOP_ALONE
    return git.script(folder, text, *words, *more, timeout=_TIMEOUT, options=options or ())


def _is(folder: Path, other: Path) -> bool:
    try:
        return folder.samefile(other)
    except (OSError, ValueError):
        return False


def _parsed(state: State, lines: list[str]) -> State:
    remotes: dict[str, str] = {}
    heads: dict[str, str] = {}
    changed, untracked = [], []
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind.startswith("remote."):
            remotes[kind.removeprefix("remote.").removesuffix(".url")] = rest
        elif kind == "#":
            name, _, value = rest.partition(" ")
            heads[name] = value
        elif kind == "?":
            untracked.append(git.unquoted(rest))
        elif kind in _WORDS:
            name = line.split(" ", _WORDS[kind])[-1]
            changed.append(git.unquoted(name.partition("\t")[0]))
    url = remotes.get("origin") or next(iter(remotes.values()), "")
    commit, branch = heads.get("branch.oid"), heads.get("branch.head")
    return state._replace(
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        remote=without_credentials(url) or None,
        changed=tuple(changed),
        untracked=tuple(untracked),
    )


def diff(state: State, runner: Runner) -> tuple[str, bool]:
    """Return what differs from the commit in tracked files, and whether that is all of it."""
    if not state.commit or not state.changed:
        return "", not state.changed
    done = runner.run(_script(state.top, _DIFF, str(MOST_DIFF + 1), options=state.options))
    text = done.stdout.encode("utf-8", "backslashreplace")
    if len(text) <= MOST_DIFF and not done.timed_out:
        return done.stdout, done.ok and bool(text)
    whole = text[:MOST_DIFF].rpartition(b"\n")[0]
    return f"{whole.decode('utf-8', 'ignore')}\n", False


def recorded(state: State | None) -> dict[str, Any]:
    """Return the state as the record of a run has it; all null without a work tree."""
    if state is None:
        return dict.fromkeys(("commit", "branch", "remote", "dirty", "changed", "untracked"))
    return {
        "commit": state.commit,
        "branch": state.branch,
        "remote": state.remote,
        "dirty": bool(state.changed),
        "changed": state.changed[:MOST_NAMES],
        "untracked": state.untracked[:MOST_NAMES],
    }
