"""The files ``attempts/N``; programs and users know the attempts of a run by these numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import elements, event_states, events
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import split_id

FOLDER: Final = "attempts"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_NAME: Final = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
_MAX_BYTES: Final = 1024


class Numbered(NamedTuple):
    """An attempt: ``number`` is its HPCDIST_ATTEMPT, ``job`` its job or element of an array.

    ``name``: the job's start and the try in it, as in `Attempt.name`; empty in runs of earlier versions.
    ``system_id``: the batch system's id of its job or element: ``12_3`` in Slurm, ``12[3]`` in LSF.
    """

    number: int
    job: str
    name: str = ""
    system_id: str = ""


def numbered(directory: RunDirectory, element: str = "") -> tuple[Numbered, ...]:
    """Return the attempts that have begun, sorted by number, of one array element or of all."""
    folder = f"{FOLDER}/{element}" if element else FOLDER
    return tuple(sorted(_in(directory, folder)))


def _in(directory: RunDirectory, folder: str) -> Iterator[Numbered]:
    with suppress(OSError), os.scandir(directory.path / folder) as entries:
        for entry in entries:
            if not _NUMBER.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _in(directory, f"{folder}/{entry.name}")
            else:
                yield _read(directory, folder, entry.name)


def _read(directory: RunDirectory, folder: str, name: str) -> Numbered:
    words = [""]
    with suppress(OSError):
        words = directory.read(f"{folder}/{name}", _MAX_BYTES).decode("utf-8", "replace").split() or words
    own = words[1] if len(words) > 1 and _NAME.fullmatch(words[1]) else ""
    return Numbered(int(name), words[0], own, words[2] if len(words) > 2 else "")  # noqa: PLR2004


def saved(directory: RunDirectory, attempt: Numbered) -> float | None:
    """Return when a checkpoint file was last changed before the next attempt began.

    In seconds since 1970; None if there was no file, or if unknown.
    """
    own = split_id(attempt.job)[1]
    name = "/".join(filter(None, (FOLDER, own, f"{attempt.number}.saved")))
    with suppress(OSError, ValueError):
        return float(directory.read(name, _MAX_BYTES))
    return None


def why(directory: RunDirectory, attempt: Numbered) -> str:
    """Return why an attempt ended, as a script with restarts writes it; empty if that is not known."""
    own = split_id(attempt.job)[1]
    name = "/".join(filter(None, (FOLDER, own, f"{attempt.number}.why")))
    with suppress(OSError):
        return directory.read(name, _MAX_BYTES).decode("utf-8", "replace").strip()
    return ""


def check(directory: RunDirectory, number: int, element: str = "") -> None:
    """Check that an attempt with this number has begun.

    Raises:
        ConfigError: if none has.
    """
    there = sorted({each.number for each in numbered(directory, element)})
    if number in there:
        return
    name = f"{directory.name}/{element}" if element else directory.name
    if not there:
        hint = "none has begun, or its trials share a job, which does not count them"
    else:
        hint = f"it has {elements.text_of(there)}"
    raise ConfigError(Problem(f"{name} has no attempt {number}", hint=hint))


# --- Packed trials: what their workers recorded of each, and the attempts read from it

_PREFIX: Final = "events."


class TrialLog(NamedTuple):
    """The event log of the trials that ``job`` ran on ``node``; an element of an array is ``124_2`` here."""

    job: str
    node: str
    events: tuple[Event, ...]


def logs(directory: RunDirectory) -> list[TrialLog]:
    """Return the logs of a run's packed trials; none for other runs. What cannot be read is left out."""
    names: list[str] = []
    with suppress(OSError), directory.opened() as handle, os.scandir(handle) as entries:
        names = sorted(one.name for one in entries if one.name.startswith(_PREFIX) and "@" in one.name)
    found = []
    for name in names:
        job, _, node = name.removeprefix(_PREFIX).rpartition("@")
        with suppress(OSError):
            found.append(
                TrialLog(events.plain_id(job), node, events.read(directory.read(name, events.MAX_BYTES)))
            )
    return found


def of_programs(directory: RunDirectory) -> tuple[Event, ...]:
    """Return the events of packed trials, sorted by time; of the jobs if the run has none."""
    found = [event for log in logs(directory) for event in log.events]
    return tuple(sorted(found, key=lambda event: event.at)) or directory.events()


def trial_attempts(
    directory: RunDirectory, plan: StoredPlan, jobs: Sequence[Attempt], now: float
) -> tuple[Attempt, ...]:
    """Return the attempts of packed trials, sorted by start; ``jobs``: the attempts of their jobs.

    A trial to be run again is ``requeued``; one without an end whose job is over has the job's state, or
    ``vanished`` if the job completed or failed. GPU-seconds are its worker's share.
    """
    over = {attempt.job: attempt for attempt in jobs}  # the last one of each
    share = plan.gpus / plan.tasks if plan.gpus is not None and plan.tasks else None
    found = [
        attempt.with_gpus(share, now)
        for log in logs(directory)
        for attempt in _of_log(log, over.get(log.job))
    ]
    return tuple(sorted(found, key=lambda attempt: (attempt.started or 0.0, attempt.number)))


def _of_log(log: TrialLog, job: Attempt | None) -> Iterator[Attempt]:
    for own in events.by_id(log.events).values():
        for start in events.starts(own):
            if start.is_known:
                yield from event_states.of_packed(start, log.node, job)
