"""What `submit` does for the code of a job, and what it would do.

The record is ``code.json`` and ``code.diff`` in the run directory; a copy of the code is its folder ``code``.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from hpcdist.base import ownership
from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import ConfigError, Problem, bytes_text
from hpcdist.experiment.sources import without_credentials
from hpcdist.runs import git

# --- Commit, branch, remote and changes of the folder in which a job is submitted
#
# Source: git-status(1), "Porcelain Format Version 2".

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
"""Submodules have their own configuration, with their own filters."""

_WORDS: Final = {"1": 8, "2": 9, "u": 10}
"""How many words of a line of ``git status`` come before the name, by the kind of the line."""


class State(NamedTuple):
    """The state of a git work tree; ``prefix`` is the path from its ``top`` to the folder, with a final /.

    ``changed``: files that are tracked and differ from the commit; ``untracked``: others that git does not
    ignore, folders with a final /. ``options``: switch off git's filters; None with filters.
    """

    top: Path
    prefix: str
    commit: str | None = None
    branch: str | None = None
    remote: str | None = None
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    options: tuple[str, ...] | None = None


def read_state(
    folder: Path, runner: Runner, left_out: Callable[[Path], bool], *, filters: bool = True
) -> State | None:
    """Return the state of the folder's work tree, None where there is none, no git, or no answer in time.

    ``left_out``: whether an untracked file or folder is not the user's, such as a runs directory.
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


def diff_of(state: State, runner: Runner) -> tuple[str, bool]:
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


# --- Which files a snapshot has: those that git would track, else all but what is plainly no code
#
# A snapshot has the whole work tree, even if a job is submitted in a folder of it: programs import and read
# files next to that folder.

MOST_FILES: Final = 100_000
PATH: Final = ("batch", "code")

_LISTING_TIMEOUT: Final = 60.0
_DEEPEST: Final = 20
"""Levels of repositories within repositories."""

_NO_CODE: Final = frozenset(
    (".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox", ".eggs",
     ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "runs", "hpcdist-tracking")
)  # fmt: skip
_ENVIRONMENTS: Final = ("pyvenv.cfg", "conda-meta")
"""What marks a folder as a virtual environment."""

LeftOut = Callable[[Path], bool]
"""Whether the snapshot and the record leave out a file or folder, such as a runs directory."""


class FileListing(NamedTuple):
    """The files of a snapshot below ``top``; the job starts in the folder ``start`` of it, or in ``top``.

    ``names`` with a final / are empty folders. ``by_git``: whether git chose them.
    """

    top: Path
    start: str
    names: tuple[str, ...]
    by_git: bool


def listing(folder: Path, state: State | None, runner: Runner, left_out: LeftOut) -> FileListing:
    """Return the files of a snapshot of a folder; one that its repository ignores is taken by itself.

    Raises:
        ConfigError: when there are too many, or a folder cannot be read.
    """
    if state:
        names = _bounded(_tracked(state.top, runner, left_out), state.top)
        if not state.prefix or any(name.startswith(state.prefix) for name in names):
            return FileListing(state.top, state.prefix, names, by_git=True)
    return FileListing(folder, "", _bounded(_walked(folder, left_out), folder), by_git=False)


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
    done = runner.run(git.command(top, *words, timeout=_LISTING_TIMEOUT, offline=True))
    if not done.ok:
        why = f"no answer in {_LISTING_TIMEOUT:.0f} s" if done.timed_out else done.stderr.strip()
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


# --- The copy of the files of a snapshot
#
# What disappears meanwhile is left out, as git would list it as deleted. A symbolic link stays one: within
# the snapshot it leads to the copy, and out of it to where it led. FIFOs, sockets and devices are left out.

_PIECE: Final = 1 << 20
_SHOWN: Final = 3
"""How many of the largest files a message names."""


