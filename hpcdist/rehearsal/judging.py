"""What a rehearsal comes to: a verdict, and how often and how early the training is to save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.plan.model import Restarts
from hpcdist.rehearsal import checkpoints, findings, intervals, resuming
from hpcdist.rehearsal.checkpoints import Write
from hpcdist.rehearsal.findings import Finding
from hpcdist.rehearsal.intervals import Mtbf
from hpcdist.rehearsal.observed import Attempt
from hpcdist.rehearsal.resuming import Resumption
from hpcdist.rehearsal.steps import Steps

Verdict = Literal["passes", "refused", "unknown"]

_SAFETY: Final = 2
"""How much longer than in a rehearsal a checkpoint may take: the file system is shared."""


class Row(NamedTuple):
    """An attempt; ``lost_seconds``: the work since its last whole checkpoint, when it was ended."""

    attempt: Attempt
    after: str
    resumption: Resumption | None
    lost_seconds: float | None


class Report(NamedTuple):
    """A rehearsal; seconds are None where no checkpoint was written.

    ``save_seconds``: from the signal before a time limit to the end of the checkpoint that followed.
    ``notice`` and ``interval`` are what is recommended, in seconds; ``nodes`` those of the real run.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    rows: tuple[Row, ...]
    write_seconds: float | None
    write_bytes: int | None
    save_seconds: float | None
    notice: int | None
    interval: float | None
    mtbf: Mtbf
    nodes: int


def judge(attempts: Sequence[Attempt], steps: Steps, plan: Restarts, mtbf: Mtbf) -> Report:
    """Return what the attempts come to."""
    written = checkpoints.written(attempts)
    numbers = range(1, len(attempts))
    resumptions = [resuming.resumption(attempts, written, number, steps) for number in numbers]
    found = tuple(findings.of(attempts, written, resumptions, plan))
    kinds = {finding.kind for finding in found}
    writes = [write for each in written.values() for write in each]
    longest = max((write.seconds for write in writes), default=None)
    save = findings.saved(attempts, written)
    nodes = plan.rehearsal.nodes if plan.rehearsal else 1
    return Report(
        verdict="refused" if "wrong" in kinds else "unknown" if "unknown" in kinds else "passes",
        findings=found,
        rows=tuple(
            Row(attempt, findings.after(attempt), resumption, _lost(attempt, written[attempt.number]))
            for attempt, resumption in zip(attempts, (None, *resumptions), strict=False)
        ),
        write_seconds=longest,
        write_bytes=max((write.bytes for write in writes), default=None),
        save_seconds=save[1].ended - save[0] if save else None,
        notice=_notice(longest, save),
        interval=None if longest is None else intervals.interval(longest, mtbf.of_job(nodes)),
        mtbf=mtbf,
        nodes=nodes,
    )


def _lost(attempt: Attempt, writes: Sequence[Write]) -> float | None:
    """Return the seconds from the beginning of its last whole checkpoint, or of itself, to its end."""
    if not attempt.endings or attempt.is_enough:
        return None
    end = attempt.endings[0]
    whole = [write.began for write in writes if checkpoints.is_whole(write, attempt)]
    if end.kind == "notice" and attempt.ended is not None:
        return attempt.ended - max(whole, default=attempt.began)
    return end.at - max(whole, default=attempt.began)


def _notice(longest: float | None, save: tuple[float, Write] | None) -> int | None:
    """Return a notice in whole minutes: for twice what saving took, and the end after TERM."""
    took = save[1].ended - save[0] if save else longest
    return None if took is None else 60 * math.ceil((_SAFETY * took + findings.last_before_term(60)) / 60)
