"""The output of a job: all lines, the last or new ones; of all tasks, one rank or one attempt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Outdated, Services
from hpcdist.runs.waiting import (
    ENDING_PAUSE,
    SilenceTimeout,
    is_ending,
    is_local,
    pause_after,
    state_and_reason,
)

_BLOCK: Final = 1 << 16
_LONGEST: Final = 1 << 20
"""A longer line is read as several lines, so that a file without newlines does not fill the memory."""

_TAIL: Final = 1 << 26
"""Bytes at the end of a file that are searched for the last lines."""

_LINKS: Final = (".output.out", ".error.out")
_BEGINS: Final = re.compile(r"hpcdist: attempt ([0-9]{1,9}) begins \(job \S+\)$")
_LABEL = re.compile(r"\[(?:\d+,)?(\d+)\]<(?:stdout|stderr)>:| *(\d+): ?", re.ASCII)


def files(directory: RunDirectory, element: str = "") -> list[Path]:
    """Return the output files, sorted by name; with ``element``, of that alone.

    Some may be links to the files that ``batch.output`` and ``batch.error`` name. The batch system's own file
    for a later job of the run (``2-job-1.out``) is often empty, and then left out.
    """
    pattern = f"job-{element}.*out" if element else "*.out"
    paths = directory.logs.glob(pattern)
    found = (path for path in paths if ownership.is_regular(_target(path)))
    return sorted(path for path in found if not path.name[0].isdecimal() or path.stat().st_size)


def _target(file: Path) -> Path:
    return ownership.own_target(file) if file.name.endswith(_LINKS) else file


def tail(file: Path, count: int) -> list[str]:
    """Return the last lines of a file, reading no more than needed.

    Raises:
        OSError: if it cannot be read.
    """
    blocks: list[bytes] = []
    ends = 0
    with ownership.open_regular(_target(file)) as stream:
        position = end = stream.seek(0, 2)
        while position > 0 and end - position < _TAIL and ends <= count:
            size = min(_BLOCK, position)
            position = stream.seek(position - size)
            blocks.append(stream.read(size))
            ends += blocks[-1].count(b"\n")
    data = b"".join(reversed(blocks))
    text = data.decode("utf-8", errors="replace")
    found = text.removesuffix("\n").split("\n") if text else []
    return found[-count:] if count > 0 else []


def lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file.

    Raises:
        OSError: if it cannot be read.
    """
    return (line for line, _ in _new_lines(file, 0, rest=True))


def follow(
    directory: RunDirectory,
    is_over: Callable[[], bool],
    sleep: Callable[[float], None],
    attempt: int | None = None,
) -> Iterator[str]:
    """Yield all lines, and new ones as they are written, until the job ends; or of one attempt alone.

    Only complete lines are yielded; a last line without a newline follows at the end.
    """
    positions: dict[Path, int] = {}
    chosen: dict[Path, OfAttempt] = {}

    def new_of(file: Path, *, over: bool) -> Iterator[str]:
        for line, position in _new_lines(file, positions.get(file, 0), rest=over):
            positions[file] = position
            yield line

    def new_lines(over: bool) -> Iterator[str]:  # noqa: FBT001 - the only argument
        for file in files(directory):
            new = new_of(file, over=over)
            yield from new if attempt is None else chosen.setdefault(file, OfAttempt(file, attempt))(new)

    return poll(new_lines, is_over, sleep)