class File(NamedTuple):
    """A name of a listing that exists, with its stat(2) result."""

    name: str
    found: os.stat_result

    @property
    def bytes(self) -> int:
        """How much it adds to a snapshot."""
        return self.found.st_size if stat.S_ISREG(self.found.st_mode) else 0

    @property
    def can_be_copied(self) -> bool:
        """Whether it is a regular file, a symbolic link or a folder."""
        mode = self.found.st_mode
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


class Contents(NamedTuple):
    """The files of a snapshot, and the names of files whose kind cannot be copied."""

    files: tuple[File, ...]
    left_out: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(file.bytes for file in self.files)


def contents(listing: FileListing, limit: int) -> Contents:
    """Return the files of a listing that exist.

    Raises:
        ConfigError: when they are larger than ``limit`` bytes, or one cannot be examined.
    """
    there = [*_there(listing)]
    files = tuple(file for file in there if file.can_be_copied)
    found = Contents(files, tuple(file.name for file in there if not file.can_be_copied))
    if found.bytes > limit:
        raise _too_large(listing, found, limit)
    return found


def _there(listing: FileListing) -> Iterator[File]:
    for name in listing.names:
        try:
            yield File(name, (listing.top / name).lstat())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _snapshot_unreadable(error) from error


def copy(listing: FileListing, files: Iterable[File], target: Path, limit: int) -> int:
    """Copy these files into a new folder; return the bytes that were copied.

    Raises:
        ConfigError: when a file cannot be read, or they have grown beyond ``limit`` bytes.
        OSError: when the copy cannot be written.
    """
    target.mkdir(mode=0o700)
    left, made = limit, {target}
    for file in files:
        place = target / file.name
        folder = place if stat.S_ISDIR(file.found.st_mode) else place.parent
        if folder not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made.add(folder)
        if stat.S_ISLNK(file.found.st_mode):
            _copy_link(listing.top, file.name, place)
        elif stat.S_ISREG(file.found.st_mode):
            left -= _copy_file(listing.top / file.name, place, left)
    return limit - left


def _copy_link(top: Path, name: str, place: Path) -> None:
    try:
        target = (top / name).readlink()
    except OSError:  # it has disappeared, or is no link any more
        return
    folder = (top / name).parent
    leads_to = Path(os.path.normpath(folder / target))
    place.symlink_to(os.path.relpath(leads_to, folder) if leads_to.is_relative_to(top) else leads_to)


