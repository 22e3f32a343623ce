"""Who failed first, by the launcher's own messages: no process need stand between a launcher and the program.

srun reports tasks in the order of their ends, those that it ends itself only afterwards; the others report
the first one alone. Each pattern is what the program of this name was seen to print, or names its source.
"""

import re
import signal
from typing import Callable, List, Mapping, NamedTuple, Optional, Tuple

from .events import FIRST_TO_FAIL

MEMORY = (
    "the kernel killed a process for lack of memory (exit code {}); "
    "ask for more by environment.resources.memory"
)


class Cause(NamedTuple):
    """The first failure; ``rank`` is None and ``node`` empty where the launcher does not say them."""

    rank: Optional[int]
    node: str
    code: int
    text: str = ""
    is_told: bool = False  # the line says it all: it is one of ours

    def __str__(self) -> str:
        who = f"rank {'?' if self.rank is None else self.rank} on {self.node or '?'}"
        if self.text:
            return f"{who}: {self.text}"
        if self.code in (129, *range(130, 165)):
            return f"{who} was the first to end, killed by signal {name_of(self.code - 128)}"
        return FIRST_TO_FAIL % (who, self.code)


def name_of(number: int) -> str:
    """Return the name of a signal without SIG."""
    try:
        return signal.Signals(number).name[3:]
    except ValueError:
        return str(number)


_OWN = re.compile(rb"^(?:[0-9]+: |\[[0-9,]+\]<std(?:out|err)>: ?)?hpcdist: rank ([0-9]+) on ([^ ]+): (.*)$")
_FIRST = re.compile(("^hpcdist: %s$" % FIRST_TO_FAIL % ("rank ([0-9]+) on ([^ ]+)", "([0-9]+)")).encode())
_TOLD = re.compile(rb"^(?:[0-9]+: )?hpcdist: rank ([0-9]+) on ([^ ]+) failed, with exit code ([0-9]+)$")
_ROLE = re.compile(rb"^hpcdist: a task of (\S+) was the first to fail")
_LOST = re.compile(rb"^srun: error: Node failure on ([^ ,]+)")
_OOM = re.compile(rb"error: .*(?:Detected [0-9]+ oom.kill event|OOM Killed|oom_kill)")
_SRUN = re.compile(
    rb"^srun: error: ([^ :]+): tasks? ([0-9]+)[0-9,-]*: "
    rb"(?:Exited with exit code ([0-9]+)|(Out Of Memory)|([A-Z].*))$"
)
_NOTICED = re.compile(  # Open MPI 4 and 5
    rb"noticed that process rank ([0-9]+) with PID [0-9]+ on node ([^ ]+) exited on signal ([0-9]+)"
)
_NAME = re.compile(  # and horovodrun
    rb"^ *Process name: (?:\[(?:\[[0-9]+,[0-9]+\]|[^\]]*@[0-9]+),)?([0-9]+)\]?\s*$"
)
_CODE = re.compile(rb"^ *Exit code: +([0-9]+)")
_AT = re.compile(rb"^= +(?:RANK ([0-9]+) )?PID [0-9]+ RUNNING AT (\S+)")  # Intel MPI; MPICH names no rank
_BAD = re.compile(rb"^= +(?:EXIT (?:CODE|STATUS)|(KILL SIGNAL|KILLED BY SIGNAL)): ([0-9]+)")
_PALS = re.compile(rb"^([^ :]+): rank ([0-9]+) (?:exited with code|(died from signal)) ([0-9]+)")
_JSRUN = re.compile(rb"first noticed rank ([0-9]+)\) terminated with signal ([0-9]+)")
_FLUX = re.compile(
    rb"flux-shell\[[0-9]+\]: FATAL: .*rank ([0-9]+)(?: on host (\S+))? failed and exit-on-error is set"
)
_FLUX_CODE = re.compile(rb"^flux-job: task\(s\) exited with exit code ([0-9]+)")
_WORDS = {
    b"Hangup": 1, b"Interrupt": 2, b"Quit": 3, b"Illegal instruction": 4, b"Aborted": 6, b"Bus error": 7,
    b"Floating point exception": 8, b"Killed": 9, b"User defined signal 1": 10, b"Segmentation fault": 11,
    b"User defined signal 2": 12, b"Broken pipe": 13, b"Alarm clock": 14, b"Terminated": 15,
}  # fmt: skip
"""Signals as srun names them (strsignal(3)), a core dump behind them."""


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def _of_srun(line: bytes) -> Optional[Cause]:
    found = _SRUN.match(line)
    if not found:
        return None
    node, rank, code, memory, text = found.groups()
    if code:
        return Cause(int(rank), _text(node), int(code))
    if memory:
        return Cause(int(rank), _text(node), 137, MEMORY.format(137))
    number = next((value for name, value in _WORDS.items() if text.startswith(name)), 0)
    return Cause(int(rank), _text(node), 128 + number) if number else None


