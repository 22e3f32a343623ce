"""Outputs come back from a remote: by rsync, else in parts over the same session as all requests.

Both resume where they were interrupted. Files are stored in ``outputs`` of the mirror: one counts as the same
if its size and the time of its last change are.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from hpcdist.base.command import Command
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.words import quote, slug
from hpcdist.runs.remotes import connection, program
from hpcdist.runs.remotes.channel import Channel, Section
from hpcdist.runs.remotes.connection import Connection
from hpcdist.runs.rundir import Event, Run
from hpcdist.runs.services import Outdated

_PART: Final = 1 << 24
"""Bytes of one request; what is lost with a connection is asked for again."""

_TIMEOUT: Final = 300.0
_HOURS: Final = 86400.0
_DIGITS: Final = 9
"""Decimals of a second in file times."""

_VERSION: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,11})(?:\.([0-9]*))? (.*)", re.DOTALL)

Progress = Callable[[int], object]
"""Is called with the number of bytes received."""


class Version(NamedTuple):
    """The version of a file there: its bytes, and its last change in nanoseconds since 1970."""

    bytes: int
    changed: int


class _Changed(Exception):  # noqa: N818 - what it is
    """A file there has changed since the listing."""


def listing(channel: Channel, run: Run) -> dict[str, Version]:
    """Return the files of the run's outputs there; links are left out.

    Raises:
        Outdated: if the run's directory is not there any more.
        Unreachable: without an answer.
    """
    [section] = channel.call([program.call("hpcdist_outputs", run.record.there)], _TIMEOUT, "(out|gone) ")
    if section.kind == "gone":
        raise Outdated(connection.gone(run))
    return {name: version for name, version in _versions(section.data) if _is_inside(name)}


def _versions(data: bytes) -> Iterator[tuple[str, Version]]:
    for found in filter(None, map(_VERSION.fullmatch, data.split(b"\0"))):
        size, seconds, parts, name = found.groups(b"")
        changed = int(seconds + parts[:_DIGITS].ljust(_DIGITS, b"0"))
        yield os.fsdecode(name).removeprefix("./"), Version(int(size), changed)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def matching(
    there: Mapping[str, Version], patterns: Iterable[str], run: Run, element: str = ""
) -> dict[str, Version]:
    """Return the files that match one of these patterns, by their whole path or a folder's.

    ``element``: only its files, which are in a folder of its name.

    Raises:
        ConfigError: if a pattern has no file.
    """
    found: dict[str, Version] = {}
    name = f"{run.name}/{element}".rstrip("/")
    for pattern in patterns:
        own = {path: version for path, version in there.items() if _matches(path, pattern, element)}
        if not own:
            hint = f"`hpcdist outputs {name}` lists those that there are"
            raise ConfigError(Problem(f"no output of {name} matches {pattern!r}", hint=hint))
        found |= own
    return found


def is_of(element: str, path: str) -> bool:
    """Return whether an output belongs to this element; all do if it is empty."""
    return not element or path.startswith(f"{element}/")


def _matches(name: str, pattern: str, element: str) -> bool:
    if not is_of(element, name):
        return False
    paths = {PurePosixPath(name), PurePosixPath(name.removeprefix(f"{element}/"))}
    folders = {folder for path in paths for folder in path.parents}
    return any(fnmatchcase(str(part), pattern.rstrip("/")) for part in paths | folders)


def fetch(channel: Channel, run: Run, names: Mapping[str, Version], progress: Progress) -> None:
    """Bring these files here, by rsync where both machines have it.

    Raises:
        Outdated: if some of them have changed or vanished there meanwhile; the others are here.
        Unreachable: if the connection is lost for good; a new call resumes.
        OSError: if they cannot be written here.
    """
    folder = run.directory.outputs
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _by_rsync(channel.connection, run, names):
        _in_parts(channel, run, names, progress)


def _by_rsync(connection: Connection, run: Run, names: Iterable[str]) -> bool:
    """Return whether rsync has fetched all; it may be missing, or a login shell may disturb it."""
    connection.open()
    terminal = os.isatty(2)
    with tempfile.NamedTemporaryFile(prefix="hpcdist-") as listed:
        listed.write(b"\0".join(map(os.fsencode, names)))
        listed.flush()
        files = ("--from0", f"--files-from={listed.name}", "--info=progress2" if terminal else "-q")
        remote = " ".join(connection.argv("-oControlMaster=no", "-oBatchMode=yes"))
        source = f"{connection.host}:{run.record.there}/outputs/"
        ends = (source, f"{run.directory.outputs}/")
        argv = ("rsync", "-rt", "--partial", "--protect-args", *files, "-e", remote, *ends)
        if not terminal:
            return connection.shell.run(Command(argv, timeout=_HOURS)).ok
        shown = ("/bin/sh", "-c", 'exec "$@" >&2 2>/dev/null', "hpcdist", *argv)
        return connection.shell.attach(Command(shown)) == 0


def _in_parts(channel: Channel, run: Run, names: Mapping[str, Version], progress: Progress) -> None:
    problems: list[Problem] = []
    for name, version in names.items():
        if is_here(run, name, version):
            progress(version.bytes)
            continue
        try:
            for count in _parts(channel, run, name, version):
                progress(count)
        except _Changed:
            message = f"{name} of {run.name} has changed or vanished on {run.record.remote} meanwhile"
            problems.append(Problem(message, hint="fetch it again"))
    if problems:
        raise Outdated(*problems)


def _parts(channel: Channel, run: Run, name: str, version: Version) -> Iterator[int]:
    """Yield how many bytes came, first how many were here, until the file is whole; then rename it."""
    whole = run.directory.outputs / name
    whole.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = part_of(whole, version)
    with part.open("ab") as file:
        begun = file.tell()
        yield begun
        while True:
            data, now = _piece(channel, run, name, begun)
            if now != version or (not data and begun < version.bytes):
                raise _Changed
            file.write(data)
            file.flush()
            begun += len(data)
            yield len(data)
            if begun >= version.bytes:
                break
    os.utime(part, ns=(version.changed, version.changed))
    part.replace(whole)


def part_of(whole: Path, version: Version) -> Path:
    """Return the partial file of this version; remove partial files of other versions."""
    own, now = (
        hashlib.sha256(text).hexdigest()[:16] for text in (os.fsencode(whole.name), b"%d-%d" % version)
    )
    part = whole.with_name(f".{own}-{now}.part")
    for old in whole.parent.glob(f".{own}-*.part"):
        if old != part or old.stat().st_size > version.bytes:
            old.unlink()
    return part


def _piece(channel: Channel, run: Run, name: str, begun: int) -> tuple[bytes, Version | None]:
    """Return the next bytes of a file there, and its version; None if there is no file."""
    lines = [
        program.known({}, most=_PART),
        f"cd {quote(run.record.there)}/outputs && {program.call('hpcdist_piece', f'./{name}', begun)}",
    ]
    sections = channel.call(lines, _TIMEOUT, "(file )?(version )?")
    pieces = [section for section in sections if section.kind == "file"]
    if any(piece.words.split(" ")[1] != str(begun) for piece in pieces):
        raise channel.malformed(f"{pieces[0].kind} {pieces[0].words}")
    data = b"".join(piece.data for piece in pieces)
    versions = [version for one in sections if one.kind == "version" for _, version in _versions(one.data)]
    return data, versions[0] if versions else None


def is_here(run: Run, name: str, version: Version) -> bool:
    """Return whether this version of a file is here."""
    with suppress(OSError):
        found = Path(run.directory.outputs, name).stat()
        return Version(found.st_size, found.st_mtime_ns) == version
    return False


def missing(run: Run, there: Mapping[str, Version]) -> dict[str, int]:
    """Return the sizes of files that are not here yet."""
    outputs = run.directory.outputs
    return {name: found.bytes for name, found in there.items() if not Path(outputs, name).is_file()}


# --- Sending a new run to a remote: its directory there, with the files from here

_SENDING: Final = 60.0
_SLOWEST: Final = 20_000
"""Bytes a second that a connection has at least; a slower one counts as broken."""

_COPYING: Final = 3600.0
"""Seconds that copies of a run's outputs may take there."""

