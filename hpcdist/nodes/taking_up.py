"""Takes up what runs recorded against nodes: each once, and again when its event log has grown.

A run's ``lost`` counts as it is. Its ``blamed``, the node of the first task to fail, counts once the training
has completed: a program that fails wherever it runs accuses no node.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.errors import ConfigError
from hpcdist.host import ownership
from hpcdist.nodes import failures, slowness
from hpcdist.nodes.ledger import HALF_LIFE, Entry, Evidence, Kind, Ledger, Taken
from hpcdist.runs import attempt_files, endings
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.schedulers.job import NODE, split_id
from hpcdist.usage import samples

# --- The evidence that attempts of a run show beside its event log: faults of hardware, and slow nodes

_ENDS: Final = frozenset({"ended", "requeued"})
_MOST_ATTEMPTS: Final = 20
_SIGNS: Final = 3
_SLOW_AT_ONCE: Final = 8
"""Where more than one in so many nodes is slow, they may be of another kind."""


def evidence(directory: RunDirectory, log: Sequence[Event], run: Evidence) -> Iterator[Evidence]:
    """Yield what the last attempts that are over show; ``run``: what all evidence has of its run."""
    last = {event.job_id: event for event in log}
    found = [each for each in attempt_files.read(directory) if each.name]
    starts = {each.job: each for each in found}
    for attempt in found[-_MOST_ATTEMPTS:]:
        end = last.get(attempt.job)
        if end and (starts[attempt.job] is not attempt or end.what in _ENDS):
            yield from _of_attempt(directory, attempt, run._replace(attempt=attempt.number, at=float(end.at)))


def _of_attempt(directory: RunDirectory, attempt: Numbered, run: Evidence) -> Iterator[Evidence]:
    """Yield the evidence of one attempt; ``run`` has its number, and a time for what has none."""
    plan, full = directory.plan(), _full_names(directory, attempt)
    for node in failures.read(directory, attempt):
        if node.of_hardware:
            name, text = node.host.partition(".")[0], "; ".join(node.of_hardware[:_SIGNS])
            yield run._replace(at=node.ends[0].at, node=full.get(name, name), kind="lost", text=text)
    uses = samples.read(directory, plan, [attempt.job]).nodes
    found = slowness.of_attempt(directory, plan, attempt, uses)
    slow = [each for each in found.slow if each.is_certain and each.host] if found else []
    if found and len(slow) <= max(1, len(full) // _SLOW_AT_ONCE):
        for each in slow:
            name, at = full.get(each.host, each.host), found.at or run.at
            yield run._replace(at=at, node=name, kind="slow", text=each.text)


def _full_names(directory: RunDirectory, attempt: Numbered) -> dict[str, str]:
    """Return the nodes of an attempt by their names without a domain, as the batch system names them."""
    start = attempt.name.partition(".")[0]
    for name in (f"nodes.{attempt.name}", f"nodes.{start}"):  # the first where it got other nodes
        with suppress(OSError):
            nodes = endings.read_nodes(directory, f"jobs/{attempt.job}/{name}")
            return {node.partition(".")[0]: node for node in nodes}
    return {}


# --- Takes up what runs recorded against nodes

_FORGOTTEN_AFTER: Final = 12 * HALF_LIFE
"""An older log is not read: what it has weighs less than a thousandth."""

_TAKING_UP_ENDS: Final = frozenset({"ended", "requeued", "restarted"})
_COMPLETED: Final = ("over", "completed")
_KINDS: Final[Mapping[str, Kind]] = {"lost": "lost", "blamed": "failed"}
_TEXTS: Final[Mapping[Kind, str]] = {
    "lost": "the batch system reported it as down, and job {} lost it",
    "failed": "the first task of job {} to fail ran on it, and the training completed later",
}


def news(runs_dir: Path, known: Ledger, now: float) -> Ledger:
    """Return the logs that are new or have grown, with the evidence that is not known yet; it writes nothing.

    ``now``: by this machine's clock, as the ages of files; evidence of the future is taken as of now.
    """
    entries: dict[str, Entry] = {}
    taken: dict[str, Taken] = {}
    for one in _logs(runs_dir, now):
        if known.taken.get(one.taken) != one:
            taken[one.taken] = one
            found = of_run(RunDirectory(runs_dir / one.taken), now)
            entries |= {entry.key: entry for entry in found if entry.key not in known.entries}
    return Ledger(entries, taken=taken)


def _logs(runs_dir: Path, now: float) -> Iterator[Taken]:
    with suppress(OSError), os.scandir(runs_dir) as folders:
        for folder in folders:
            if folder.name.startswith(".") or not folder.name.isprintable():  # also one in another code
                continue
            with suppress(OSError):
                found = Path(folder.path, "events").lstat()
                if found.st_mtime >= now - _FORGOTTEN_AFTER:
                    yield Taken(folder.name, found.st_size, found.st_ino)


def of_run(directory: RunDirectory, now: float) -> Iterator[Entry]:
    """Yield what a run has against nodes; nothing for a run that cannot be read."""
    log = directory.events()
    if not any(event.what in _KINDS or event.what in _TAKING_UP_ENDS for event in log):
        return
    try:
        record = directory.record()
    except ConfigError:
        return
    run = Evidence(0, record.site, "", "lost", directory.name, 0, "")
    yield from entries([*_of_log(log, run), *evidence(directory, log, run)], record.token, now)


def entries(found: Iterable[Evidence], token: str, now: float) -> Iterator[Entry]:
    """Yield evidence that the user's own run with this token showed, as entries of the ledger.

    The same evidence gives the same entry; its time is one that the run's files have, at most now.
    """
    user = ownership.own_name()
    for one in found:
        own = (token, str(one.attempt), one.kind, one.node, str(int(one.at)))
        yield Entry(
            hashlib.sha256(" ".join(own).encode()).hexdigest()[:16], user, one._replace(at=min(one.at, now))
        )


def _of_log(log: Iterable[Event], run: Evidence) -> Iterator[Evidence]:
    """Yield the evidence of the events; ``run``: what all have of their run."""
    begun: dict[str, int] = {}
    log = [*log]
    is_completed = any((event.what, event.value) == _COMPLETED for event in log)
    for event in log:
        element = split_id(event.job_id)[1] or ""
        if event.what in ("started", "restarted", "skipped"):
            begun[element] = begun.get(element, 0) + (-1 if event.what == "skipped" else 1)
        kind = _KINDS.get(event.what)
        if kind and (kind == "lost" or is_completed) and NODE.fullmatch(event.value):
            yield run._replace(
                at=float(event.at),
                node=event.value,
                kind=kind,
                attempt=max(0, begun.get(element, 0) - 1),
                text=_TEXTS[kind].format(event.job_id),
            )
