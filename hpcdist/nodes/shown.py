"""The evidence that attempts of a run show beside its event log: faults of hardware, and slow nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from hpcdist.nodes import faults, slowness
from hpcdist.nodes.evidence import Evidence
from hpcdist.runs import attempt_files, endings
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.events import Event
from hpcdist.runs.rundir import RunDirectory
from hpcdist.usage import samples

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
    for node in faults.read(directory, attempt):
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
