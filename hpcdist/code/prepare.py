"""What `submit` does for the code of a job, and what it would do.

The record is ``code.json`` and ``code.diff`` in the run directory; a copy of the code is its folder ``code``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hpcdist.code import clone, listing, snapshot
from hpcdist.code import state as states
from hpcdist.code.state import State
from hpcdist.errors import ConfigError, Problem, bytes_text
from hpcdist.host.command import Runner

RECORD: Final = "code.json"
FOLDER: Final = "code"
_LOCK: Final = ".submit-"
"""How the names of locks begin that a directory of runs has (`hpcdist.host.locks`)."""

LIMIT: Final = 100 << 20
"""The bytes of a snapshot, unless ``batch.max_code_size`` says otherwise."""


class Choice(NamedTuple):
    """The code that a job runs: this folder as it then is, a copy of it, or a commit.

    ``url`` and ``ref``: the repository and its branch, tag or commit, for ``git``; without a URL the
    repository of the folder. ``limit``: the bytes of a snapshot.
    """

    folder: Path
    source: Literal["here", "snapshot", "git"] = "here"
    url: str = ""
    ref: str = ""
    limit: int = LIMIT


class Code(NamedTuple):
    """What was done: the files of the record, and the folder where the job starts, empty for this one.

    ``notes``: what the user should know. ``action``: the copy in a few words, empty where there is none.
    """

    files: Mapping[str, str] = {}
    folder: str = ""
    notes: tuple[str, ...] = ()
    action: str = ""


def prepare(choice: Choice, run: Path, runner: Runner, *, dry: bool = False) -> Code:
    """Record the state of the code, and copy it into the run directory if that is wanted.

    ``run`` is the run directory, which exists unless ``dry``: then nothing is written or fetched, and no
    program is run that the folder's own files name.

    Raises:
        ConfigError: when the code cannot be copied; never for a job that runs in the folder itself.
        OSError: when the copy cannot be written.
    """
    state = states.read(choice.folder, runner, _runs_of(run), filters=not dry)
    if choice.source == "snapshot":
        return _snapshot(choice, run, runner, state, dry=dry)
    if choice.source == "git":
        return _clone(choice, run, runner, state, dry=dry)
    return Code(_record(choice, state, runner, {}), notes=_uncommitted(state, _HERE))


_HERE: Final = "the job runs the folder as it is then; `batch: {code: snapshot}` keeps this state"
_GIT: Final = "the job runs the commit without them"


def _runs_of(run: Path) -> listing.LeftOut:
    """Return whether a path is a run beside this one, in one, or a folder that has nothing but runs."""
    runs = run.parent.resolve()

    def is_run(name: str) -> bool:
        return name == run.name or name.startswith(_LOCK) or os.path.lexists(runs / name / "record.json")

    def left_out(path: Path) -> bool:
        if path == runs:
            with suppress(OSError):
                return all(is_run(entry.name) for entry in runs.iterdir())
        return runs in path.parents and is_run(path.relative_to(runs).parts[0])

    return left_out


def _snapshot(choice: Choice, run: Path, runner: Runner, state: State | None, *, dry: bool) -> Code:
    target = run / FOLDER
    found = listing.read(choice.folder, state, runner, _runs_of(run))
    there = snapshot.contents(found, choice.limit)
    if not dry:
        size = snapshot.copy(found, there.files, target, choice.limit)
    copied = {
        "files": len(there.files),
        "bytes": there.bytes if dry else size,
        "left_out": there.left_out[: states.MOST_NAMES],
    }
    what = f"{_files(len(there.files))} of {found.top}, {bytes_text(there.bytes)}"
    more = {"top": str(found.top), "start": str(target / found.start), "copied": copied}
    files = _record(choice, state, runner, more)
    notes = [f"{found.top / name} is no regular file, and is not copied" for name in there.left_out[:3]]
    if state is None and any(
        os.path.lexists(above / ".git") for above in (choice.folder, *choice.folder.parents)
    ):
        notes.append(f"git does not answer in {choice.folder}: files that it ignores are copied, too")
    return Code(files, str(target / found.start), tuple(notes), f"copy {what}, to {target}")


def _clone(choice: Choice, run: Path, runner: Runner, state: State | None, *, dry: bool) -> Code:
    if not choice.url and state is None:
        hint = "name a repository as `build: {git: URL}`, or write `code: snapshot`"
        raise ConfigError(Problem(f"{choice.folder} is in no git work tree", listing.PATH, hint))
    url, ref, target = choice.url or str(state and state.top), choice.ref or "HEAD", run / FOLDER
    start = target / (state.prefix if state and not choice.url else "")
    commit = None if dry else clone.clone(url, ref, target, runner)
    if not dry and not start.is_dir():
        message = f"{ref} of {url} has no folder {os.path.relpath(start, target)}"
        raise ConfigError(Problem(message, listing.PATH, "commit it first"))
    cloned = {
        "commit": commit,
        "branch": None if choice.url or choice.ref else state and state.branch,
        "remote": choice.url or (state and state.remote),
        "ref": ref,
        "dirty": False,
        "changed": (),
        "untracked": (),
        "submit_folder": states.recorded(state),
        "start": str(start),
    }
    files = _record(choice, state, runner, cloned)
    notes = () if choice.url else _uncommitted(state, _GIT)
    return Code(files, str(start), notes, f"clone {ref} of {url} to {target}")


def _uncommitted(state: State | None, then: str) -> tuple[str, ...]:
    if state is None or not state.changed:
        return ()
    number = len(state.changed)
    return (f"{_files(number)} of {state.top} differ{'s' * (number == 1)} from the commit: {then}",)


def _files(number: int) -> str:
    return f"{number} file{'s' * (number != 1)}"


def _record(choice: Choice, state: State | None, runner: Runner, more: dict[str, Any]) -> dict[str, str]:
    diff, complete = states.diff(state, runner) if state else ("", True)
    data = {
        "source": choice.source,
        "folder": str(choice.folder),
        **states.recorded(state),
        "diff_complete": complete,
        **more,
    }
    return {RECORD: f"{json.dumps(data, indent=2)}\n", **({"code.diff": diff} if diff else {})}
