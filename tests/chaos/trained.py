"""What a disturbed training must have done, by the lines that it wrote and the metrics of its run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.training import EVERY


def rows(folder: Path) -> list[list[str]]:
    """Return the lines that the training wrote, in words."""
    file = folder / "ran"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def is_done(folder: Path, steps: int) -> bool:
    """Whether the last step was done, and is in the checkpoint: its writer or a later attempt says so.

    A kill may come after the checkpoint is in its place and before its writer has said so.
    """
    last = str(steps)
    return any(row == ["saved", last] or (row[0] == "begin" and row[2:] == [last]) for row in rows(folder))


def lost_work(lines: Sequence[Sequence[str]]) -> list[int]:
    """Return how many steps each attempt but the first has to do again."""
    done, found = 0, []
    for what, *values in lines:
        if what == "begin":
            found.append(done - int(values[1]))
            done = int(values[1])
        elif what == "step":
            done = int(values[0])
    return found[1:]


def faults(folder: Path, losses: Sequence[float]) -> Iterator[str]:
    """Yield what must not be in the lines of a completed training, whose undisturbed losses these are."""
    lines = rows(folder)
    if ["twice"] in lines:
        yield "two programs wrote checkpoints at once"
    attempts = [int(values[0]) for what, *values in lines if what == "begin"]
    if attempts != sorted(set(attempts)):
        yield f"attempts were doubled: {attempts}"
    if max(lost_work(lines), default=0) > EVERY:
        yield f"more was lost than since the last checkpoint: {lost_work(lines)} steps"
    yield from _forgotten(lines)
    ends = {values[0] for what, *values in lines if what == "end"}
    if ends != {repr(losses[-1])}:
        yield f"the loss at the end is {ends}, undisturbed it is {losses[-1]!r}"


def _forgotten(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield an attempt that began before the last checkpoint."""
    saved = 0
    for what, *values in lines:
        if what == "saved":
            saved = max(saved, int(values[0]))
        elif what == "begin" and int(values[1]) < saved:
            yield f"attempt {values[0]} began at {values[1]}, though there was a checkpoint of {saved}"


def wrong_metrics(shown: str, losses: Sequence[float]) -> Iterator[str]:
    """Yield how the metrics of its run, as CSV, differ from one line of a training that nothing disturbed."""
    found = [(int(row["step"]), float(row["value"])) for row in csv.DictReader(io.StringIO(shown))]
    if found != [*enumerate(losses, 1)]:
        yield f"its metrics are no line of {len(losses)} steps: {found}"