def _of_first(line: bytes) -> Optional[Cause]:
    first = _FIRST.match(line)
    found = first or _TOLD.match(line)
    if not found:
        return None
    rank, node, code = found.groups()
    return Cause(int(rank), _text(node), int(code), is_told=bool(first))


def _of_signal(line: bytes) -> Optional[Cause]:
    for pattern in (_NOTICED, _JSRUN):
        found = pattern.search(line)
        if found:
            rank, *node, number = found.groups()
            return Cause(int(rank), _text(node[0]) if node else "", 128 + int(number))
    return None


def _of_pals(line: bytes) -> Optional[Cause]:
    found = _PALS.match(line)
    if not found:
        return None
    node, rank, died, number = found.groups()
    return Cause(int(rank), _text(node), int(number) + (128 if died else 0))


class Watcher:
    """Reads the lines of a launcher.

    ``cause`` is the first failure that it told; ``lost`` has the nodes that failed before. ``first`` has the
    first rank of each role: where each role is a step of its own, srun numbers its tasks from 0.
    """

    def __init__(self, first: Mapping[str, int]) -> None:
        self._first = first
        self.cause: Optional[Cause] = None
        self.memory = False
        self.lost: List[str] = []
        self._at: Optional[Tuple[Optional[int], str]] = None

    def line(self, line: bytes) -> None:
        """Read one line of the job's standard error."""
        if _OOM.search(line):
            self.memory = True
        lost = _LOST.match(line)
        if lost and not self.cause:
            self.lost.append(_text(lost.group(1)))
        found = None if self.lost else self._find(line.rstrip(b"\r\n"))  # what ends then is ended by that
        if found and found.code and not self.cause:
            self.cause = found
        if self.cause and self.cause.rank is not None and not self.cause.is_told:
            role = _ROLE.match(line)
            first = self._first.get(_text(role.group(1)), 0) if role else 0
            self.cause = self.cause._replace(rank=self.cause.rank + first)

    def _find(self, line: bytes) -> Optional[Cause]:
        own = None if _FIRST.match(line) else _OWN.match(line)
        if own:
            rank, node, text = int(own.group(1)), _text(own.group(2)), _text(own.group(3))
            return Cause(rank, node, 86, text, is_told=True)
        of: Callable[[bytes], Optional[Cause]]
        for of in (_of_first, _of_srun, _of_signal, _of_pals):
            cause = of(line)
            if cause:
                return cause
        return self._on_two_lines(line)

    def _on_two_lines(self, line: bytes) -> Optional[Cause]:
        """Read what launchers write on two lines: the rank, and how it ended."""
        for pattern in (_NAME, _AT, _FLUX):
            found = pattern.search(line)
            if found:
                rank, *node = found.groups()
                self._at = (None if rank is None else int(rank), _text(node[0]) if node else "")
                return None
        if self._at is None:
            return None
        code, bad = _CODE.match(line) or _FLUX_CODE.match(line), _BAD.match(line)
        if code:
            return Cause(*self._at, int(code.group(1)))
        rank, at = self._at
        return Cause(rank, at, int(bad.group(2)) + (128 if bad.group(1) else 0)) if bad else None

    @property
    def refused(self) -> Optional[Cause]:
        """The first failure, where it is that of a task's own check: its program did not begin."""
        return self.cause if self.cause and self.cause.is_told and self.cause.text else None

    def of(self, code: int) -> Optional[Cause]:
        """Return the cause of an end with this exit code; one for lack of memory says so."""
        if code and self.cause and self.memory and not self.cause.text:
            return self.cause._replace(text=MEMORY.format(self.cause.code))
        return self.cause if code else None
