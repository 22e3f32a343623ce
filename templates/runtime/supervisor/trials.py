"""The trials of a search: the row of one in its table, and whether one may start within the limits."""

import os
import re
from contextlib import suppress
from glob import escape, glob
from shlex import quote
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

from .job import Job, Sweep
from .processes import read
from .start import Failed, Start

STOPPED = 85
"""The exit code of a job none of whose trials started, by the limits of the search."""

_PROGRAM = ":program"
_ESCAPE = re.compile(r"\\([tnr\\])")
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_TRIAL = re.compile("_([0-9]+)$")

Kept = Tuple[int, bytes]
"""A place in the event log, and lines like its own, which are what it came to there; 0 for none."""


# --- The table (`hpcdist.script.trial_table`)


class Trial(NamedTuple):
    """A row of the table; ``params`` are words of shell, each behind a space."""

    number: str
    params: str
    program: str
    variables: Dict[str, str]

    def environment(self, sweep: Sweep) -> Dict[str, str]:
        """Return what the environment of the trial has beside that of any job.

        HPCDIST_VARIABLES sets its variables again: the script sets them to the values of the first one.
        """
        limits = {"HPCDIST_STOP_AT": sweep.stop_at, "HPCDIST_POLICIES": sweep.policies}
        own = dict(self.variables, **{name: text for name, text in limits.items() if text})
        exports = "".join(f"export {name}={quote(value)}\n" for name, value in self.variables.items())
        program = {"HPCDIST_PROGRAM": self.program, "HPCDIST_VARIABLES": exports}
        return dict(own, HPCDIST_TRIAL=self.number, **program)


def table(job: Job) -> List[str]:
    """Return the lines of a job's table, each with its end; raise Failed if it cannot be read."""
    path = job.own("trials.tsv")
    lines = re.findall("[^\n]*\n|[^\n]+$", os.fsdecode(read(path)))  # decoded as environments are
    if not lines:
        raise Failed(f"cannot read {path}, which has the trials of this job")
    return lines


def number_of(job: Job, element: str) -> str:
    """Return the trial of an element of an array, by which the run knows that; itself if there is none."""
    with suppress(Failed):
        return _row(job, element)[2]
    return element


def choose(job: Job, element: str) -> Trial:
    """Return the trial in this row of the table, from 1; raise Failed if it is not there.

    A row without an end of the line was cut short.
    """
    path, (heads, row, number) = job.own("trials.tsv"), _row(job, element)
    names, cells = heads.rstrip("\n").split("\t"), row.rstrip("\n").split("\t")
    if cells[0] != number or not row.endswith("\n"):
        raise Failed(f"{path} has no trial for element {number}")
    if len(names) != len(cells) or _PROGRAM not in names:
        raise Failed(f"trial {number} in {path} is cut short")
    place = names.index(_PROGRAM)
    values = [_ESCAPE.sub(lambda found: _MEANT[found.group(1)], cell) for cell in cells]
    params = "".join(f" {name}={_word(cell)}" for name, cell in zip(names[:place], cells))
    return Trial(number, params, values[place], dict(zip(names[place + 1 :], values[place + 1 :])))


def _row(job: Job, element: str) -> Tuple[str, str, str]:
    """Return the heads, a row, and the number of its trial, which is the element itself for one not there."""
    lines = table(job)
    row = "".join(lines[int(element) :][:1])
    number = re.match("([0-9]+)\t", row)
    return lines[0], row, number.group(1) if number else element


def _word(cell: str) -> str:
    """Return a cell as a word of shell, as ``printf %q`` writes it; bash has the escapes of the table."""
    if "\\" in cell:
        return "$'{}'".format(cell.replace("'", "\\'"))
    return re.sub("([^\\w%+=:./@\x7f-\U0010ffff-])", r"\\\1", cell) or "''"


# --- The limits: a file `stop`, max_failures, and the budget


def check(start: Start, kept: Kept) -> None:
    """Check that this trial, whose start is logged, may start; ``kept`` is what `kept` found before that.

    Raises:
        Failed: if it may not, or the event log cannot be read.
    """
    why, job = stopped(start.job), start.job
    try:
        if not why and job.sweep and _is_limited(job):
            why = over(start, job.sweep, kept)
    except OSError as error:
        message = f"cannot read {job.file('events')}, by which the limits of this search are kept"
        raise Failed(message) from error
    if why:
        raise Failed(f"trial {start.trial} does not start: {why}", STOPPED)


def stopped(job: Job) -> str:
    """Return why the search was stopped by its file; empty if it was not."""
    text = read(job.file("stop")).decode("utf-8", "replace").partition("\n")[0]
    return f"the search was stopped {text}".rstrip() if os.path.exists(job.file("stop")) else ""


def _is_limited(job: Job) -> bool:
    return bool(job.sweep and (job.sweep.max_failures or job.sweep.budget))


def kept(job: Job) -> Kept:
    """Return what an earlier trial kept of the event log; to be asked for before the own start is logged.

    Ten thousand trials would read ten thousand lines each: so each keeps what the log came to at its start,
    and a later one reads only what follows.
    """
    text = read(job.file("limits")) if _is_limited(job) else b""
    found = re.fullmatch(rb"upto ([1-9][0-9]*)\n((?:.*\n)*)whole\n", text)
    return (int(found.group(1)), found.group(2)) if found else (0, b"")


