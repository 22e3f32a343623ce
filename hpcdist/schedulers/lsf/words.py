"""How the words of a plan are said to bsub: arrays, dependencies, signals, mail, time.

An experiment has Slurm's forms of these; what LSF cannot mean by one is refused, with the field's name.
Source: bsub(1) of LSF 10.1, ``-J``, ``-w``, ``-wa``, ``-wt``, ``-B``, ``-N``, ``-Ne``, ``-W``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.errors import Problem
from hpcdist.experiment.batch_specs import ArraySpec
from hpcdist.plan.model import JobSpec

_CONDITIONS: Final = {"afterok": "done", "afterany": "ended", "afternotok": "exit", "after": "started"}
_WAIT: Final = re.compile(
    r"(?:(afterok|afterany|afternotok|after):)?([0-9]+(?:_(?:[0-9]+|\*))?(?::[0-9]+(?:_(?:[0-9]+|\*))?)*)"
)
_SIGNALS: Final = ("TERM", "INT", "HUP", "USR1", "USR2")
"""Those that the script hands on to the program; LSF signals all processes of a job."""
_SIGNAL: Final = re.compile(r"(?:B:)?(?:SIG)?([A-Za-z0-9]+)(?:@([0-9]+))?")
_MAIL: Final = {"begin": ("-B",), "end": ("-N",), "fail": ("-Ne",), "all": ("-B", "-N"), "none": ()}


def hours_and_minutes(seconds: int) -> str:
    """Return a run limit, ``h:mm``: LSF has no seconds, so that they become a whole minute."""
    minutes = -(-seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"


def array(spec: ArraySpec) -> str:
    """Return what stands behind the name: ``[1-10:2]%4``."""
    return f"[{spec.indices}]" if spec.at_once is None else f"[{spec.indices}]%{spec.at_once}"


def dependency(text: str) -> str:
    """Return a condition: ``done(12) && done(13)`` for ``afterok:12:13``; ``,`` is and, ``?`` is or."""
    parts = re.split(r"([,?])", text)
    return "".join({",": " && ", "?": " || "}.get(part) or _condition(part) for part in parts)


def _condition(text: str) -> str:
    match = _WAIT.fullmatch(text)
    if not match:
        raise ValueError(text)
    name = _CONDITIONS[match[1] or "afterok"]
    return " && ".join(f"{name}({_job(job)})" for job in match[2].split(":"))


def _job(text: str) -> str:
    number, _, element = text.partition("_")
    return f"{number}[{element}]" if element not in ("", "*") else number


def signal(text: str) -> tuple[str, int]:
    """Return a signal's name, and how many minutes before the run limit it comes (a minute unless said)."""
    match = _SIGNAL.fullmatch(text)
    if not match or match[1].upper() not in _SIGNALS:
        raise ValueError(text)
    return match[1].upper(), max(1, -(-int(match[2] or 60) // 60))


def mail(events: Iterable[str]) -> list[str]:
    """Return the flags of these events, of which ``-N`` and ``-Ne`` exclude each other."""
    flags = dict.fromkeys(flag for event in events for flag in _MAIL[event.lower()])
    return [flag for flag in flags if flag != "-Ne" or "-N" not in flags]


def problems(job: JobSpec) -> Iterator[Problem]:
    """Yield what LSF cannot mean."""
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
    for text in job.request.dependency:
        try:
            dependency(text)
        except ValueError as error:
            hint = f"write an id, or {', '.join(f'{name}:ID' for name in _CONDITIONS)}"
            yield Problem(f"LSF has no way to wait for {error.args[0]!r}", ("batch", "dependency"), hint)


def _signal_problems(job: JobSpec) -> Iterator[Problem]:
    if job.request.signal is None:
        return
    path = ("batch", "signal")
    try:
        signal(job.request.signal)
    except ValueError:
        hint = f"write one of {', '.join(_SIGNALS)}, such as USR1@120"
        yield Problem(
            f"{job.request.signal!r} cannot be asked of LSF, which signals all of a job", path, hint
        )
    if job.request.walltime is None:
        yield Problem("LSF sends it before the time limit, and there is none", path, "set `batch.walltime`")
