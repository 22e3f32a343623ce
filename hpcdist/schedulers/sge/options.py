"""Arrays, dependencies and mail as Grid Engine's qsub writes them.

And settings that it does not have. It silently ignores a dependency on an id that no job has (tried on
8.1.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpcdist.errors import Problem
from hpcdist.experiment.batch_specs import ArraySpec, Dependency, IndexRange
from hpcdist.plan.model import JobSpec
from hpcdist.schedulers.exclusion import names_nodes

_MAIL_POINTS: Final = {"begin": "b", "end": "e", "fail": "ae", "all": "abe", "none": ""}


def elements(only: IndexRange) -> str:
    """Return the value of ``-t``."""
    return f"{only.first}-{only.first}" if only.last is None else str(only)


def dependency(waits: Iterable[Dependency]) -> str:
    """Return the value of ``-hold_jid``."""
    return ",".join(job.id for one in waits for wait in one.conditions for job in wait.jobs)


def _can_wait(one: Dependency) -> bool:
    return len(one.alternatives) == 1 and all(
        wait.kind == "afterany" and all(str(job).isdecimal() for job in wait.jobs) for wait in one.conditions
    )


def mail_points(events: Sequence[str]) -> str:
    """Return the value of ``-m``."""
    return (
        "".join(sorted({letter for event in events for letter in _MAIL_POINTS.get(event.lower(), "")})) or "n"
    )


def option_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield what Grid Engine cannot express, each with its field."""
    if job.completion.elastic:
        message = (
            "a job of Grid Engine does not say which hosts it still has, so nothing can go on without one"
        )
        yield Problem(message, ("horovod", "elastic"), "remove it, or choose another site with --site")
    if job.request.sge.remote == "qrsh" and job.launch.remote_shell == "ssh" and job.placement.nodes > 1:
        message = f"{job.launch.launcher} goes by ssh, and site {job.identity.site} says `sge.remote: qrsh`"
        yield Problem(message, ("batch", "launcher"), "write `mpirun`, or take a single host")
    if job.request.qos is not None:
        yield Problem(
            "Grid Engine has no QOS", ("batch", "qos"), "remove it, or use `directives: ['-p -10']`"
        )
    yield from _array_problems(job.request.array)
    if job.request.signal is not None:
        # -l s_rt sends USR1, but ended a job over two hosts there and then (tried on 8.1.9).
        message = "Grid Engine sends no signal before the time limit that a job over several hosts outlives"
        yield Problem(
            message, ("batch", "signal"), "remove it, and let the program save its state as it goes"
        )
    for one in job.request.dependency:
        if not _can_wait(one):
            message = f"Grid Engine waits for the end of jobs, good or bad, and cannot wait for {str(one)!r}"
            ids = (job.id for wait in one.conditions for job in wait.jobs if job.id.isdecimal())
            numbers = ":".join(ids) or "ID"
            yield Problem(message, ("batch", "dependency"), f"write `afterany:{numbers}` if that will do")
    if job.request.exclude_nodes and any(names_nodes(group.constraint) for group in job.placement.groups):
        message = "Grid Engine takes one request of `hostname`, and `batch.constraint` has it already"
        yield Problem(message, ("batch", "exclude_nodes"), "remove one of them")
    for event in job.request.mail.events if job.request.mail else ():
        if event.lower() not in _MAIL_POINTS:
            hint = f"known: {', '.join(_MAIL_POINTS)}"
            yield Problem(f"Grid Engine sends no mail at {event!r}", ("batch", "mail", "events"), hint)


def _array_problems(array: ArraySpec | None) -> Iterator[Problem]:
    if array and (len(array.ranges) > 1 or array.ranges[0].first == 0):
        message = f"Grid Engine has arrays of one range that begins at 1 or later, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 1-15, 1-15:4 or 1-15%4")
