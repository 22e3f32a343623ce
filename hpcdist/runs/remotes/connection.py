"""One connection of OpenSSH for all sessions with a remote: opened once, with prompts on the terminal.

The user's whole ssh config applies: keys, agent, ProxyJump, known hosts. Nothing is forwarded.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs.rundir import Run

KEPT: Final = "4h"
"""How long an unused connection stays open, so that passwords and codes are asked for once."""

_OPEN_LIMIT: Final = 60.0
_RESOLVE_LIMIT: Final = 10.0
_TARGET: Final = frozenset(
    ("hostname", "user", "port", "proxyjump", "proxycommand", "hostkeyalias", "identityfile",
     "certificatefile", "identityagent")
)  # fmt: skip
"""Settings that `ssh -G` prints and that select the machine or user (ssh_config(5))."""

_SESSIONS: Final = 8
"""Sessions at once through one connection: sshd refuses more than ten (sshd_config(5), MaxSessions)."""

_SHORT: Final = 50
"""Characters of a path that leave room for the name of a socket."""

_PAUSE: Final = 0.05
_OPTIONS: Final = (
    "-T", "-a", "-x", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none",
    "-oServerAliveInterval=15", "-oServerAliveCountMax=4", "-oConnectTimeout=20",
)  # fmt: skip
"""Nothing else is forwarded or run; a dead line is noticed within a minute."""

_prompting = threading.Lock()


class Starter(Protocol):
    """What starts processes: ``hpcdist.base.shell.Shell``."""

    def run(self, command: Command) -> Completed:
        """Run the command to its end."""
        ...

    def attach(self, command: Command) -> int:
        """Run the command with this process's terminal."""
        ...