_WHOLE: Final = ".sent"
"""The last file of an archive: without it, something is missing. It has the run's token."""


class RunsFolder(NamedTuple):
    """The folder of all runs on a remote, and the highest number there of runs of one name."""

    path: str
    highest: int


def make_folder(channel: Channel, directory: str, name: str) -> RunsFolder:
    """Make the folder of runs, ``directory`` of the config, and return where it is.

    Raises:
        ConfigError: if it cannot be made or written there, or others could replace what is in it.
        Unreachable: without an answer.
    """
    remote, variable = channel.connection.name, program.variable(directory)
    needs = [f'[ "${{{variable}-}}" ] || [ "${{hpcdist_login-}}" ] || hpcdist_log_in'] if variable else []
    line = f"hpcdist_make_folder {program.path(directory)} {quote(slug(name))}"
    if variable:
        line = f'if [ "${{{variable}-}}" ]; then {line}; else hpcdist_print unset; fi'
    words = _words(channel.call([line], _SENDING, "((unset|unwritten|open|folder) )?", needs))
    if "unset" in words:
        hint = f"write the path itself as `remotes.{remote}.directory` in your config"
        raise ConfigError(Problem(f"${variable} is not set on {remote}", hint=hint))
    if "open" in words:
        hint = f"run `chmod go-w` on it there, or choose another `remotes.{remote}.directory`"
        message = f"others could replace what your jobs run: they can write to {words['open']} on {remote}"
        raise ConfigError(Problem(message, hint=hint))
    if "folder" not in words:
        raise ConfigError(connection.unwritten(remote, words.get("unwritten", "")))
    highest, _, path = words["folder"].partition(" ")
    return RunsFolder(path, int(highest))


