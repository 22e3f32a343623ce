"""The batch system's accounting of a run's job: queried for its details, and kept once the job has ended."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import MsgspecError, json

from hpcdist.base.command import Completed
from hpcdist.runs import elements
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Accounting
from hpcdist.schedulers.job import Usage, element_id, split_id

if TYPE_CHECKING:
    from hpcdist.runs.services import Services

FILE: Final = "accounting.json"
_LATEST_ANSWER: Final = 3600
"""Seconds after a job's end in which its accounting may still come."""

_MAX_BYTES: Final = 1 << 26
_DECODER: Final = json.Decoder(tuple[Usage, ...])


def keep(runs: Iterable[Run], services: Services) -> None:
    """Query and store the accounting of ended jobs that have none stored, for a minute in all."""
    from hpcdist.runs.services import with_deadline  # for what shows details of many runs

    services = services._replace(runner=with_deadline(services.runner, services.now))
    for job in (job for run in runs for job in run.jobs):
        if job.record.ended:
            query(job, services)


def query(run: Run, services: Services) -> tuple[Usage, ...]:
    """Return the accounting records of a job, one for each start; stored ones are not queried again.

    They are stored once the job has ended and its last start is among them, or after an hour as they are.
    """
    kept, accounting = _kept(run), _accounting(run)
    if kept is not None or run.job is None or accounting is None:
        return kept or ()
    runner = services.at([run]).runner
    return _found(run, [runner.run(command) for command in accounting.commands([run.job])], services)


def _kept(run: Run) -> tuple[Usage, ...] | None:
    return read(run.directory) if run.record.ended else None


def _accounting(run: Run) -> Accounting | None:
    return schedulers.get(run.record.scheduler).accounting


def _found(run: Run, answers: Sequence[Completed], services: Services) -> tuple[Usage, ...]:
    """Return the job's records in these answers, and store them as `query` does."""
    accounting = _accounting(run)
    if accounting is None or run.job is None:
        return ()
    read = (each for one in answers for each in accounting.read(one, run.job))
    nodes = _nodes_of_components(run)
    found = tuple(each for each in read if _is_valid(each) and _has_nodes(each, nodes))
    is_late = all(completed.ok for completed in answers) and _has_been_over(run, services.now())
    if run.record.ended and (is_late or _is_complete(run, found)):
        with contextlib.suppress(OSError):
            run.directory.write(run.directory.own(FILE), json.encode(found).decode())
    return found


def of_jobs(run: Run, services: Services) -> Callable[[Run], tuple[Usage, ...]]:
    """Return a function that gives the result of `query` for each job of a run, each queried once.

    All jobs are queried at once where the batch system allows it.
    """
    found: dict[RunDirectory, tuple[Usage, ...]] = {}
    asked = {job.directory: job.job for job in run.jobs if job.job and _kept(job) is None}
    accounting = _accounting(run)
    if len(asked) > 1 and accounting and accounting.at_once:
        runner = services.at([run]).runner
        answers = [runner.run(command) for command in accounting.commands([*asked.values()])]
        found = {job.directory: _found(job, answers, services) for job in run.jobs if job.directory in asked}
    found |= {job.directory: query(job, services) for job in run.jobs if job.directory not in found}
    return lambda job: found[job.directory]


def _is_complete(run: Run, found: Sequence[Usage]) -> bool:
    """Whether all records have an end and each element's last start is there: accounting lags behind."""
    if not found or any(usage.ended is None and not usage.state.is_final for usage in found):
        return False
    ends = {
        job: max(math.inf if each.ended is None else each.ended for each in usage)
        for job, usage in by_job(run, found).items()
    }
    started = {event.job_id: event.at for event in run.directory.events() if event.what == "started"}
    own = [job for job in started if run.event_id in (job, split_id(job)[0])]
    return all(ends.get(job, -1.0) >= started[job] for job in own)


def by_job(run: Run, usage: Iterable[Usage]) -> dict[str, list[Usage]]:
    """Return each job's or element's records, by its id in the event log."""
    found: dict[str, list[Usage]] = {}
    trials = elements.numbers(run.record.trials)
    for each in usage:
        number = each.element and (trials.at(each.element) or each.element)
        job = run.event_id if number is None else element_id(run.event_id, number)
        found.setdefault(job, []).append(each)
    return found


def _nodes_of_components(run: Run) -> int:
    """Return how many nodes a heterogeneous job has; 0 for others.

    Slurm's database has the first component before the others for a moment (tried).
    """
    if not schedulers.get(run.record.scheduler).has_components:
        return 0
    groups = run.directory.plan().groups
    return sum(group.nodes for group in groups) if len(groups) > 1 else 0


def _has_nodes(usage: Usage, nodes: int) -> bool:
    return usage.started is None or len(usage.hosts) >= nodes


def _has_been_over(run: Run, now: float) -> bool:
    """Whether the event log has had nothing new for an hour; it may never have had anything."""
    last = max((event.at for event in run.directory.events()), default=0)
    return 0 < last < now - _LATEST_ANSWER


def read(directory: RunDirectory) -> tuple[Usage, ...] | None:
    """Return the stored records of an ended job; None where the file is missing or invalid."""
    with contextlib.suppress(OSError, MsgspecError, RecursionError):
        return _DECODER.decode(directory.read(directory.own(FILE), _MAX_BYTES))
    return None


def _is_valid(usage: Usage) -> bool:
    """Whether its values can be stored, and shown."""
    with contextlib.suppress(MsgspecError):
        return bool(_DECODER.decode(json.encode([usage])))
    return False