class Connection(NamedTuple):
    """The connection to a host; ``folder`` has its socket, and only its user can use it.

    ``name``: the remote's, for messages. ``config``: options in front of all others, for tests. ``target``:
    what ssh makes of the host, as `resolved` finds it.
    """

    name: str
    host: str
    shell: Starter
    folder: Path
    config: tuple[str, ...] = ()
    sleep: Callable[[float], None] = time.sleep
    target: str = ""

    def resolved(self) -> Connection:
        """Return the connection by the user's current ssh config: an alias may have changed."""
        return self._replace(target="\n".join(self._targets([self.host])))

    def _targets(self, hosts: list[str]) -> Iterator[str]:
        """Yield ssh's settings for each host, and for the jump hosts before it."""
        for host in hosts:  # grows below
            argv = ("ssh", *self.config, "-G", "--", host)
            for line in self.shell.run(Command(argv, timeout=_RESOLVE_LIMIT)).stdout.splitlines():
                key, _, value = line.partition(" ")
                if key in _TARGET:
                    yield line
                if key == "proxyjump" and value != "none":
                    jumps = (one if "://" in one else f"ssh://{one}" for one in value.split(","))
                    hosts += [jump for jump in jumps if jump not in hosts]

    @property
    def socket(self) -> Path:
        """The socket of the connection; its path must be short (unix(7): 108 bytes, 17 for ssh)."""
        words = "\0".join((self.host, *self.config, self.target, os.environ.get("HOME", "")))
        return self.folder / hashlib.sha256(words.encode()).hexdigest()[:12]

    def argv(self, *options: str) -> tuple[str, ...]:
        """Return ssh with the options of every call."""
        return ("ssh", *self.config, f"-oControlPath={self.socket}", *_OPTIONS, *options)

    def session(self, words: str, command: Command) -> Completed:
        """Run words of the login shell there, with the command's input, output and timeout.

        Raises:
            Unreachable: if there is no connection, and none can be opened.
        """
        self.open()
        argv = self.argv("-oControlMaster=no", "-oBatchMode=yes", "--", self.host, words)
        with self._slot():
            return self.shell.run(command._replace(argv=argv))

    def attach(self, words: str, *, terminal: bool) -> int:
        """Run words of the login shell there with this process's own input, output and terminal.

        Returns their exit code, or 255 for a connection that was lost.

        Raises:
            Unreachable: as `open`.
        """
        self.open()
        tty = ("-t",) if terminal else ()
        argv = self.argv("-oControlMaster=no", "-oBatchMode=yes", "-q", *tty, "--", self.host, words)
        return self.shell.attach(Command(argv, keep_environment=("LC_ALL",)))

    def open(self) -> None:
        """Open the connection unless it is open; passwords and codes are asked for on the terminal.

        Raises:
            Unreachable: if it cannot be opened; with ssh's own words and what to do.
        """
        if self._is_open():
            return
        with _locked(Path(f"{self.socket}.lock"), self.sleep):
            if not self._is_open():
                self._open()

    def forward(self, ports: str, *, ends: bool = False) -> Completed:
        """Forward a port here to one there, as ``ssh -L``, or stop that; repeating it is harmless.

        It fails without a connection. ``_OPTIONS`` and the user's config are not used: they would add or
        remove other ports.
        """
        options = ("-F", "none", f"-oControlPath={self.socket}", "-O", "cancel" if ends else "forward")
        return self.shell.run(Command(("ssh", *options, "-L", ports, "--", self.host), timeout=10))

    def close(self) -> None:
        """End the connection, if there is one."""
        self.shell.run(Command(self.argv("-O", "exit", "--", self.host), timeout=10))

    def _is_open(self) -> bool:
        if not self.socket.exists():
            return False
        return self.shell.run(Command(self.argv("-O", "check", "--", self.host), timeout=10)).ok

    def _open(self) -> None:
        handle, log = tempfile.mkstemp(dir=self.folder)
        os.close(handle)
        try:
            master = ("-oControlMaster=yes", f"-oControlPersist={KEPT}", "-N", "-f", "-E", log)
            code = self._start(self.argv(*master, "--", self.host))
            errors = Path(log).read_text(encoding="utf-8", errors="replace")
        finally:
            Path(log).unlink()
        if code or not self.socket.exists():
            raise Unreachable(problem(self.name, self.host, errors, terminal=has_terminal()))

    def _start(self, argv: tuple[str, ...]) -> int:
        """Run ssh until the connection is open; it then stays in the background, without our pipes.

        A program that ProxyCommand or ProxyJump starts would keep a pipe open, and its reader would wait. The
        terminal's signals do not end that program, or the connection.
        """
        if has_terminal():  # ssh opens it by itself for prompts
            words = ("/bin/sh", "-c", 'trap "" HUP INT; exec "$@" </dev/tty >/dev/tty 2>&1', "hpcdist", *argv)
            with _prompting:
                return self.shell.attach(Command(words, keep_environment=("LC_ALL",)))
        silent = () if os.environ.get("SSH_ASKPASS") else ("-oBatchMode=yes",)  # no empty answers are tried
        argv = (argv[0], *silent, *argv[1:])
        words = ("/bin/sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "hpcdist", *argv)
        done = self.shell.run(Command(words, timeout=_OPEN_LIMIT, keep_environment=("LC_ALL",)))
        return done.returncode

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        """Wait until few enough sessions are open."""
        files = [Path(f"{self.socket}.{number}") for number in range(_SESSIONS)]
        while True:
            for file in files:
                with _lock(file) as is_free:
                    if is_free:
                        yield
                        return
            self.sleep(_PAUSE)


def has_terminal() -> bool:
    """Return whether ssh can ask on a terminal."""
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        return True
    return False


def folder_of(environment: Mapping[str, str]) -> Path:
    """Return the folder of sockets, made if missing, which only this user can use.

    Raises:
        ConfigError: if another user has made it.
    """
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    is_short = runtime.startswith("/") and len(runtime) < _SHORT and os.access(runtime, os.W_OK)
    own = Path(runtime) if is_short else Path("/tmp")  # noqa: S108 - checked below
    folder = own / f"hpcdist-ssh-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        hint = "remove it, or set XDG_RUNTIME_DIR to a folder of your own"
        raise ConfigError(Problem(f"others can use {folder}, where connections of ssh are kept", hint=hint))
    return folder


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[bool]:
    """Lock a file, and yield whether that was possible at once; it is released whenever this process ends."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(file: Path, sleep: Callable[[float], None]) -> Iterator[None]:
    while True:
        with _lock(file) as is_free:
            if is_free:
                yield
                return
        sleep(_PAUSE)


# --- Why a remote cannot be reached: what ssh printed, and what to do

_MOST: Final = 200
_HEAD: Final = 60


class Unreachable(SchedulerError):  # noqa: N818 - what it is, not a mistake
    """A remote could not be reached, or its answer is incomplete."""


_REASON: Final = re.compile("space|quota|denied|Read-only|too large", re.IGNORECASE)
"""Words of the line of tar's output that names the reason."""

_SSH: Final = 255
"""The exit code of ssh for its own failures (ssh(1))."""


class Cause(NamedTuple):
    """What ssh prints, as a pattern; what that means, and what to do."""

    pattern: str
    what: str
    hint: str


_CAUSES: Final = (
    Cause(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|host key .* has changed",
        "its host key is not the one that ssh knows, so it may be another machine",
        "ask its centre whether the key was changed; if so, forget the old one by `ssh-keygen -R`, log in "
        "once by `ssh {host}`, and compare the new one",
    ),
    Cause(
        "Host key verification failed",
        "ssh does not know its host key yet",
        "log in once by `ssh {host}`, and compare the key's fingerprint with the one that its centre shows",
    ),
    Cause(
        "Permission denied|Too many authentication failures|Authentication failed",
        "it refused the login",
        "try `ssh {host}`, whose keys and agent are used here, too",
    ),
    Cause(
        "Could not resolve hostname|Name or service not known",
        "there is no host of this name",
        "correct `remotes.{name}.host` in your config",
    ),
    Cause(
        "Connection refused",
        "no ssh server answers there",
        "check `remotes.{name}.host` in your config, and whether the machine is down",
    ),
    Cause(
        "timed out|No route|unreachable|not responding|Connection closed|Connection reset|Broken pipe",
        "the network does not lead there now",
        "check your network or VPN, and try again",
    ),
    Cause("ssh: No such file|ssh: not found", "there is no `ssh` here", "install the client of OpenSSH"),
)
_NO_TERMINAL: Final = (
    "; passwords and codes are asked for on a terminal alone: run `hpcdist status` in one, and its "
    "connection serves for hours"
)


def problem(name: str, host: str, errors: str, *, terminal: bool = True) -> Problem:
    """Return why ssh could not connect, by its errors."""
    cause = next((one for one in _CAUSES if re.search(one.pattern, errors, re.IGNORECASE)), None)
    if cause is None:
        hint = f"try `ssh {host}`; what works there works here"
        return Problem(f"{name} cannot be reached: {shown(errors) or 'ssh gave no reason'}", hint=hint)
    hint = cause.hint.format(name=name, host=host)
    if not terminal and "refused the login" in cause.what:
        hint += _NO_TERMINAL
    return Problem(f"{name} cannot be reached: {cause.what} ({shown(errors)})", hint=hint)


def no_answer(name: str, host: str, code: int, errors: str, printed: str) -> Problem:
    """Return why a session gave no answer: it was cut off, or the login shell there ended first."""
    if code == _SSH:
        return problem(name, host, errors)
    words = shown(errors) or shown(printed)
    why = f"{words}; " if words else ""
    message = f"the login shell on {name} ended with exit code {code} before it ran anything ({why}no answer)"
    return Problem(message, hint=f"does `ssh {host} true` work? a ~/.bashrc there must not end the shell")


def slow(name: str, seconds: float) -> Problem:
    """Return the problem of a session that did not end in its time."""
    message = f"{name} did not answer within {seconds:.0f} s"
    return Problem(message, hint="its login node or your network may be slow now: try again later")


def endless(name: str, most: int) -> Problem:
    """Return the problem of an answer that is longer than any that was asked for."""
    hint = "what a login shell there prints may have no end: log in and look"
    return Problem(f"the answer of {name} has more than {most >> 20} MiB, and was not read", hint=hint)


def broken(name: str, code: int, errors: str) -> Problem:
    """Return the problem of a program that ended early, as by a limit of the login node."""
    why = f": {shown(errors)}" if shown(errors) else ""
    hint = "its login node may have ended it: try again later"
    return Problem(f"what runs on {name} ended with exit code {code} before its end{why}", hint=hint)


def malformed(name: str, host: str, where: str) -> Problem:
    """Return the problem of an answer not in the form that was asked for."""
    message = f"the answer of {name} cannot be read ({shown(where)[:_HEAD]!r})"
    hint = f"something there prints into it or cuts it: does `ssh {host} true` print nothing? try again later"
    return Problem(message, hint=hint)


def unwritten(name: str, errors: str) -> Problem:
    """Return why nothing could be written there."""
    hint = "free some space there, or choose another `directory` of this remote in your config"
    if "no tar" in errors:
        hint = "ask its centre for tar, which every Unix has"
    elif "Permission denied" in errors or "Read-only" in errors:
        hint = f"choose a `directory` in which you can write: `remotes.{name}.directory` in your config"
    reason = next((line for line in _lines(errors) if _REASON.search(line)), "") or shown(errors)
    return Problem(f"the run cannot be written on {name}: {reason[:_MOST]}", hint=hint)


def gone(run: Run) -> Problem:
    """Return the problem of a run whose directory there was removed, as sites do with old files."""
    record = run.record
    message = f"the directory of {run.name} on {record.remote} is not there any more: {record.there}"
    return Problem(message, hint=f"its site may remove old files; what is left is in {run.directory.path}")


def shown(errors: str) -> str:
    """Return the last telling line of ssh, without control characters."""
    lines = [line for line in _lines(errors) if not line.startswith(("Warning: Permanently", "debug", "@"))]
    return lines[-1][:_MOST] if lines else ""


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = "".join(char for char in line if char.isprintable()).strip()
        if plain:
            yield plain
