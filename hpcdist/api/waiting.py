"""Waiting for jobs: in this thread, or for ``async`` in one that nothing waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence

from hpcdist.api import remote_runs
from hpcdist.api.values import number
from hpcdist.base.errors import HpcdistError
from hpcdist.runs import waiting
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import renewed
from hpcdist.runs.submission import SubmitOutput
from hpcdist.schedulers.job import Status
from hpcdist.searches import progress

Sleep = Callable[[float], None]


class _Stopped(Exception):  # noqa: N818 - nobody waits any more
    """Its ``await`` was cancelled."""


def wait(runs: Sequence[Run], timeout: float | None, sleep: Sleep | None = None) -> list[Status]:
    """Return the ends of these runs, which are queried together; of a search that of its last generation.

    Raises:
        HpcdistError: if a generation cannot be submitted, when the others have ended.
        WaitTimeout: if they have not ended within so many seconds.
    """
    services = remote_runs.services()
    services = services._replace(sleep=sleep or services.sleep)
    if timeout is not None:
        services = waiting.with_time_limit(services, number(timeout, "timeout"))
    stuck: list[HpcdistError] = []
    reports = progress.wait([*map(renewed, runs)], services, SubmitOutput(), stuck.append)
    for error in stuck:
        raise error
    return [report.status for report in reports]


async def wait_async(runs: Sequence[Run], timeout: float | None) -> list[Status]:
    """As `wait`, while the event loop goes on; a cancelled ``await`` ends the queries, not the jobs.

    Raises:
        WaitTimeout: as `wait`.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    future: asyncio.Future[list[Status]] = loop.create_future()

    def finish(result: list[Status] | BaseException) -> None:
        if future.done():
            return
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def work() -> None:
        result: list[Status] | BaseException
        try:
            result = wait(runs, timeout, _until(stop))
        except Exception as error:  # noqa: BLE001 - raised by the `await`
            result = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, result)

    threading.Thread(target=work, daemon=True).start()
    try:
        return await future
    finally:
        stop.set()


def _until(stop: threading.Event) -> Sleep:
    def sleep(pause: float) -> None:
        if stop.wait(pause):
            raise _Stopped

    return sleep
