"""Processes, time, randomness and the disk, as one value that is passed to the verbs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from hpcdist.base import locks
from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Event, Record, Run, RunDirectory

if TYPE_CHECKING:
    from hpcdist.loading.planning import Planned


def new_token() -> str:
    """Return a token that identifies one submission."""
    import secrets  # imports `random`, needed by `submit` only

    return secrets.token_hex(8)


class Outdated(SchedulerError):  # noqa: N818 - what it is
    """A remote answered, but not all of a run's files could be fetched."""


@runtime_checkable
class Elsewhere(Runner, Protocol):
    """A runner on another machine, whose run directories are mirrored here."""

    def start(self, run: Run, command: Command) -> Completed:
        """Run the command that submits the run, once however often this is called."""
        ...

    def send(self, run: Run) -> None:
        """Make the directory of a new run there, with its files."""
        ...

    def add(self, run: Run, event: Event) -> None:
        """Send the files of the run's jobs that have no id; it resumes by this event."""
        ...

    def look(self, runs: Sequence[Run], services: Services) -> Runner:
        """Bring these runs up to date here, and return a runner that has the answers about their jobs."""
        ...

    def pull(self, runs: Sequence[Run], services: Services, *, whole: bool = False) -> None:
        """Bring the files of these runs up to date here; ``whole``: however long that takes.

        Raises:
            Outdated: if some of them cannot be read there, or written here.
            SchedulerError: without an answer.
        """
        ...


def no_remotes(runs: Sequence[Run]) -> Elsewhere:
    """Refuse runs that are on another machine.

    Raises:
        ConfigError: always.
    """
    message = f"{runs[0].name} is on {runs[0].record.remote}, which cannot be asked for here"
    raise ConfigError(Problem(message, hint="use the verbs of the command line"))


def keep_plan(made: Planned, _: Path) -> Planned:
    """Return a plan as it is."""
    return made


class Services(NamedTuple):
    """The real services need only a ``Shell``; tests pass their own functions.

    ``remote`` returns the machine that these runs share. ``warn`` gets, with each look, what of a run on
    another machine could not be brought up to date here. ``without_suspects`` returns the plan of a further
    job without nodes that runs of this directory found suspect.
    """

    runner: Runner
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    token: Callable[[], str] = new_token
    save: Callable[[RunDirectory, Record], None] = rundir.save
    create: Callable[[Path, str], RunDirectory] = rundir.create
    host: str = os.uname().nodename
    remote: Callable[[Sequence[Run]], Elsewhere] = no_remotes
    warn: Callable[[Problem], object] = bool
    without_suspects: Callable[[Planned, Path], Planned] = keep_plan

    def update(self, run: Run, **changes: Any) -> Run:
        """Save these changes of the run's record and return the changed run.

        Other fields that another process has changed meanwhile are kept; if its phase is a later one, so are
        all fields. Updates of processes on one host are serialized by a lock.
        """
        with run.directory.opened() as handle, locks.folder(handle, self.sleep):
            record = reread(run).record.changed(**changes)
            self.save(run.directory, record)
        return run._replace(record=record)

    def at(self, runs: Sequence[Run]) -> Services:
        """Return the services of the machine that these runs share.

        Raises:
            ConfigError: if that is a remote that is no longer known here.
        """
        return self._replace(runner=self.remote(runs)) if runs and runs[0].record.remote else self

    def looking(self, runs: Sequence[Run]) -> Services:
        """Return the services of these runs' machine after a look; a failure becomes its answers."""
        try:
            services = self.at(runs)
        except ConfigError as error:
            return self._replace(runner=Unanswered(str(error)))
        if not isinstance(services.runner, Elsewhere):
            return services
        return services._replace(runner=services.runner.look(runs, services))

    def start(self, run: Run, command: Command) -> Completed:
        """Run the command that submits the run.

        Raises:
            SchedulerError: if it was certainly not run on another machine.
            SubmissionUnknown: if no answer came from there.
        """
        if isinstance(self.runner, Elsewhere):
            return self.runner.start(run, command)
        return self.runner.run(command)

    def send(self, run: Run) -> None:
        """Bring a new run to the machine where it is submitted, if that is another one.

        Raises:
            ConfigError: if it cannot be written there.
            SchedulerError: without an answer.
        """
        if isinstance(self.runner, Elsewhere):
            self.runner.send(run)

    def add(self, run: Run, event: Event) -> None:
        """Bring the jobs that were added to a run to the machine where it is, if that is another one.

        Raises:
            ConfigError: if they cannot be written there.
            SchedulerError: without an answer.
        """
        if isinstance(self.runner, Elsewhere):
            self.runner.add(run, event)

    def pull(self, runs: Sequence[Run], *, whole: bool = False) -> None:
        """Bring the files of these runs up to date, if they are on another machine; as `Elsewhere.pull`.

        Raises:
            ConfigError: as `at`.
            SchedulerError: as `Elsewhere.pull`.
        """
        services = self.at(runs)
        if isinstance(services.runner, Elsewhere):
            services.runner.pull(runs, services, whole=whole)

    def try_update(self, run: Run, **changes: Any) -> Run:
        """As `update`, but if the record cannot be written, only the returned run has the changes."""
        with contextlib.suppress(OSError):
            return self.update(run, **changes)
        return run._replace(record=run.record.changed(**changes))


class Unanswered(NamedTuple):
    """A runner on a machine that is not known or not reached: every command fails with the reason."""

    reason: str

    def run(self, command: Command) -> Completed:
        """Return the failure."""
        return Completed(command, 255, stderr=self.reason)


def reread(run: Run) -> Run:
    """Return the run with its record read again, or unchanged if that cannot be read."""
    with contextlib.suppress(ConfigError):
        return run._replace(record=run.directory.record())
    return run


def renewed(run: Run) -> Run:
    """Return the run with all records read again, also of added jobs; unchanged if that fails."""
    with contextlib.suppress(ConfigError):
        return rundir.read(run.directory)
    return run


# --- Commands with a common deadline, and in parallel: a batch system that hangs costs one timeout only


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
    waiting = deque(enumerate(calls))
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        with contextlib.suppress(IndexError):  # none is left
            while True:
                place, call = waiting.popleft()
                try:
                    results[place] = call()
                except BaseException as error:  # noqa: BLE001 - raised again below
                    errors[place] = error

    threads = [threading.Thread(target=work, daemon=True) for _ in calls[:_MAX_PARALLEL]]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        waiting.clear()
        raise
    for _, error in sorted(errors.items()):
        raise error
    return [results[place] for place in range(len(calls))]
