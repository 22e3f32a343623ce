"""Commands with a common deadline, and in parallel: a batch system that hangs costs one timeout only."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from hpcdist.host.command import Command, Completed, Runner

T = TypeVar("T")

QUERY_TIMEOUT: Final = 60.0
"""Seconds that a batch system may take to answer all commands of one query."""

_MAX_PARALLEL: Final = 4
"""Commands that run at once; more would burden the batch system."""


class Deadline(NamedTuple):
    """A runner whose commands share one deadline; commands with a longer timeout may exceed it.

    A command that would start after the deadline is not run, and counts as timed out.
    """

    runner: Runner
    now: Callable[[], float]
    end: float

    def run(self, command: Command) -> Completed:
        """Run the command with the remaining time as its timeout."""
        left = self.end - self.now()
        if left <= 0:
            return Completed(command, 124, timed_out=True)
        timeout = min(command.timeout, left + max(0.0, command.timeout - QUERY_TIMEOUT))
        return self.runner.run(command._replace(timeout=timeout))


def with_deadline(runner: Runner, now: Callable[[], float]) -> Deadline:
    """Return the runner with a deadline ``QUERY_TIMEOUT`` seconds from now."""
    return Deadline(runner, now, now() + QUERY_TIMEOUT)


def run_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of these calls, running a few of them in parallel.

    The first exception is raised when all calls have ended. On Ctrl-C no further call starts; running ones
    are abandoned, as daemon threads do not keep the process alive.
    """
    if len(calls) <= 1:
        return [call() for call in calls]
    waiting: queue.SimpleQueue[tuple[int, Callable[[], T]]] = queue.SimpleQueue()
    for item in enumerate(calls):
        waiting.put(item)
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    threads = [
        threading.Thread(target=_work, args=(waiting, results, errors), daemon=True)
        for _ in calls[:_MAX_PARALLEL]
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
        except BaseException as error:  # noqa: BLE001 - raised again by `run_parallel`
            errors[place] = error


def _drain(waiting: queue.SimpleQueue[tuple[int, Callable[[], T]]]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except queue.Empty:
            return
