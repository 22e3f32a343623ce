"""Progress: what an attempt left that the ones before had not."""

import os
import re
from stat import S_ISREG
from typing import Dict, Iterable, Iterator, Optional, Tuple

from .restarts import Ended, Idle
from .start import Start, say

_LINE = re.compile(
    rb'\{"metrics":\{"(?P<name>(?:[^"\\]|\\.)*)".*\},"step":(?P<step>-?[0-9][0-9.e+-]*),"at":[0-9.]*\}$'
)
"""A line of hpcdist_tracking, by its first metric, whose name may have a quote in it."""

_ROW = re.compile(rb"(?P<step>[^|\s]+)\|[^|\n]*\|[^|\n]*$")
"""A line of a table of Polyaxon's client: step, time and value."""

_NUMBER = re.compile(rb"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")

Steps = Dict[bytes, bytes]
"""The highest step of each metric, as it is written, by the metric's name."""


def idle(start: Start, folder: str, ended: Ended) -> Idle:
    """Return how many attempts in a row, this one the last, left nothing new.

    ``folder``: that of their files. It is counted once, and kept. An attempt that a more important job ended
    may have had no time for it.
    """
    file = os.path.join(folder, str(ended.attempt))
    count = number(file + ".idle")
    if count is None:
        count = 0
        if not _is_further(start, folder, ended.attempt):
            before = number(os.path.join(folder, f"{ended.attempt - 1}.idle")) if ended.restarts else 0
            count = (before or 0) + (ended.why != "preempt")
        record(file + ".idle", b"%d\n" % count)
    if os.path.exists(file + ".steps"):
        return Idle(count, "tracked no step that an earlier one had not reached")
    return Idle(count, f"left nothing new in {_kept(start)}")


def _is_further(start: Start, folder: str, attempt: int) -> bool:
    """Return whether an attempt got further than the ones before.

    Where the program tracks metrics by steps, one must have: files may be the same again, as logs and what is
    saved after a failure are. Else there must be a new checkpoint; where there is none at all, a new file in
    the outputs.
    """
    file = os.path.join(folder, str(attempt))
    try:
        began = os.stat(file).st_mtime_ns
    except OSError:
        return False
    steps, further = most(_earlier(os.path.join(folder, f"{attempt - 1}.steps")), _new(start, began))
    if not steps:
        return any(status.st_mtime_ns > began for _, status in files(_kept(start)))
    record(file + ".steps", b"".join(b"%s %s\n" % (step, name) for name, step in steps.items()))
    return further


def _kept(start: Start) -> str:
    """Return the folder in which there must be something new."""
    return start.checkpoints if any(True for _ in files(start.checkpoints)) else start.outputs


# --- Tracked steps


def most(before: Steps, new: Iterable[Tuple[bytes, bytes]]) -> Tuple[Steps, bool]:
    """Return the highest steps with new ones, each a name and a step, and whether any got further."""
    found, further = dict(before), False
    for name, step in new:
        if name not in found or _value(step) > _value(found[name]):
            found[name] = step
            further = True
    return found, further


def _value(step: bytes) -> float:
    """Return the number with which a text begins; 0 without one, as a table's head has none."""
    found = _NUMBER.match(step)
    return float(found.group()) if found else 0.0


def _earlier(file: str) -> Steps:
    try:
        with open(file, "rb") as stream:
            rows = [row.rstrip(b"\n").partition(b" ") for row in stream]
    except OSError:
        return {}
    return {name: step for step, _, name in rows if step}


def _new(start: Start, began: int) -> Iterator[Tuple[bytes, bytes]]:
    """Yield the name and step of each line in the files of metrics that are newer than an attempt."""
    suffix = f"_{start.trial}" if start.trial else ""
    root = start.job.file("tracking")
    try:
        jobs = [name for name in os.listdir(root) if name.endswith(suffix) and not name.startswith(".")]
    except OSError:
        return
    for job in jobs:
        for path, status in files(os.path.join(root, job)):
            name = os.path.basename(path)
            is_ours = name.startswith("rank-") and name.endswith(".jsonl")
            is_polyaxons = "/polyaxon-" in path and name.endswith(".plx")
            if (is_ours or is_polyaxons) and status.st_mtime_ns > began:
                yield from _of_file(path, os.fsencode(name) if is_polyaxons else b"")


def _of_file(path: str, table: bytes) -> Iterator[Tuple[bytes, bytes]]:
    """Yield a name and a step for each line; ``table``: the name if it is a table of Polyaxon's client."""
    pattern = _ROW if table else _LINE
    try:
        with open(path, "rb") as stream:
            for found in filter(None, map(pattern.match, stream)):
                yield table or found.group("name"), found.group("step")
    except OSError:
        return


# --- Files


def files(folder: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Yield the regular files below a folder, as far as they can be read."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue  # it was removed meanwhile
            if S_ISREG(status.st_mode):
                yield path, status


def line(path: str) -> str:
    """Return the first line of a small file, without spaces around it; empty if there is no whole one."""
    try:
        with open(path, "rb") as stream:
            text = stream.readline(4096)
    except OSError:
        return ""
    return text.decode("utf-8", "surrogateescape").strip() if text.endswith(b"\n") else ""


def number(path: str) -> Optional[int]:
    """Return the number in a small file; None if there is none."""
    text = line(path)
    return int(text) if text.isdecimal() else None


def record(path: str, data: bytes) -> None:
    """Write a small file; a full disk ends no training."""
    try:
        with open(path, "wb") as stream:
            stream.write(data)
    except OSError as error:
        say(f"cannot write {path}: {error.strerror}")