def send(channel: Channel, run: Run) -> None:
    """Send the files of a new run; a repeated call does no more.

    Raises:
        ConfigError: if they cannot be written there, or another run of this name came first.
        Unreachable: without an answer.
    """
    folder, name = os.path.split(run.record.there)
    _sent(channel, run, program.call("hpcdist_receive", folder, name, run.record.token), lambda _: True)


def _sent(channel: Channel, run: Run, line: str, wanted: Callable[[Path], bool]) -> None:
    """Send these files of the run directory to the line, which unpacks them."""
    with tempfile.TemporaryDirectory(prefix="hpcdist-") as work:
        archive = Path(work, "run.tar")
        with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
            for path in filter(wanted, sorted(run.directory.path.iterdir())):
                tar.add(path, path.name, filter=_anonymous)
            mark = tarfile.TarInfo(_WHOLE)
            token = run.record.token.encode()
            mark.size, mark.mode = len(token), 0o600
            tar.addfile(mark, io.BytesIO(token))
        timeout = _SENDING + archive.stat().st_size / _SLOWEST
        words = _words(channel.call([line], timeout, "(received|taken|unwritten) ", data=archive))
    remote = channel.connection.name
    if "taken" in words:
        message = f"there is another run {run.name} on {remote}, which was made just now"
        raise ConfigError(Problem(message, hint="submit it again"))
    if "received" not in words:
        raise ConfigError(connection.unwritten(remote, words.get("unwritten", "")))


def add(channel: Channel, run: Run, event: Event) -> None:
    """Send the files of the run's jobs that have no id yet, and resume it; record that as this event.

    A repeated call does no more.

    Raises:
        ConfigError: if they cannot be written there.
        Unreachable: without an answer.
    """
    new = [job.directory for job in run.jobs if not job.job]
    files = ("plan.json", "job.sh", "setup.sh", "job.sum")  # `renderer.files_of_job`
    names = {"runtime", *(one.own(name) for one in new for name in files)}  # also of another version
    log = f"{event.what} {event.job_id} {event.at} {event.value}"
    line = program.call("hpcdist_add", run.record.there, run.record.token, log)
    _sent(channel, run, line, lambda path: path.name in names)


def begin_with(channel: Channel, source: str, run: Run) -> None:
    """Copy the outputs and checkpoints in another run's folder there into a new run there.

    Raises:
        ConfigError: if they cannot be copied.
        Unreachable: without an answer.
    """
    line = program.call("hpcdist_begin_with", source, run.record.there)
    words = _words(channel.call([line], _COPYING, "(copied|unwritten) "))
    if "copied" not in words:
        raise ConfigError(connection.unwritten(channel.connection.name, words.get("unwritten", "")))


def _words(sections: Sequence[Section]) -> dict[str, str]:
    """Return the words of each section by its kind; a message may have several lines."""
    return {section.kind: f"{section.words}\n{section.text}".strip() for section in sections}


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
