"""Restarts: after which ends of the program it is started again, and when no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.experiment.amounts import MOST
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.batch_specs import FORWARDED
from hpcdist.units import Walltime

End = Literal["timeout", "preempt", "node_failure", "failure"]
_PATH: Final[Path] = ("environment", "restart")
_MOST_JOBS: Final = 1000
_USUAL_NOTICE: Final = 300
_EXIT_CODES: Final = range(1, 256)


class Restart(Model, frozen=True):
    """When the program is started again, until it ends with exit code 0.

    Each run of it is an attempt, which finds the checkpoints of the earlier ones in ``HPCDIST_CHECKPOINTS``.
    ``on``: the ends after which there is another one: the time limit, the loss of the nodes to a more
    important job, the loss of a node, and a failure of the program. ``max``: how many there may be after the
    first. ``notice``: how long before the time limit the program gets a signal to save its state; by default
    five minutes, and no more than a quarter of the time. ``signal``: which one; by default TERM where
    torchrun starts the program and for packed trials, else USR1. ``no_progress``: after so many attempts in a
    row without progress there is no further one; 0 for any number. Progress is a tracked step that no earlier
    attempt had reached; of a program that tracks none, a new file in the checkpoints, or in the outputs
    without any.
    ``stop_on_exit``: exit codes of the program after which there is none. ``stop_file``: a file, from the
    job's folder, after which there is none. ``spare_nodes``: further nodes of the job, which take the place
    of lost ones. ``exclude_bad_nodes``: a node that was lost, or on which the first task to fail was twice,
    is left out of later attempts for days, as far as the batch system can; so are suspect ones (`hpcdist
    nodes`) from the first attempt on. ``by``: ``requeue`` puts the same job into the queue again, ``follow``
    submits all its followers at once, each of which waits for the end of the one before; by default as the
    batch system and the site permit.
    """

    on: tuple[End, ...] = ("timeout", "preempt", "node_failure", "failure")
    max: int = 10
    notice: Walltime | None = None
    signal: str | None = None
    no_progress: int = 3
    stop_on_exit: tuple[int, ...] = ()
    stop_file: str | None = None
    spare_nodes: int = 0
    exclude_bad_nodes: bool = True
    by: Literal["requeue", "follow"] | None = None

    def notice_in(self, walltime: Walltime | None) -> int:
        """Return the seconds of the notice in a job with this time limit."""
        if self.notice is not None:
            return self.notice.seconds
        return min(_USUAL_NOTICE, walltime.seconds // 4) if walltime else _USUAL_NOTICE


def problems(restart: Restart, batch: Batch, *, is_search: bool, has_number: bool) -> Iterator[Problem]:
    """Yield the problems of the restarts, each with its path.

    ``has_number``: the experiment has ``max_restarts``, too.
    """
    for name, least, most in (("max", 0, _MOST_JOBS), ("no_progress", 0, MOST), ("spare_nodes", 0, MOST)):
        if not least <= (number := getattr(restart, name)) <= most:
            hint = f"write a number from {least} to {most}"
            yield Problem(f"{number} is out of range", (*_PATH, name), hint)
    for place, code in enumerate(restart.stop_on_exit):
        if code not in _EXIT_CODES:
            hint = "write codes from 1 to 255; after 0 there is never another attempt"
            yield Problem(f"{code} is no exit code of a failure", (*_PATH, "stop_on_exit", place), hint)
    if restart.signal is not None and restart.signal not in FORWARDED:
        hint = f"write one of {', '.join(FORWARDED)}"
        yield Problem(f"{restart.signal!r} does not reach the program", (*_PATH, "signal"), hint)
    if not (restart.stop_file or "").isprintable():
        hint = "write a name of printable characters on one line"
        yield Problem(f"{restart.stop_file!r} is no name of a file", (*_PATH, "stop_file"), hint)
    if not restart.on:
        hint = "name ends, or remove `restart`"
        yield Problem("there is no further attempt after any end", (*_PATH, "on"), hint, severity="warning")
    if has_number:
        hint = "remove it: `restart: {max: ...}` counts all attempts"
        yield Problem("`restart` has a number of its own", ("environment", "max_restarts"), hint)
    yield from _with_jobs(restart, batch, is_search=is_search)


def _with_jobs(restart: Restart, batch: Batch, *, is_search: bool) -> Iterator[Problem]:
    if batch.requeue is False and restart.by == "requeue":
        yield Problem("the job may not be requeued", ("batch", "requeue"), "remove it, or write `by: follow`")
    if batch.pack:
        yield from of_packed(restart)
    if restart.by == "follow" and (batch.array is not None or is_search):
        yield Problem("elements of an array have no followers", (*_PATH, "by"), "write `by: requeue`")


def of_packed(restart: Restart) -> Iterator[Problem]:
    """Yield what restarts of trials that share the nodes of a job cannot do."""
    each = "write `batch: {pack: false}` where the batch system has arrays"
    if restart.stop_file is not None:
        hint = "remove it; `hpcdist sweep stop` ends a search"
        yield Problem("packed trials have no file that ends them", (*_PATH, "stop_file"), hint)
    if restart.spare_nodes:
        hint = f"remove it, or {each}: other jobs take the trials of a lost node"
        yield Problem("packed trials have no spare nodes", (*_PATH, "spare_nodes"), hint)
    if restart.signal not in {None, "TERM"}:
        hint = f"write `signal: TERM`, or {each}"
        yield Problem("the time limit of packed trials is announced by TERM", (*_PATH, "signal"), hint)
