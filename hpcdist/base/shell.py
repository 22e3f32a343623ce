"""The only module that starts processes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

from hpcdist.base.command import Command, Completed

_LOOK: Final = 0.2
"""Seconds between two looks at how much a command has printed."""


class Shell(NamedTuple):
    """The real ``Runner``: starts each argv directly, without a shell.

    Each process leads its own session, reads ``stdin`` or nothing, and prints English messages (``LC_ALL=C``)
    unless the command keeps ``LC_ALL``, as those do whose job would inherit it. ``environment`` is the base
    environment. If this process is killed, the process and its group are killed, too.
    """

    environment: Mapping[str, str] = os.environ

    def run(self, command: Command) -> Completed:
        """Run the command to its end, its timeout or its bound of bytes; then its process group is killed."""
        try:
            process = self._start(command)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and error.filename == command.argv[0]
            message = f"{error.filename or command.argv[0]}: {error.strerror}"
            return Completed(command, 127 if missing else 126, stderr=message, missing=missing)
        with process, _ended_with_parent(f"-{process.pid}", "KILL"):
            return _finish(process, command)

    def attach(self, command: Command) -> int:
        """Run the command with this process's own input, output and terminal; return its exit code.

        The command gets the terminal's signals; TERM and HUP are passed on to it, and it gets TERM if this
        process is killed. A command that a signal ended has 128 + its number, as in a shell.
        """
        environment = environment_of(command, self.environment)
        with signals_left() as leave_to:
            try:
                process = subprocess.Popen(command.argv, env=environment, cwd=command.cwd or None)
            except OSError as error:
                os.write(2, f"{error.filename or command.argv[0]}: {error.strerror}\n".encode())
                return 127 if isinstance(error, FileNotFoundError) else 126
            leave_to(process)
            with _ended_with_parent(str(process.pid), "TERM"):
                code = process.wait()
        return code if code >= 0 else 128 - code

    def _start(self, command: Command) -> subprocess.Popen[str]:
        with _stdin(command) as stdin, _stdout(command) as stdout:
            process = subprocess.Popen(
                command.argv,
                env=environment_of(command, self.environment),
                cwd=command.cwd or None,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="backslashreplace",
                start_new_session=True,
            )
        if command.stdout and sys.platform == "linux":  # it may fill the disk between two looks
            with contextlib.suppress(OSError, ValueError):  # it has ended, or has a lower limit
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (command.most + 1, command.most + 1))
        return process


def _stdin(command: Command) -> contextlib.AbstractContextManager[int | IO[bytes]]:
    if isinstance(command.stdin, Path):
        return command.stdin.open("rb")
    return contextlib.nullcontext(subprocess.PIPE if command.stdin else subprocess.DEVNULL)


def _stdout(command: Command) -> contextlib.AbstractContextManager[int | IO[bytes]]:
    return command.stdout.open("wb") if command.stdout else contextlib.nullcontext(subprocess.PIPE)


def environment_of(command: Command, base: Mapping[str, str]) -> dict[str, str]:
    """Return the process's environment: the base without dropped variables, LC_ALL, the command's own."""
    language = {} if "LC_ALL" in command.keep_environment else {"LC_ALL": "C"}
    kept = {
        name: value
        for name, value in base.items()
        if name in command.keep_environment or not name.startswith(command.drop_environment)
    }
    return kept | language | dict(command.environment)


@contextlib.contextmanager
def signals_left() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Leave this process's signals to another process, which is named as soon as it has started.

    It gets earlier signals, TERM and HUP; the terminal's signals reach it anyway. This process gets them if
    no other process has started.
    """
    started: list[subprocess.Popen[bytes]] = []
    left: list[int] = []

    def leave(number: int, _frame: object) -> None:
        if not started or number in {signal.SIGTERM, signal.SIGHUP}:
            left.append(number)
            send()

    def leave_to(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        send()

    def send() -> None:
        while started and left:
            started[0].send_signal(left.pop(0))

    is_main = threading.current_thread() is threading.main_thread()  # only this one may set handlers
    with contextlib.ExitStack() as handlers:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP) if is_main else ():
            handlers.callback(signal.signal, number, signal.signal(number, leave))
        yield leave_to
    for unsent in left:
        signal.raise_signal(unsent)


@contextlib.contextmanager
def _ended_with_parent(target: str, name: str) -> Iterator[None]:
    """Signal the process or group if this process dies meanwhile, by whatever signal.

    A shell in its own session reads a pipe that only this process writes to: it gets a line, or end of file.
    """
    words = ("/bin/sh", "-c", 'read -r _ || kill -s "$2" -- "$1"', "hpcdist", target, name)
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        watch = subprocess.Popen(words, stdin=pipe, stdout=null, stderr=null, start_new_session=True)
    except OSError:  # no process can be started for it; the command runs already
        yield
        return
    with watch:
        try:
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                watch.communicate(b"\n")


def _finish(process: subprocess.Popen[str], command: Command) -> Completed:
    end, text = time.monotonic() + command.timeout, command.stdin if isinstance(command.stdin, str) else ""
    while True:
        left = end - time.monotonic()
        try:
            out, err = process.communicate(text or None, max(0.0, min(left, _LOOK)))
        except subprocess.TimeoutExpired as sofar:
            text = ""  # it is being sent
            if _printed(command, sofar.stdout, sofar.stderr) > command.most:
                return _too_long(command, *_kill(process))
            if left <= 0:
                out, err = _kill(process)
                return Completed(command, 124, out, err, timed_out=True)
        except BaseException:
            _kill(process)
            raise
        else:
            if _printed(command, out, err) > command.most:
                return _too_long(command, out or "", err)
            return Completed(command, process.returncode, out or "", err)


def _printed(command: Command, *texts: str | bytes | None) -> int:
    return sum(map(len, filter(None, texts))) + (command.stdout.stat().st_size if command.stdout else 0)


def _too_long(command: Command, out: str, err: str) -> Completed:
    """Return the result of a command that printed too much, as one that was killed."""
    message = f"it printed more than {command.most / (1 << 20):g} MiB, and was ended"
    errors = f"{err[: command.most]}\n{message}".strip()
    return Completed(command, -signal.SIGKILL, out[: command.most], errors)


def _kill(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Kill the group and return its output; a child that left the group can hold the pipes open for 1 s."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=1)
    except subprocess.TimeoutExpired as error:
        return _text(error.stdout), _text(error.stderr)
    return out or "", err


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="backslashreplace") if isinstance(output, bytes) else output or ""
