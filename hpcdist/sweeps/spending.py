"""What a search has spent of its budget: ends that only the batch system's records have, for its event log.

By the log alone, a start without an end counts as if it had run to its time limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from hpcdist.runs import accounting, attempts
from hpcdist.runs.rundir import Event
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report

ACCOUNTED: Final = "accounted"
"""The event of an end that the log lacks: its job was lost with its node, or killed."""


def record(report: Report, services: Services) -> None:
    """Add the ends of jobs that the accounting has, and the event log has not, as far as the disk permits."""
    with suppress(OSError):
        for event in [*_unlogged(report, services)]:
            report.run.directory.append_event(event)


def _unlogged(report: Report, services: Services) -> Iterator[Event]:
    now, plan, there = services.now(), report.run.directory.plan(), report.run.directory.events()
    logged = attempts.read(report, now, lambda _: (), events=there)
    open_ended = {(one.job, one.number) for one in logged if one.started is not None and one.ended is None}
    known = {(event.job_id, event.at) for event in there if event.what == ACCOUNTED}
    usage = accounting.of_jobs(report.run, services)
    for one in attempts.read(report, now, usage, events=there) if open_ended else ():
        if one.ended is None or (one.job, one.number) not in open_ended:
            continue
        if (one.job, int(one.ended)) not in known:
            yield Event(ACCOUNTED, attempts.folder_of(plan, one.job), int(one.ended), "0")
