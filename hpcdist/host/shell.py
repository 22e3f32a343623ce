"""The one module that starts processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hpcdist.host.command import Command, Completed


class Shell(NamedTuple):
    """The real ``Runner``: no shell lies between an argv and its process.

    Each process leads a session of its own, reads ``stdin`` or nothing, and speaks English (``LC_ALL=C``)
    unless the command keeps ``LC_ALL``, as those do whose job would inherit it. ``environment`` is what
    commands start from. Where this process is killed, the process and its group are killed, too.
    """

    environment: Mapping[str, str] = os.environ

    def run(self, command: Command) -> Completed:
        """Run the command to its end, or to its timeout; then the whole group is killed."""
        try:
            process = self._start(command)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and error.filename == command.argv[0]
            said = f"{error.filename or command.argv[0]}: {error.strerror}"
            return Completed(command, 127 if missing else 126, stderr=said, missing=missing)
        with process, _ended_with_us(process.pid):
            return _finish(process, command)

    def _start(self, command: Command) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command.argv,
            env=environment_of(command, self.environment),
            cwd=command.cwd or None,
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            start_new_session=True,
        )


def environment_of(command: Command, base: Mapping[str, str]) -> dict[str, str]:
    """Return what the process gets: the base without what is dropped, the language, the command's own."""
    language = {} if "LC_ALL" in command.keep_environment else {"LC_ALL": "C"}
    kept = {
        name: value
        for name, value in base.items()
        if name in command.keep_environment or not name.startswith(command.drop_environment)
    }
    return kept | language | dict(command.environment)


@contextlib.contextmanager
def _ended_with_us(group: int) -> Iterator[None]:
    """Have the process group killed should this process end meanwhile, by whatever signal.

    A shell of its own session reads a pipe that only this process holds: it gets a line, or sees it close.
    """
    words = ("/bin/sh", "-c", 'read -r _ || kill -s KILL -- "-$1"', "hpcdist", str(group))
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        watch = subprocess.Popen(words, stdin=pipe, stdout=null, stderr=null, start_new_session=True)
    except OSError:  # no process is left for it; the command is under way
        yield
        return
    with watch:
        try:
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                watch.communicate(b"\n")


def _finish(process: subprocess.Popen[str], command: Command) -> Completed:
    try:
        out, err = process.communicate(command.stdin or None, command.timeout)
    except subprocess.TimeoutExpired:
        out, err = _kill(process)
        return Completed(command, 124, out, err, timed_out=True)
    except BaseException:
        _kill(process)
        raise
    return Completed(command, process.returncode, out, err)


def _kill(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End the group and return what it had said; a child that left the group may hold the pipes for 1 s."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=1)
    except subprocess.TimeoutExpired as error:
        return _text(error.stdout), _text(error.stderr)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="backslashreplace") if isinstance(output, bytes) else output or ""
