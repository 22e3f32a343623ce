"""What a rehearsal comes to: a verdict, and how often and how early the training is to save."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from hpcdist.plan.model import Restarts
from hpcdist.rehearsal import checkpoints, observed, resuming
from hpcdist.rehearsal.checkpoints import Write, Written
from hpcdist.rehearsal.observed import Attempt, Mtbf
from hpcdist.rehearsal.resuming import Resumption
from hpcdist.rehearsal.steps import Steps

# --- What is wrong with what a training did when it was ended: each problem a sentence, with what to do


class Finding(NamedTuple):
    """``wrong``: the training does not go on as it has to; ``unknown``: that was not shown."""

    kind: Literal["wrong", "unknown", "warning"]
    text: str


def of(
    attempts: Sequence[Attempt], written: Written, resumptions: Sequence[Resumption], plan: Restarts
) -> Iterator[Finding]:
    """Yield all problems. ``resumptions``: of the attempts but the first."""
    if not attempts:
        yield Finding("unknown", "no attempt has begun; the log of the run has the reason")
        return
    yield from _of_checkpoints(attempts, written, plan)
    for attempt in attempts:
        yield from _of_end(attempt, plan)
    for attempt, before, resumption in zip(attempts[1:], attempts[:-1], resumptions, strict=True):
        yield from _of_begin(attempt, before, resumption, has_saved=bool(written[attempt.number]))
    yield from _untried(attempts, plan)


def after(attempt: Attempt) -> str:
    """Return how an attempt was ended: ``KILL to rank 1 on n2``."""
    if not attempt.endings:
        return "nothing was done to it"
    end = attempt.endings[0]
    if not end.node:
        return "the signal before a time limit"
    ranks = f"rank{'s' * (',' in end.rank)} {end.rank}"
    return f"KILL to {ranks} on {end.node}{' at a checkpoint' * (end.kind == 'write')}"


def last_before_term(notice: int) -> int:
    """Return how long before the limit TERM comes, in seconds: as ``runtime/supervisor/clock.py`` has it."""
    return notice // 2 if notice < 60 else 30  # noqa: PLR2004


def saved(attempts: Sequence[Attempt], written: Written) -> tuple[float, Write] | None:
    """Return when an attempt got the signal, and what it wrote then."""
    for attempt in attempts:
        if attempt.kind == "notice" and attempt.endings:
            at = attempt.endings[0].at
            late = [write for write in written[attempt.number] if write.ended >= at]
            return (at, late[0]) if late else None
    return None


def _of_checkpoints(attempts: Sequence[Attempt], written: Written, plan: Restarts) -> Iterator[Finding]:
    if not any(written.values()):
        yield Finding(
            "wrong" if any(attempt.endings for attempt in attempts) else "unknown",
            "there was no checkpoint: nothing was written to $HPCDIST_CHECKPOINTS; "
            "write there, more often, or rehearse with more --minutes",
        )
    if file := checkpoints.overwritten(attempts):
        yield Finding(
            "wrong",
            f"{file} is written over in place: a kill in the meantime leaves half of it, and no other "
            "checkpoint; write another file, then rename it (os.replace)",
        )
    elif file := checkpoints.unprotected(attempts, written):
        yield Finding(
            "warning",
            f"{file} was written under its own name: a kill in the meantime leaves half of it, which the "
            "program has to recognize; write another file, then rename it (os.replace)",
        )
    signal = next((one for one in attempts if one.kind == "notice" and one.endings), None)
    if signal is None:
        return
    yield from _of_signal(signal, saved(attempts, written), plan)


def _of_signal(attempt: Attempt, save: tuple[float, Write] | None, plan: Restarts) -> Iterator[Finding]:
    """Yield what is wrong with how a program took the signal before a limit: it has to react itself."""
    term = plan.notice - last_before_term(plan.notice)
    went_on = attempt.ended is not None and attempt.ended - attempt.endings[0].at >= term
    lost = "what it did since its last checkpoint is lost at each limit"
    if save is None and went_on:
        text = (
            f"{plan.signal} does not reach it, or it ignores that: it neither saved nor ended until TERM came"
        )
        yield Finding("wrong", f"{text}, and {lost}")
    elif save is None:
        yield Finding("warning", f"it saved nothing after {plan.signal}: {lost}")
    elif (seconds := save[1].ended - save[0]) > term:
        took = f"it saved {seconds:.0f} s after {plan.signal}"
        yield Finding("wrong", f"`notice` is too short: {took}, and TERM comes before that")
    elif went_on:
        text = (
            f"it went on after {plan.signal} until TERM came: what it saved may be a checkpoint like others"
        )
        yield Finding("unknown", f"{text}; end it when it has saved, with a code that is not 0")


def _of_end(attempt: Attempt, plan: Restarts) -> Iterator[Finding]:
    name = f"attempt {attempt.number}"
    if attempt.ended is None:
        yield Finding("unknown", f"{name} has no end: its job was ended, or lives")
    elif attempt.is_enough:
        return
    elif attempt.endings and attempt.code == 0:
        text = f"{name} ended with exit code 0 after {after(attempt)}"
        yield Finding("wrong", f"{text}, and so would count as finished; end with another code")
    elif attempt.endings and attempt.code in plan.stop_on_exit:
        yield Finding(
            "wrong",
            f"{name} ended with exit code {attempt.code}, after which there is no other one (`stop_on_exit`)",
        )
    elif len(attempt.endings) > 1:
        yield Finding(
            "warning", f"{name} went on for a minute after {after(attempt)}, and had to be ended as a whole"
        )
    elif attempt.ended_by_itself and attempt.code == 0 and attempt.number == 0:
        yield Finding("unknown", f"{name} finished before it could be ended; make the training longer")
    elif attempt.ended_by_itself and attempt.code and attempt.number == 0:
        yield Finding(
            "unknown",
            f"{name} failed by itself, with exit code {attempt.code}; the log of the run has the reason",
        )


def _of_begin(
    attempt: Attempt, before: Attempt, resumption: Resumption, *, has_saved: bool
) -> Iterator[Finding]:
    name = f"attempt {attempt.number}, after {after(before)},"
    if attempt.ended_by_itself and attempt.code:
        yield Finding(
            "wrong",
            f"{name} failed by itself, with exit code {attempt.code}: it cannot go on from what was left",
        )
    elif resumption.went_on is False:
        yield Finding("wrong", f"{name} did not go on from the last whole checkpoint: it {_how(resumption)}")
    elif resumption.went_on is None and not has_saved:
        yield Finding("unknown", f"{name} wrote no checkpoint in its time; rehearse with more --minutes")
    elif resumption.went_on is None:
        text = (
            f"{name} may have gone on or not: it tracked no steps, its checkpoints have no numbers in their "
            "names, and the file system does not show what is read; track a metric with its step"
        )
        yield Finding("unknown", text)


def _how(resumption: Resumption) -> str:
    """Return how an attempt began that did not go on."""
    saved = "" if resumption.saved is None else f", and one had been written after step {resumption.saved:g}"
    return {
        "steps": f"began at step {resumption.began_at or 0:g}{saved}",
        "names": "wrote once more a checkpoint that was there",
        "reading": "read none",
    }[resumption.by]


def _untried(attempts: Sequence[Attempt], plan: Restarts) -> Iterator[Finding]:
    """Yield what was not tried: where nothing was found to end, and for which there was no time."""
    names = {
        "notice": "the signal before a time limit",
        "write": "KILL to a rank while it writes a checkpoint",
        "node": "KILL to all ranks of a node",
        "rank": "KILL to a rank of another node than the first",
    }
    ends = plan.rehearsal.ends if plan.rehearsal else ()
    tried = {end.kind for attempt in attempts for end in attempt.endings if end.node or end.kind == "notice"}
    for end in ends:
        if end not in tried:
            nodes = [node for attempt in attempts if attempt.kind == end for node in attempt.untried]
            why = (
                f"no rank was found on {nodes[0]}, or no way there"
                if nodes
                else "there was no time, or no attempt"
            )
            yield Finding("warning", f"not tried: {names[end]} ({why})")
    if not tried - {"notice"} and {*ends} - {"notice"}:
        yield Finding("unknown", "no rank was ended by KILL")


# --- What a rehearsal comes to

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
    found = tuple(of(attempts, written, resumptions, plan))
    kinds = {finding.kind for finding in found}
    writes = [write for each in written.values() for write in each]
    longest = max((write.seconds for write in writes), default=None)
    save = saved(attempts, written)
    nodes = plan.rehearsal.nodes if plan.rehearsal else 1
    return Report(
        verdict="refused" if "wrong" in kinds else "unknown" if "unknown" in kinds else "passes",
        findings=found,
        rows=tuple(
            Row(attempt, after(attempt), resumption, _lost(attempt, written[attempt.number]))
            for attempt, resumption in zip(attempts, (None, *resumptions), strict=False)
        ),
        write_seconds=longest,
        write_bytes=max((write.bytes for write in writes), default=None),
        save_seconds=save[1].ended - save[0] if save else None,
        notice=_notice(longest, save),
        interval=None if longest is None else observed.interval(longest, mtbf.of_job(nodes)),
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
    return None if took is None else 60 * math.ceil((_SAFETY * took + last_before_term(60)) / 60)
