"""The output of a job: its last lines, all of them, or as they come; of all tasks, or of one rank."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from hpcdist.host import untrusted
from hpcdist.runs.rundir import RunDirectory

_BLOCK: Final = 1 << 16
_LONGEST: Final = 1 << 20
"""A longer line is read as several, so that a file without line ends does not fill the memory."""

_TAIL: Final = 1 << 26
"""So many bytes from the end, at most, are looked through for the last lines."""

_LAST: Final = 100
"""In so many lines at the end stands why a job failed, as its script writes that last."""

_SENTENCE: Final = re.compile(r"hpcdist: (.{1,1000})")
_HEADLINE: Final = re.compile(r" \(job \S+\)$")
_LABEL = re.compile(r"\[(?:\d+,)?(\d+)\]<(?:stdout|stderr)>:| *(\d+): ?", re.ASCII)


def files(directory: RunDirectory) -> list[Path]:
    """Return the files that hold output, by name."""
    return sorted(path for path in directory.logs.glob("*.out") if untrusted.is_regular(path))


def tail(file: Path, count: int) -> list[str]:
    """Return the last lines of a file, reading no more of it than they need.

    Raises:
        OSError: when it cannot be read.
    """
    blocks: list[bytes] = []
    ends = 0
    with untrusted.opened(file) as stream:
        position = end = stream.seek(0, 2)
        while position > 0 and end - position < _TAIL and ends <= count:
            size = min(_BLOCK, position)
            position = stream.seek(position - size)
            blocks.append(stream.read(size))
            ends += blocks[-1].count(b"\n")
    found = _split(b"".join(reversed(blocks)))
    return found[-count:] if count > 0 else []


def lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file.

    Raises:
        OSError: when it cannot be read.
    """
    return (line for line, _ in _new_lines(file, 0, rest=True))


def follow(
    directory: RunDirectory, is_over: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[str]:
    """Yield every line from the beginning, and new ones as they come, until the job is over.

    A line is yielded when it is whole; the rest of a file whose last line has no end comes at the end.
    """
    positions: dict[Path, int] = {}
    pause = 0.1
    over = False
    while True:
        fresh = False
        for file in files(directory):
            for line, position in _new_lines(file, positions.get(file, 0), rest=over):
                positions[file], fresh = position, True
                yield line
        if over:
            return
        pause = 0.1 if fresh else min(pause * 1.5, 5.0)
        # Asked before the last reading: what a job wrote is there once it is over.
        over = is_over()
        if not over:
            sleep(pause)


def last_sentence(directory: RunDirectory) -> str:
    """Return why the job failed, as its script wrote it last (`rank 3 on n1 was the first to fail, ...`).

    Empty where it wrote nothing of the kind; its headline, which ends with the job's id, is none.
    """
    for file in files(directory):
        with contextlib.suppress(OSError):
            found = [match[1] for line in tail(file, _LAST) if (match := _SENTENCE.fullmatch(line))]
            if found and not _HEADLINE.search(found[-1]):
                return found[-1]
    return ""


def _new_lines(file: Path, position: int, *, rest: bool) -> Iterator[tuple[str, int]]:
    """Yield the lines from a position on, each with the position behind it; ``rest``: also an unended one."""
    with untrusted.opened(file) as stream:
        stream.seek(position)
        while data := stream.readline(_LONGEST):
            if not (rest or data.endswith(b"\n") or len(data) == _LONGEST):
                return
            position += len(data)
            yield data.decode("utf-8", errors="replace").removesuffix("\n"), position


def _split(data: bytes) -> list[str]:
    """Return lines of text; a progress bar's carriage returns stay inside its line."""
    text = data.decode("utf-8", errors="replace")
    return text.removesuffix("\n").split("\n") if text else []


def is_labelled(directory: RunDirectory) -> bool | None:
    """Return whether lines begin with their rank, by the run's plan; None where it does not tell.

    Tasks are marked where there are several; horovodrun marks one as well, and so may a launch of one's own.
    """
    plan = directory.plan()
    if plan.tasks is None or (plan.tasks == 1 and plan.launcher.startswith("horovodrun")):
        return None
    return plan.tasks > 1


def tasks_of(directory: RunDirectory) -> int | None:
    """Return how many tasks hpcdist starts, by the run's plan; None where the command starts its own."""
    return directory.plan().tasks


def of_rank(
    lines: Iterable[str], rank: int, *, labelled: bool | None = None, live: bool = False
) -> Iterator[str]:
    """Yield what this rank wrote, without the label; where no line has one, all of it is rank 0's.

    Labels: ``srun --label`` writes `` 3: `` (padded to the width of the highest rank, seen on 22.05.8),
    the task wrapper ``3: ``, mpirun ``[1,3]<stdout>:``, horovodrun ``[3]<stdout>:``. Unless ``labelled`` says
    it, whether there are any is known at the end; ``live`` yields rank 0 the lines before the first at once.
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
