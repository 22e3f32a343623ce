"""Arrays, dependencies, signals, mail and time as bsub writes them.

An experiment has Slurm's forms of these; what LSF has no equivalent for is refused, with the field's name.
Source: bsub(1) of LSF 10.1, ``-J``, ``-w``, ``-wa``, ``-wt``, ``-B``, ``-N``, ``-Ne``, ``-W``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpcdist.errors import Problem
from hpcdist.experiment.batch_specs import ArraySpec, AwaitedJob, Dependency, SignalSpec, WaitCondition
from hpcdist.plan.model import JobSpec

_CONDITIONS: Final = {"afterok": "done", "afterany": "ended", "afternotok": "exit", "after": "started"}
_SIGNALS: Final = ("TERM", "INT", "HUP", "USR1", "USR2")
"""Those that the script hands on to the program; LSF signals all processes of a job."""
_MAIL: Final = {"begin": ("-B",), "end": ("-N",), "fail": ("-Ne",), "all": ("-B", "-N"), "none": ()}


def hours_and_minutes(seconds: int) -> str:
    """Return a run limit, ``h:mm``: LSF has no seconds, so that they become a whole minute."""
    minutes = -(-seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"


def array(spec: ArraySpec) -> str:
    """Return what stands behind the name: ``[1-10:2]%4``."""
    return f"[{spec.indices}]" if spec.at_once is None else f"[{spec.indices}]%{spec.at_once}"


def dependency(waits: Sequence[Dependency]) -> str:
    """Return a condition: ``done(12) && done(13)`` for ``afterok:12:13``, ``||`` for ``?``."""
    return _joined("&&", "||", [_any(one) for one in waits])


def _any(one: Dependency) -> str:
    return _joined("||", "&&", [" && ".join(map(_condition, all_of)) for all_of in one.alternatives])


def _joined(operator: str, other: str, texts: Sequence[str]) -> str:
    """Join conditions, those with the other operator in parentheses."""
    found = (f"({text})" if other in text and len(texts) > 1 else text for text in texts)
    return f" {operator} ".join(found)


def _condition(wait: WaitCondition) -> str:
    return " && ".join(f"{_CONDITIONS[wait.awaited]}({_job(job)})" for job in wait.jobs)


def _job(job: AwaitedJob) -> str:
    return job.id if job.element in (None, "*") else f"{job.id}[{job.element}]"


def _can_wait(wait: WaitCondition) -> bool:
    return wait.awaited in _CONDITIONS and all(job.id.isdecimal() and job.delay is None for job in wait.jobs)


def signal(spec: SignalSpec) -> tuple[str, int]:
    """Return a signal's name, and how many minutes before the run limit it comes (by default one)."""
    seconds = 60 if spec.seconds is None else spec.seconds
    return spec.plain_name, max(1, -(-seconds // 60))


def mail(events: Iterable[str]) -> list[str]:
    """Return the flags of these events, of which ``-N`` and ``-Ne`` exclude each other."""
    flags = dict.fromkeys(flag for event in events for flag in _MAIL[event.lower()])
    return [flag for flag in flags if flag != "-Ne" or "-N" not in flags]


def problems(job: JobSpec) -> Iterator[Problem]:
    """Yield a problem for each setting that LSF does not have."""
    array = job.request.array
    if array is not None and 0 in (array.at_once, *(part.first for part in array.ranges)):
        message = f"LSF counts array elements from 1: {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 1-10, 1-10%2")
    yield from _dependency_problems(job)
    yield from _signal_problems(job)
    for event in job.request.mail.events if job.request.mail else ():
        if event.lower() not in _MAIL:
            hint = f"it does at {', '.join(_MAIL)}"
            yield Problem(f"LSF sends no mail at {event!r}", ("batch", "mail", "events"), hint)


def _dependency_problems(job: JobSpec) -> Iterator[Problem]:
    for wait in (wait for one in job.request.dependency for wait in one.conditions):
        if not _can_wait(wait):
            hint = f"write an id, or {', '.join(f'{name}:ID' for name in _CONDITIONS)}"
            yield Problem(f"LSF has no way to wait for {str(wait)!r}", ("batch", "dependency"), hint)


def _signal_problems(job: JobSpec) -> Iterator[Problem]:
    spec, path = job.request.signal, ("batch", "signal")
    if spec is None:
        return
    if "R" in spec.options or spec.plain_name not in _SIGNALS:
        hint = f"write one of {', '.join(_SIGNALS)}, such as USR1@120"
        yield Problem(
            f"{str(spec)!r} is not possible with LSF, which signals all processes of a job", path, hint
        )
    if job.request.walltime is None:
        yield Problem("LSF sends it before the time limit, and there is none", path, "set `batch.walltime`")
