"""Outputs come back from a remote: by rsync, else in parts over the same session as all requests.

Both go on where they were interrupted. What is here is in ``outputs`` of the mirror, as it is there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from hpcdist.errors import ConfigError, Problem
from hpcdist.host.command import Command
from hpcdist.remotes import program
from hpcdist.remotes.channel import Channel
from hpcdist.remotes.connection import Connection
from hpcdist.runs.rundir import Run
from hpcdist.words import quote

_PART: Final = 1 << 24
"""Bytes of one request; what is lost with a connection is asked for again."""

_TIMEOUT: Final = 300.0
_HOURS: Final = 86400.0
_UNFINISHED: Final = ".part"

Progress = Callable[[int], object]
"""Is called with the number of bytes that have come."""


def listing(channel: Channel, run: Run) -> dict[str, int]:
    """Return the files of the run's outputs there, and their bytes; links are left out.

    Raises:
        Unreachable: without an answer.
    """
    sections = channel.call([program.call("hpcdist_outputs", run.record.there)], _TIMEOUT)
    lines = (line.partition(" ") for line in sections[0].data.decode("utf-8", "surrogateescape").split("\n"))
    return {name: int(size) for size, _, name in lines if size.isdecimal() and _is_inside(name)}


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def matching(there: Mapping[str, int], patterns: Iterable[str], run: Run) -> dict[str, int]:
    """Return the files that match one of these patterns, by their whole path or a folder's.

    Raises:
        ConfigError: if a pattern has none.
    """
    found: dict[str, int] = {}
    for pattern in patterns:
        own = {name: size for name, size in there.items() if _matches(name, pattern)}
        if not own:
            hint = f"`hpcdist outputs {run.name}` lists those that there are"
            raise ConfigError(Problem(f"no output of {run.name} matches {pattern!r}", hint=hint))
        found |= own
    return found


def _matches(name: str, pattern: str) -> bool:
    path = PurePosixPath(name)
    return any(fnmatchcase(str(part), pattern.rstrip("/")) for part in (path, *path.parents))


def fetch(channel: Channel, run: Run, names: Mapping[str, int], progress: Progress) -> None:
    """Bring these files here, by rsync where both machines have it.

    Raises:
        Unreachable: if the connection is lost for good; a later call goes on.
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


def _in_parts(channel: Channel, run: Run, names: Mapping[str, int], progress: Progress) -> None:
    folder = run.directory.outputs
    for name, size in names.items():
        with suppress(FileNotFoundError):
            if (folder / name).stat().st_size == size:
                progress(size)
                continue
        for count in _parts(channel, run, name, size):
            progress(count)


def _parts(channel: Channel, run: Run, name: str, size: int) -> Iterator[int]:
    """Yield how many bytes came, at first how many were here, until the file is whole; then it is renamed."""
    whole = run.directory.outputs / name
    part = whole.with_name(f"{whole.name}{_UNFINISHED}")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        begun = file.tell()
        yield begun
        while begun < size:
            data = _part(channel, run, name, begun)
            if not data:
                break
            file.write(data)
            file.flush()
            begun += len(data)
            yield len(data)
    part.replace(whole)


def _part(channel: Channel, run: Run, name: str, begun: int) -> bytes:
    lines = [
        program.known({f"0/{name}": begun}, most=_PART),
        f"cd {quote(run.record.there)}/outputs && {program.call('hpcdist_part', 0, name)}",
    ]
    sections = channel.call(lines, _TIMEOUT)
    return b"".join(section.data for section in sections if section.kind == "file")


def missing(run: Run, there: Mapping[str, int]) -> dict[str, int]:
    """Return the files that are there alone."""
    return {name: size for name, size in there.items() if not Path(run.directory.outputs, name).is_file()}