class OfAttempt:
    """Yields the lines of one attempt in one file, whose lines it may get in several parts.

    The script writes a line where an attempt after the first begins. Text before it in a file of a later job
    (``2-job.out``), such as the output of a login shell, has no attempt.
    """

    def __init__(self, file: Path, number: int) -> None:
        self._number = number
        self._now = -1 if file.name[0].isdecimal() else 0

    def __call__(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the attempt's lines; the last one may be cut short, where its program was killed."""
        for line in lines:
            begins = _BEGINS.search(line)
            if begins and begins.start() and self._now == self._number:
                yield line[: begins.start()]
            if begins:
                self._now = int(begins[1])
            if self._now == self._number:
                yield line[begins.start() :] if begins else line


def poll(
    new: Callable[[bool], Iterable[str]], is_over: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[str]:
    """Yield new lines until the job ends; ``new`` yields them, and gets whether this is the last time."""
    pause = 0.1
    over = False
    while True:
        fresh = False
        for line in new(over):
            fresh = True
            yield line
        if over:
            return
        pause = 0.1 if fresh else min(pause * 1.5, 5.0)
        # Checked before the last read: the output is complete once the job has ended.
        over = is_over()
        if not over:
            sleep(pause)


def _new_lines(file: Path, position: int, *, rest: bool) -> Iterator[tuple[str, int]]:
    """Yield lines from a position on, each with the position after it; ``rest``: also an incomplete one.

    The file is read to where it now ends: a job may print faster than that is read.
    """
    with ownership.open_regular(_target(file)) as stream:
        end = stream.seek(0, 2)
        stream.seek(position)
        while position < end and (data := stream.readline(_LONGEST)):
            if not (rest or data.endswith(b"\n") or len(data) == _LONGEST):
                return
            position += len(data)
            yield data.decode("utf-8", errors="replace").removesuffix("\n"), position


def is_labelled(directory: RunDirectory) -> bool | None:
    """Return whether lines of the run's output begin with their rank, by its plan; None if unknown."""
    return directory.plan().labelled


def tasks_of(directory: RunDirectory) -> int | None:
    """Return how many tasks hpcdist starts by the run's plan; None if the command starts its own."""
    return directory.plan().tasks


def check_rank(directory: RunDirectory, rank: int) -> None:
    """Refuse a rank that the run's plan does not have.

    Raises:
        ConfigError: if there is no such rank.
    """
    tasks = tasks_of(directory)
    if rank < 0 or (tasks and rank >= tasks):
        has = f"ranks 0 to {tasks - 1}" if tasks and tasks > 1 else "rank 0" + " only" * bool(tasks)
        raise ConfigError(Problem(f"{directory.name} has no rank {rank}", hint=f"it has {has}"))


def with_ranks(lines: Iterable[str], *, labelled: bool | None) -> Iterator[tuple[int, str]]:
    """Yield each line without its label, with its rank; a line without a label is of rank 0."""
    for line in lines:
        match = None if labelled is False else _LABEL.match(line)
        yield (int(match[1] or match[2]), line[match.end() :]) if match else (0, line)


def of_rank(
    lines: Iterable[str], rank: int, *, labelled: bool | None = None, live: bool = False
) -> Iterator[str]:
    """Yield the output of this rank without labels; if no line has a label, all lines belong to rank 0.

    Labels: ``srun --label`` writes `` 3: `` (padded to the width of the highest rank, seen on 22.05.8),
    each task's shell ``3: ``, mpirun ``[1,3]<stdout>:``, horovodrun ``[3]<stdout>:``. If ``labelled``
    is None, that is known only at the end; ``live`` yields lines before the first label at once for rank 0.
    """
    if labelled is False:
        yield from lines if rank == 0 else ()
        return
    unlabelled: list[str] | None = [] if rank == 0 and labelled is None else None
    for line in lines:
        match = _LABEL.match(line)
        if match:
            unlabelled = None
            if rank == int(match[1] or match[2]):
                yield line[match.end() :]
        elif unlabelled is not None and live:
            yield line
        elif unlabelled is not None:
            unlabelled.append(line)
    yield from unlabelled or ()


# --- Whether the followed job has ended, and all its output is here

_SHORTEST = 1.0
"""Seconds between two looks at a remote."""


class Watch:
    """Polls the batch system at growing intervals, and at once when the event log has the job's end.

    ``on_change`` gets each report whose state or reason has changed, ``note`` why a remote does not answer.
    """

    def __init__(
        self,
        run: Run,
        services: Services,
        on_change: Callable[[Report], object] = bool,
        note: Callable[[str], object] = bool,
    ) -> None:
        self.run = run
        self.services = services
        self._on_change = on_change
        self._note = note
        self.report: Report | None = None
        self._ends = 0
        self._began = services.now()
        self._next = 0.0
        self._slept = 0.0  # what does not grow while a laptop sleeps
        self._silence = SilenceTimeout()
        self._lost = False

    def observe(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield these lines of output; each restarts the silence timeout, since the job is alive."""
        for line in lines:
            self._silence = SilenceTimeout(self._slept)
            yield line

    def sleep(self, seconds: float) -> None:
        """Pause between two reads, and fetch the new output of a remote run, if the remote answers."""
        pause = max(seconds, _SHORTEST) if self.run.record.remote else seconds
        self.services.sleep(pause)
        self._slept += pause
        if self.run.record.remote:
            self._has_pulled(whole=False)

    def is_over(self) -> bool:
        """Return whether the job has ended and all its output is here, or the silence timeout has expired."""
        now = self.services.now()
        ends = sum(event.what == "ended" for event in self.run.directory.events())
        if now < self._next and (ends == self._ends or not is_ending(self.run)):
            return False
        pause = pause_after(now - self._began, local=is_local([self.run]))
        self._ends, self._next = ends, now + (min(pause, ENDING_PAUSE) if is_ending(self.run) else pause)
        was = self.report and state_and_reason(self.report)
        [self.report] = status([self.run], self.services)
        if state_and_reason(self.report) != was:
            self._on_change(self.report)
        if self.report.is_over:
            return self._has_pulled(whole=True)
        return self._silence.has_expired([self.report], self._slept)

    def _has_pulled(self, *, whole: bool) -> bool:
        """Fetch what is on a remote; return whether that is done, or nothing more can come."""
        try:
            self.services.pull([self.run], whole=whole)
        except (ConfigError, Outdated) as error:
            if whole:
                self._note(str(error))
            return True
        except SchedulerError as error:
            if not self._lost:
                self._note(f"{error}; trying again")
            self._lost = True
            return False
        self._lost = False
        return True
