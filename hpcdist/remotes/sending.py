"""A new run goes to a remote: its directory there, and the files of the one here."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.remotes import failures, program
from hpcdist.remotes.channel import Channel, Section
from hpcdist.runs.rundir import Event, Run
from hpcdist.words import quote, slug

_TIMEOUT: Final = 60.0
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
    words = _words(channel.call([line], _TIMEOUT, "((unset|unwritten|open|folder) )?", needs))
    if "unset" in words:
        hint = f"write the path itself as `remotes.{remote}.directory` in your config"
        raise ConfigError(Problem(f"${variable} is not set on {remote}", hint=hint))
    if "open" in words:
        hint = f"run `chmod go-w` on it there, or choose another `remotes.{remote}.directory`"
        message = f"others could replace what your jobs run: they can write to {words['open']} on {remote}"
        raise ConfigError(Problem(message, hint=hint))
    if "folder" not in words:
        raise ConfigError(failures.unwritten(remote, words.get("unwritten", "")))
    highest, _, path = words["folder"].partition(" ")
    return RunsFolder(path, int(highest))


def send(channel: Channel, run: Run) -> None:
    """Send the files of a new run; a call that is repeated does no more.

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
        _pack(run, archive, wanted)
        timeout = _TIMEOUT + archive.stat().st_size / _SLOWEST
        words = _words(channel.call([line], timeout, "(received|taken|unwritten) ", data=archive))
    remote = channel.connection.name
    if "taken" in words:
        message = f"there is another run {run.name} on {remote}, which was made just now"
        raise ConfigError(Problem(message, hint="submit it again"))
    if "received" not in words:
        raise ConfigError(failures.unwritten(remote, words.get("unwritten", "")))


def add(channel: Channel, run: Run, event: Event) -> None:
    """Send the files of the run's jobs that have no id yet, and let it go on, of which this is the event.

    A call that is repeated does no more.

    Raises:
        ConfigError: if they cannot be written there.
        Unreachable: without an answer.
    """
    new = [job.directory for job in run.jobs if not job.job]
    files = ("plan.json", "job.sh", "setup.sh", "job.sum")  # `renderer.files_of_job`
    names = {"runtime", *(one.own(name) for one in new for name in files)}  # that of another version, too
    log = f"{event.what} {event.job_id} {event.at} {event.value}"
    line = program.call("hpcdist_add", run.record.there, run.record.token, log)
    _sent(channel, run, line, lambda path: path.name in names)


def begin_with(channel: Channel, source: str, run: Run) -> None:
    """Let a new run there begin with copies of the outputs and checkpoints in the folder of another one.

    Raises:
        ConfigError: if they cannot be copied.
        Unreachable: without an answer.
    """
    line = program.call("hpcdist_begin_with", source, run.record.there)
    words = _words(channel.call([line], _COPYING, "(copied|unwritten) "))
    if "copied" not in words:
        raise ConfigError(failures.unwritten(channel.connection.name, words.get("unwritten", "")))


def _words(sections: Sequence[Section]) -> dict[str, str]:
    """Return the words of each section by its kind; a message may have several lines."""
    return {section.kind: f"{section.words}\n{section.text}".strip() for section in sections}


def _pack(run: Run, archive: Path, wanted: Callable[[Path], bool]) -> None:
    """Write files of a run directory into an archive, without owners; its last one shows that it is whole."""
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in filter(wanted, sorted(run.directory.path.iterdir())):
            tar.add(path, path.name, filter=_anonymous)
        mark = tarfile.TarInfo(_WHOLE)
        token = run.record.token.encode()
        mark.size, mark.mode = len(token), 0o600
        tar.addfile(mark, io.BytesIO(token))


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
