"""Commands under one deadline, and side by side: a batch system that hangs costs its time once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from hpcdist.host.command import Command, Completed, Runner

T = TypeVar("T")

SECONDS: Final = 60.0
"""How long a batch system may take to answer all that it is asked at once."""

_MOST: Final = 4
"""So many commands run at once: more would be a load."""


class Deadline(NamedTuple):
    """A runner for which ``SECONDS`` hold in all; a command that was given more may take that much longer.

    What would begin after the deadline is not run, and counts as timed out.
    """

    runner: Runner
    now: Callable[[], float]
    end: float

    def run(self, command: Command) -> Completed:
        """Run the command for as long as there is time left."""
        left = self.end - self.now()
        if left <= 0:
            return Completed(command, 124, timed_out=True)
        timeout = min(command.timeout, left + max(0.0, command.timeout - SECONDS))
        return self.runner.run(command._replace(timeout=timeout))


def limited(runner: Runner, now: Callable[[], float]) -> Deadline:
    """Return the runner with ``SECONDS`` from now on."""
    return Deadline(runner, now, now() + SECONDS)


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return what these calls return, a few of them at once.

    The first exception is raised when all have ended. On a break nothing more begins; what runs is left to
    its own end, as the threads do not keep this process.
    """
    if len(calls) <= 1:
        return [call() for call in calls]
    waiting: queue.SimpleQueue[tuple[int, Callable[[], T]]] = queue.SimpleQueue()
    for item in enumerate(calls):
        waiting.put(item)
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    threads = [
        threading.Thread(target=_work, args=(waiting, results, errors), daemon=True) for _ in calls[:_MOST]
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        _drain(waiting)
        raise
    for _, error in sorted(errors.items()):
        raise error
    return [results[place] for place in range(len(calls))]


def _work(
    waiting: queue.SimpleQueue[tuple[int, Callable[[], T]]],
    results: dict[int, T],
    errors: dict[int, BaseException],
) -> None:
    while True:
        try:
            place, call = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            results[place] = call()
        except BaseException as error:  # noqa: BLE001 - raised again where the results are wanted
            errors[place] = error


def _drain(waiting: queue.SimpleQueue[tuple[int, Callable[[], T]]]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except queue.Empty:
            return
