"""End a trial that is worse than others of its search. Standard library only; Python 3.6 or newer.

``hpcdist_tracking`` imports this where the search has policies (HPCDIST_POLICIES), and hands on each value of
their metrics. What a trial has reached is lines in a file of its own, ``pruning/POLICY/TRIAL`` in the run
directory: the step, and the value, the best and the mean so far, of which more is better. Files are read from
where they were left, and seldom: a trial spends at most 2 % of its time on it, and writes at most a few
hundred lines.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import Any, Dict, List, Tuple

Point = Tuple[float, float, float]
"""The value at a step, the best so far, and the mean so far; more is better."""

PRUNED = 83
"""The exit code of a program that ends here; a file has that it does, as launchers have their own."""

_LEAST_PAUSE, _PAUSES, _PART = 0.1, 50, 0.01
"""The seconds between two looks at the others: at least so many, so often what the last look took, and this
part of the time so far."""


def median(values: List[float]) -> float:
    """Return the median; NaN where there is no value."""
    found = sorted(value for value in values if not math.isnan(value))
    half = len(found) // 2
    if not found:
        return math.nan
    return found[half] if len(found) % 2 else (found[half - 1] + found[half]) / 2


def reason(policy: Dict[str, Any], own: Point, others: List[Point]) -> str:
    """Return why a policy ends a trial at this point, by those of others at the same step; else nothing.

    ``median``: its best value is worse than the median of the others' values (Optuna's MedianPruner).
    ``average``: than the median of their means (Azure ML's median stopping, Katib's medianstop, Vizier's).
    ``truncation``: its value is among the worst ``percent`` of all. ``difference``: its best value is worse
    than the best of all by more than ``percent`` or ``amount`` (Azure ML's bandit).
    """
    value, best, _ = (-math.inf if math.isnan(number) else number for number in own)
    if len(others) < policy["min_samples"] or not others:
        return ""
    kind = policy["kind"]
    if kind == "truncation":
        not_better = sum(1 for other in others if not other[0] > value)
        is_worse = not_better < (len(others) + 1) * policy["percent"] // 100
        return "its value is among the worst {:g} %".format(policy["percent"]) if is_worse else ""
    if kind == "difference":
        limit = _allowed(max(other[1] for other in others), policy)
        return "its best value is too far from the best one" if best < limit else ""
    of, what = (2, "means") if kind == "average" else (0, "values")
    is_worse = best < median([other[of] for other in others])
    return "its best value is worse than the median of the {} of others".format(what) if is_worse else ""


def _allowed(best: float, policy: Dict[str, Any]) -> float:
    """Return the worst value that is near enough to the best one."""
    if policy.get("percent") is None:
        return best - float(policy["amount"])
    factor = 1 + float(policy["percent"]) / 100
    return best / factor if best > 0 else best * factor


class Others:
    """The points of the other trials, read from their files as these grow."""

    def __init__(self, folder: str, own: str) -> None:
        self._folder, self._own = folder, own
        self._read: Dict[str, int] = {}
        self._series: Dict[str, Tuple[List[float], List[Point]]] = {}

    def at(self, step: float) -> List[Point]:
        """Return the last point by this step of each trial that has got as far."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name != self._own and entry.stat().st_size > self._read.get(entry.name, 0):
                    self._read_on(entry.name)
        found = []
        for steps, points in self._series.values():
            place = bisect_right(steps, step)
            if place and steps[-1] >= step:
                found.append(points[place - 1])
        return found

    def _read_on(self, name: str) -> None:
        with open(os.path.join(self._folder, name), "rb") as file:
            file.seek(self._read.get(name, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read[name] = self._read.get(name, 0) + len(whole)
        steps, points = self._series.setdefault(name, ([], []))
        for line in whole.splitlines():
            with suppress(ValueError):  # of a full disk
                step, value, best, mean = map(float, line.split())
                place = bisect_left(steps, step)  # one that began again repeats some
                del steps[place:], points[place:]
                steps.append(step)
                points.append((value, best, mean))


class Judge:
    """A policy, and what this trial has reached by its metric."""

    def __init__(self, policy: Dict[str, Any], folder: str, trial: str) -> None:
        self._policy, self._file = policy, os.path.join(folder, trial)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._others = Others(folder, trial)
        self._count, self._counted, self._sum, self._best = 0, 0, 0.0, -math.inf
        self._begun = self._next = time.monotonic()

    def look(self, number: float, step: Any) -> str:
        """Count a value of the metric; return why the trial ends, by the others at this step, or nothing."""
        value = number * self._policy["sign"]
        self._count += 1
        if not math.isnan(value):
            self._counted, self._sum, self._best = (
                self._counted + 1,
                self._sum + value,
                max(self._best, value),
            )
        is_due = (
            self._count >= self._policy["min_interval"]
            and not self._count % self._policy["evaluation_interval"]
        )
        begun = time.monotonic()
        if not is_due or begun < self._next:
            return ""
        at = float(self._count if step is None else step)
        own = (value, self._best, self._sum / self._counted if self._counted else math.nan)
        with open(self._file, "ab", 0) as file:
            file.write("{!r} {!r} {!r} {!r}\n".format(at, *own).encode())
        why = reason(self._policy, own, self._others.at(at))
        now = time.monotonic()
        self._next = now + max(_LEAST_PAUSE, _PAUSES * (now - begun), _PART * (now - self._begun))
        return why


def _judges() -> Dict[str, List[Judge]]:
    """Return the policies of each metric."""
    found: Dict[str, List[Judge]] = {}
    folder = os.path.join(os.environ["HPCDIST_RUN_DIR"], "pruning")
    for number, policy in enumerate(json.loads(os.environ["HPCDIST_POLICIES"])):
        judge = Judge(policy, os.path.join(folder, str(number)), os.environ["HPCDIST_TRIAL"])
        found.setdefault(policy["metric"], []).append(judge)
    return found


_found: Dict[str, List[Judge]] = {}


def judge(name: str, number: float, step: Any) -> None:
    """Hand on a value of a metric, which may end this program.

    Raises:
        SystemExit: where a policy ends the trial.
        OSError: if files of the run cannot be written or read.
    """
    if not _found:
        _found.update(_judges())
    for each in _found.get(name, ()):
        why = each.look(float(number), step)
        if why:
            _end("{} {:g} at step {}: {}".format(name, float(number), step, why))


def _end(why: str) -> None:
    with open(os.environ["HPCDIST_FAILURE"] + ".pruned", "w") as file:
        file.write(why + "\n")
    sys.stderr.write("hpcdist: this trial ends early, by {}\n".format(why))
    if threading.current_thread() is threading.main_thread():
        raise SystemExit(PRUNED)
    os.kill(os.getpid(), signal.SIGTERM)
