"""One attempt: runs the job's script, passes signals on, and reads on its standard error who failed first."""

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .causes import Cause, Watcher

Tick = Callable[[], None]

TOLD = (signal.SIGTERM, signal.SIGHUP)
_TO_TERM = (signal.SIGINT, signal.SIGQUIT, signal.SIGALRM, signal.SIGXCPU, signal.SIGXFSZ)
"""What some batch systems send at a limit, and a terminal: the program gets TERM."""

_PASSED = (signal.SIGUSR1, signal.SIGUSR2)
_PAUSE = 0.1
_LEFT_OPEN = 1.0
"""Seconds that are waited for what a script has left behind, and which keeps its standard error open."""


class Outcome(NamedTuple):
    """How an attempt ended: with the exit code of its script, 128 and a signal's number added."""

    code: int
    cause: Optional[Cause]
    lost: Sequence[str] = ()  # nodes that failed, by the launcher's word


class Signals:
    """The signals that this process gets from the batch system: each is passed on, once.

    ``told``: whether the job was told to end. ``arrived`` gets each, and whether it is one of ours, which
    nobody else sends to the program.
    """

    def __init__(self, arrived: "Callable[[int, bool], None]", *, terminal: bool = False) -> None:
        self.told = False
        self._limit = self._bell = False
        self._arrived = arrived
        self.pending: List[Tuple[int, bool]] = []
        for number in (*TOLD, *_TO_TERM, *_PASSED):
            signal.signal(number, self._got)
        # The keys of a terminal are for the program there.
        for number in (signal.SIGINT, signal.SIGQUIT) if terminal else ():
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGURG, self._ring)

    def _ring(self, *_: Any) -> None:
        self._bell = True

    def take_bell(self) -> bool:
        """Return whether URG has come: what the clock has next is due now; once."""
        bell, self._bell = self._bell, False
        return bell

    def _got(self, number: int, _: Any) -> None:
        if number in _TO_TERM:
            self._limit = self._limit or number == signal.SIGALRM
            number = signal.SIGTERM
        self.told = self.told or number in TOLD
        self.pending.append((number, False))  # not here: this may be in the midst of anything

    def tell(self) -> None:
        """End the job as TERM does."""
        self.told = True
        self.pending.append((signal.SIGTERM, True))

    def take_limit(self) -> bool:
        """Return whether ALRM has come, which Flux sends at the time limit; once."""
        limit, self._limit = self._limit, False
        return limit

    def deliver(self) -> None:
        """Pass on what has arrived."""
        while self.pending:
            self._arrived(*self.pending.pop(0))


class Program:
    """The running script."""

    def __init__(
        self,
        words: Sequence[str],
        environment: "Dict[str, str]",
        *,
        group: bool,
        reads: bool,
        terminal: bool = False,
    ) -> None:
        """Start it.

        ``group``: signals go to all its processes. ``reads``: its errors are read. ``terminal``: it has our
        input.
        """
        self._group = group
        self.process = subprocess.Popen(
            words,
            env=environment,
            stdin=None if terminal else subprocess.DEVNULL,
            stderr=subprocess.PIPE if reads else None,
            preexec_fn=os.setpgrp if group else None,  # noqa: PLW1509 - this process has no threads
        )

    def send(self, number: int) -> None:
        """Send a signal to the script, or to its group of processes, if it has not ended."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                (os.killpg if self._group else os.kill)(self.process.pid, number)

    @property
    def code(self) -> Optional[int]:
        """Its exit code; None while it runs."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code


def attempt(program: Program, signals: Signals, ticks: Sequence[Tick], watcher: Watcher) -> Outcome:
    """Follow a script to its end; each tick is called now and then."""
    source = program.process.stderr
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(writing)
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        _follow(program, signals, ticks, watcher, reading)
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGCHLD, handler)
        os.close(reading)
        os.close(writing)
        if source:
            source.close()
    code = program.process.wait()
    code = 128 - code if code < 0 else code
    return Outcome(code, watcher.of(code), tuple(watcher.lost))


def _follow(program: Program, signals: Signals, ticks: Sequence[Tick], watcher: Watcher, wakes: int) -> None:
    stderr, rest, over, due = program.process.stderr, b"", 0.0, 0.0
    while True:
        signals.deliver()
        now = time.monotonic()
        if now >= due:
            for tick in ticks:
                tick()
            due = time.monotonic() + _PAUSE
        ended = program.code is not None
        over = over or (now if ended else 0.0)
        if ended and (stderr is None or now - over > _LEFT_OPEN):
            break
        sources = [wakes] if stderr is None else [wakes, stderr.fileno()]
        ready = select.select(sources, [], [], 0.05 if ended else max(0.0, due - time.monotonic()))[0]
        if wakes in ready:
            os.read(wakes, 4096)
        if stderr is not None and stderr.fileno() in ready:
            data = os.read(stderr.fileno(), 1 << 16)
            if not data:
                stderr = None
                continue
            write(2, data)
            lines = (rest + data).split(b"\n")
            rest = lines.pop()[-4096:]
            for line in lines:
                watcher.line(line)
    watcher.line(rest)


def start(
    words: Sequence[str], environment: "Optional[Dict[str, str]]" = None
) -> "Optional[subprocess.Popen[bytes]]":
    """Start words that print nothing; None where that cannot be done. Who does not wait for them need not."""
    null = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            words, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
    except OSError:
        return None


def write(file: int, data: bytes) -> None:
    """Write all of it, also to a pipe that does not block; a full disk ends no training."""
    while data:
        try:
            data = data[os.write(file, data) :]
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            return
