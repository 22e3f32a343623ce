"""Arrays, dependencies and mail as PBS's qsub writes them, and settings that PBS does not have.

Which forms it refuses was tried on an OpenPBS 23.06.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.errors import Problem
from hpcdist.experiment.batch_specs import ArraySpec, Dependency
from hpcdist.plan.model import JobSpec

_MOST_ELEMENTS: Final = 10_000

_JOB: Final = re.compile(r"[0-9]+(?:\[\])?(?:\.[A-Za-z0-9-]+)*")
"""Not an element of an array: PBS refuses to wait for one (``parse_depend.c`` of openpbs/openpbs)."""
_KINDS: Final = ("after", "afterok", "afternotok", "afterany")

_MAIL_POINTS: Final = {"begin": "b", "end": "e", "fail": "ae", "all": "abe", "none": ""}
"""A job that fails by itself ends: only PBS's own aborting is ``a``."""


def _elements(array: ArraySpec) -> range | None:
    """Return the elements of an array, None where they are not evenly spaced."""
    ranges = [part.indices for part in array.ranges]
    if len(ranges) == 1:
        return ranges[0]
    if sum(map(len, ranges)) > _MOST_ELEMENTS:
        return range(_MOST_ELEMENTS + 1)
    numbers = sorted({number for part in ranges for number in part})
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    spaced = range(numbers[0], numbers[-1] + 1, step)
    return spaced if list(spaced) == numbers else None


def array(spec: ArraySpec | None) -> str | None:
    """Return the value of ``-J``; None for an array of one element, which PBS refuses."""
    elements = _elements(spec) if spec else None
    if spec is None or elements is None or len(elements) < 2:  # noqa: PLR2004 - PBS refuses -J 0-0
        return None
    step = f":{elements.step}" if elements.step > 1 else ""
    at_once = "" if spec.at_once is None else f"%{spec.at_once}"
    return f"{elements[0]}-{elements[-1]}{step}{at_once}"


def dependency(waits: Sequence[Dependency]) -> str:
    """Return the value of ``-W depend=``; a bare id is one whose success is waited for."""
    conditions = (condition for one in waits for condition in one.conditions)
    return ",".join(f"{wait.awaited}:{':'.join(map(str, wait.jobs))}" for wait in conditions)


def _can_wait(one: Dependency) -> bool:
    return len(one.alternatives) == 1 and all(
        wait.awaited in _KINDS and all(_JOB.fullmatch(str(job)) for job in wait.jobs)
        for wait in one.conditions
    )


def mail_points(events: Sequence[str]) -> str:
    """Return the value of ``-m``."""
    points = {letter for event in events for letter in _MAIL_POINTS[event.lower()]}
    return "".join(sorted(points)) or "n"


def option_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield what PBS cannot express, each with its field."""
    if job.completion.elastic:
        message = "PBS ends a job that loses a node, so nothing can go on without it"
        yield Problem(message, ("horovod", "elastic"), "remove it, or choose another site with --site")
    if job.request.array is not None and job.request.requeue is False:
        message = "PBS takes no arrays whose elements may not run again"
        yield Problem(message, ("batch", "requeue"), "remove it")
    if job.request.signal is not None:
        hint = "remove it: at the time limit PBS sends TERM, and KILL some seconds later"
        yield Problem("PBS sends no signal before the time limit", ("batch", "signal"), hint)
    if job.request.qos is not None:
        hint = "remove it; a site that has such a resource takes `directives: ['-l qos=NAME']`"
        yield Problem("PBS has no QOS", ("batch", "qos"), hint)
    yield from _placement_problems(job)
    yield from _array_problems(job.request.array)
    for one in job.request.dependency:
        if not _can_wait(one):
            hint = (
                "write the id of a job or a whole array, or after:ID, afterok:ID, afternotok:ID, afterany:ID"
            )
            yield Problem(f"PBS cannot wait for {str(one)!r}", ("batch", "dependency"), hint)
    for event in job.request.mail.events if job.request.mail else ():
        if event.lower() not in _MAIL_POINTS:
            hint = f"known: {', '.join(_MAIL_POINTS)}"
            yield Problem(f"PBS sends no mail at {event!r}", ("batch", "mail", "events"), hint)


def _placement_problems(job: JobSpec) -> Iterator[Problem]:
    groups = job.placement.groups
    queues = list(dict.fromkeys(group.partition for group in groups))
    if len(queues) > 1:
        names = " and ".join(name or "the default one" for name in queues)
        message = f"a PBS job is in one queue, and these replicas need {names}"
        yield Problem(message, ("batch", "partition"), "give all replicas what one queue offers")
    if job.request.gpu_request == "gpus_per_task" and any(group.gpus for group in groups):
        message = f"site {job.identity.site} asks for GPUs by task, and PBS counts them by chunk"
        yield Problem(
            message, ("environment", "replicas"), "set `gpus: {request: gpus_per_node}` in the site file"
        )


def _array_problems(array: ArraySpec | None) -> Iterator[Problem]:
    elements = _elements(array) if array else range(1)
    if elements is None:
        message = f"PBS takes elements at even distances, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 0-15 or 0-15:4, or submit several arrays")
    elif len(elements) > _MOST_ELEMENTS:
        message = f"PBS takes arrays of up to {_MOST_ELEMENTS} elements, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "submit several arrays")