def over(start: Start, sweep: Sweep, kept: Kept = (0, b"")) -> str:
    """Return why a trial, or a job of packed trials, may not start by the log, which has its own start.

    Raises:
        OSError: if the log cannot be read.
    """
    run = start.job.run
    logs = sorted(name for name in os.listdir(run) if name.startswith("events"))
    if sweep.workers or any(name.startswith("events.") for name in logs):
        return count(start.id, sweep, _merged(run, logs))[0]
    for before in (kept, (0, b"")):
        with open(os.path.join(run, "events"), "rb") as file:
            file.seek(max(0, before[0] - 1))
            log = file.read()
        with suppress(ValueError):
            why, now = count(start.id, sweep, log, before)
            break
    with suppress(OSError, Failed):  # any of several that write it will do, and none
        if now:
            os.rename(start.write("limits", now), start.job.file("limits"))
    return why


def _merged(run: str, logs: Sequence[str]) -> bytes:
    """Return the costs of jobs of packed trials, and the lines of all logs in the order of their times."""
    costs = map(read, glob(os.path.join(escape(run), "jobs", "*", "cost")))
    lines: List[bytes] = []
    for name in logs:
        with open(os.path.join(run, name), "rb") as file:
            lines += file.read().split(b"\n")
    lines.sort(key=lambda line: _number(_words(line)[2]))
    return b"".join(costs) + b"\n".join(lines)


def count(me: str, sweep: Sweep, log: bytes, kept: Kept = (0, b"")) -> Tuple[str, str]:
    """Return why ``me`` may not start by the log, and what the log came to at its start, to be kept.

    Raises:
        ValueError: if what is kept is not followed by the end of a line, and by the own start.
    """
    (place, lines), sums, now = kept, Sums(sweep), ""
    if place and log[:1] != b"\n":
        raise ValueError
    for words in map(_words, lines.split(b"\n")):
        sums.add(words)
    for line in log[min(place, 1) :].split(b"\n"):
        place += len(line) + 1
        sums.add(_words(line))
        if _words(line)[:2] == ["started", me]:
            sums.before = set(sums.started)
            now = sums.text(place)
    if kept[0] and not now:
        raise ValueError
    return sums.why(), now


class Sums:
    """What the log comes to: GPU-seconds, trials that have failed, and the starts without an end.

    These count as if they ran, unless the accounting had an end when further jobs were submitted.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.spent = 0.0
        self.started: Dict[str, str] = {}
        self.before: Set[str] = set()
        self.failed: Dict[str, str] = {}
        self.costs: Dict[str, Tuple[float, float]] = {}

    def add(self, words: Sequence[str]) -> None:
        """Add a line of the log, or of what was kept of it."""
        what, job, at, value = words
        trial = _TRIAL.search(job)
        if what == "spent":
            self.spent = _number(job)
        elif what == "failed":
            self.failed[job] = at
        elif what == "cost":
            self.costs[job] = _number(at), _number(value)
        elif what == "resumed":
            self.failed.clear()
        elif what == "ended" and trial and value in ("0", str(STOPPED)):
            self.failed.pop(trial.group(1), None)
        elif what == "ended" and trial:
            self.failed[trial.group(1)] = value
        if bool(trial) == bool(self.sweep.workers):
            return  # a packed trial is no job
        if what == "started":
            self.spent += self._cost(job)[1] if job in self.started else 0.0
            self.started[job] = at
        elif what in ("ended", "requeued", "accounted") and job in self.started:
            self.spent += self._cost(job)[0] * (_number(at) - _number(self.started.pop(job)))

    def _cost(self, job: str) -> Tuple[float, float]:
        return self.costs.get(job, (self.sweep.gpus, self.sweep.cost))

    def text(self, place: int) -> str:
        """Return them as lines like those of the log, which they are of up to this place."""
        lines = [f"upto {place}", f"spent {self.spent:.3f}"]
        lines += [f"started {job} {at} 0" for job, at in self.started.items()]
        lines += [f"failed {trial} {code}" for trial, code in self.failed.items()]
        return "\n".join([*lines, "whole\n"])

    def why(self) -> str:
        """Return why none may start; what started before, as one of two at once, may take its whole cost."""
        sweep, live = self.sweep, self.before.intersection(self.started)
        seconds = self.spent, sum(self._cost(job)[1] for job in live), sweep.budget or 0
        if sweep.max_failures and len(self.failed) >= sweep.max_failures:
            return f"{len(self.failed)} trials have failed, and max_failures is {sweep.max_failures}"
        if not sweep.budget or seconds[0] + seconds[1] <= sweep.budget:
            return ""
        spent, taking, budget = (f"{one / 3600:.4g}" for one in seconds)
        jobs = f"{len(live)} {'jobs' if sweep.workers else 'trials'} that run may take {taking}"
        return f"{spent} GPU-hours are spent, {jobs}, and the budget is {budget}"


def _words(line: bytes) -> List[str]:
    return [*line.decode("utf-8", "replace").split(), "", "", "", ""][:4]


def _number(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    return 0.0