def _copy_file(source: Path, place: Path, limit: int) -> int:
    try:
        stream = ownership.open_regular(source)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise _snapshot_unreadable(error) from error
    with stream:
        found = os.fstat(stream.fileno())
        with place.open("xb") as copied:
            size = sum(copied.write(piece) for piece in _pieces(stream, source, limit))
            os.fchmod(copied.fileno(), stat.S_IMODE(found.st_mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
    return size


def _pieces(stream: BinaryIO, source: Path, limit: int) -> Iterator[bytes]:
    left = limit
    while piece := _read(stream, source):
        left -= len(piece)
        if left < 0:
            raise ConfigError(Problem(f"{source} grows while it is copied, beyond the limit", PATH))
        yield piece


def _read(stream: BinaryIO, source: Path) -> bytes:
    try:
        return stream.read(_PIECE)
    except OSError as error:
        error.filename = str(source)
        raise _snapshot_unreadable(error) from error


def _snapshot_unreadable(error: OSError) -> ConfigError:
    hint = "make it readable, or list it in .gitignore"
    return ConfigError(Problem(f"{error.filename} cannot be read: {error.strerror}", PATH, hint))


def _too_large(listing: FileListing, found: Contents, limit: int) -> ConfigError:
    largest = sorted(found.files, key=lambda file: file.bytes, reverse=True)[:_SHOWN]
    named = ", ".join(f"{file.name} ({bytes_text(file.bytes)})" for file in largest)
    has = f"has {bytes_text(found.bytes)}, and the limit is {bytes_text(limit)}"
    message = f"the code in {listing.top} {has}: {named}"
    enough = -(-found.bytes >> 20) + 1
    ignored = "list what is no code in .gitignore" if listing.by_git else "move what is no code elsewhere"
    return ConfigError(Problem(message, PATH, f"{ignored}, or write `max_code_size: {enough}Mi` in `batch`"))


# --- A commit of a repository, fetched without its history
#
# A server may serve no commit by its id, and none by an abbreviated one: then all branches and tags are
# fetched. The URL, in which there are no credentials, stays in the clone as ``origin``. Sources:
# git-fetch(1), git-checkout(1).

_CLONE_TIMEOUT: Final = 300.0
_ID: Final = re.compile(r"[0-9a-f]{4,64}")
_PATH: Final = ("build", "git")
_ALL: Final = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


def clone(url: str, ref: str, target: Path, runner: Runner) -> str:
    """Check out a branch, tag or commit of a repository in a new folder; return the id of the commit.

    Raises:
        ConfigError: when it cannot be fetched; it has git's own words.
        OSError: when the folder cannot be made.
    """
    target.mkdir(mode=0o700)

    def run(*words: str) -> Completed:
        return runner.run(git.command(target, *words, timeout=_CLONE_TIMEOUT))

    _check(run("init", "--quiet"), url, ref)
    _check(run("remote", "add", "origin", url), url, ref)
    fetched = run("fetch", "--quiet", "--no-tags", "--depth=1", "origin", ref)
    if not fetched.ok and not fetched.timed_out and _ID.fullmatch(ref):
        _check(run("fetch", "--quiet", "origin", *_ALL), url, ref)
        _check(run("checkout", "--quiet", "--detach", ref), url, ref)
    else:
        _check(fetched, url, ref)
        _check(run("checkout", "--quiet", "--detach", "FETCH_HEAD"), url, ref)
    if (target / ".gitmodules").is_file():
        _check(run("submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"), url, ref)
    return _check(run("rev-parse", "HEAD"), url, ref).stdout.strip()


def _check(done: Completed, url: str, ref: str) -> Completed:
    if done.ok:
        return done
    if done.missing:
        raise ConfigError(Problem("there is no git on this machine", ("batch", "code")))
    why = f"no answer in {_CLONE_TIMEOUT:.0f} s" if done.timed_out else done.stderr.strip()
    hint = "git asks for no password here: use an ssh key or a credential helper, and try `git ls-remote`"
    raise ConfigError(Problem(f"{ref} of {url} cannot be fetched: {why}", _PATH, hint))


# --- What `submit` does for the code of a job, and what it would do

RECORD: Final = "code.json"
FOLDER: Final = "code"
_LOCK: Final = ".submit-"
"""The prefix of names of locks in a runs directory (`hpcdist.base.locks`)."""

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


class CodeResult(NamedTuple):
    """What was done: the files of the record, and the folder where the job starts, empty for this one.

    ``notes``: what the user should know. ``action``: the copy in a few words, empty without one.
    """

    files: Mapping[str, str] = {}
    folder: str = ""
    notes: tuple[str, ...] = ()
    action: str = ""


def prepare(choice: Choice, run: Path, runner: Runner, *, dry: bool = False) -> CodeResult:
    """Record the state of the code, and copy it into the run directory if that is wanted.

    ``run`` is the run directory, which exists unless ``dry``: then nothing is written or fetched, and no
    program is run that the folder's own files name.

    Raises:
        ConfigError: when the code cannot be copied; never for a job that runs in the folder itself.
        OSError: when the copy cannot be written.
    """
    state = read_state(choice.folder, runner, _runs_of(run), filters=not dry)
    if choice.source == "snapshot":
        return _snapshot(choice, run, runner, state, dry=dry)
    if choice.source == "git":
        return _clone(choice, run, runner, state, dry=dry)
    return CodeResult(_record(choice, state, runner, {}), notes=_uncommitted(state, _HERE))


_HERE: Final = "the job runs the folder as it is then; `batch: {code: snapshot}` keeps this state"
_GIT: Final = "the job runs the commit without them"


def _runs_of(run: Path) -> LeftOut:
    """Return the test for paths in runs of this runs directory, or for a directory of runs alone."""
    runs = run.parent.resolve()

    def is_run(name: str) -> bool:
        return name == run.name or name.startswith(_LOCK) or os.path.lexists(runs / name / "record.json")

    def left_out(path: Path) -> bool:
        if path == runs:
            with suppress(OSError):
                return all(is_run(entry.name) for entry in runs.iterdir())
        return runs in path.parents and is_run(path.relative_to(runs).parts[0])

    return left_out


def _snapshot(choice: Choice, run: Path, runner: Runner, state: State | None, *, dry: bool) -> CodeResult:
    target = run / FOLDER
    found = listing(choice.folder, state, runner, _runs_of(run))
    there = contents(found, choice.limit)
    if not dry:
        size = copy(found, there.files, target, choice.limit)
    copied = {
        "files": len(there.files),
        "bytes": there.bytes if dry else size,
        "left_out": there.left_out[:MOST_NAMES],
    }
    what = f"{_files(len(there.files))} of {found.top}, {bytes_text(there.bytes)}"
    more = {"top": str(found.top), "start": str(target / found.start), "copied": copied}
    files = _record(choice, state, runner, more)
    notes = [f"{found.top / name} is no regular file, and is not copied" for name in there.left_out[:3]]
    if state is None and any(
        os.path.lexists(above / ".git") for above in (choice.folder, *choice.folder.parents)
    ):
        notes.append(f"git does not answer in {choice.folder}: files that it ignores are copied, too")
    return CodeResult(files, str(target / found.start), tuple(notes), f"copy {what}, to {target}")


def _clone(choice: Choice, run: Path, runner: Runner, state: State | None, *, dry: bool) -> CodeResult:
    if not choice.url and state is None:
        hint = "name a repository as `build: {git: URL}`, or write `code: snapshot`"
        raise ConfigError(Problem(f"{choice.folder} is in no git work tree", PATH, hint))
    url, ref, target = choice.url or str(state and state.top), choice.ref or "HEAD", run / FOLDER
    start = target / (state.prefix if state and not choice.url else "")
    commit = None if dry else clone(url, ref, target, runner)
    if not dry and not start.is_dir():
        message = f"{ref} of {url} has no folder {os.path.relpath(start, target)}"
        raise ConfigError(Problem(message, PATH, "commit it first"))
    cloned = {
        "commit": commit,
        "branch": None if choice.url or choice.ref else state and state.branch,
        "remote": choice.url or (state and state.remote),
        "ref": ref,
        "dirty": False,
        "changed": (),
        "untracked": (),
        "submit_folder": recorded(state),
        "start": str(start),
    }
    files = _record(choice, state, runner, cloned)
    notes = () if choice.url else _uncommitted(state, _GIT)
    return CodeResult(files, str(start), notes, f"clone {ref} of {url} to {target}")


def _uncommitted(state: State | None, then: str) -> tuple[str, ...]:
    if state is None or not state.changed:
        return ()
    number = len(state.changed)
    return (f"{_files(number)} of {state.top} differ{'s' * (number == 1)} from the commit: {then}",)


def _files(number: int) -> str:
    return f"{number} file{'s' * (number != 1)}"


def _record(choice: Choice, state: State | None, runner: Runner, more: dict[str, Any]) -> dict[str, str]:
    diff, complete = diff_of(state, runner) if state else ("", True)
    data = {
        "source": choice.source,
        "folder": str(choice.folder),
        **recorded(state),
        "diff_complete": complete,
        **more,
    }
    return {RECORD: f"{json.dumps(data, indent=2)}\n", **({"code.diff": diff} if diff else {})}
