"""What a rehearsal comes to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hpcdist.rehearsal.judging import Report, judge
from hpcdist.rehearsal.observed import Attempt, Mtbf
from hpcdist.rehearsal.resuming import Resumption
from tests.rehearsal.made import PLAN, attempt, file, whole

MTBF = Mtbf(1000, "x")
GOOD = [
    whole(0, 0)._replace(
        looks=(*whole(0, 0).looks, whole(0, 0).looks[-1]._replace(at=1031.0, files=(file("c", 3, 3),)))
    ),
    whole(1, 3),
    whole(2, 5),
    whole(3, 7),
]
"""A training that saves one second after the signal, too, and always goes on."""


def texts(attempts: Sequence[Attempt], plan: object = PLAN) -> tuple[str, list[str]]:
    found = judge(attempts, {}, plan, MTBF)  # type: ignore[arg-type]
    return found.verdict, [f"{each.kind}: {each.text}" for each in found.findings]


def test_a_training_that_goes_on_passes() -> None:
    found = judge(GOOD, {}, PLAN, MTBF)
    assert found == Report(
        verdict="passes",
        findings=(),
        rows=found.rows,
        write_seconds=0.2,
        write_bytes=100,
        save_seconds=1.0,
        notice=60,
        interval=found.interval,
        mtbf=MTBF,
        nodes=1,
    )
    assert [(row.after, row.lost_seconds, row.resumption) for row in found.rows] == [
        ("the signal before a time limit", 0.0, None),
        ("KILL to rank 0 on n1 at a checkpoint", 10.0, Resumption(went_on=True, by="reading")),
        ("KILL to rank 0 on n1", 10.0, Resumption(went_on=True, by="reading")),
        ("the signal before a time limit", None, Resumption(went_on=True, by="reading")),
    ]


def failed(number: int, code: int) -> Attempt:
    return whole(number, 2)._replace(endings=(), code=code)


@pytest.mark.parametrize(
    ("attempts", "verdict", "text"),
    [
        ([], "unknown", "no attempt has begun"),
        ([attempt(0, (), code=138)], "refused", "wrong: there was no checkpoint"),
        ([failed(0, 3)], "unknown", "attempt 0 failed by itself, with exit code 3"),
        ([failed(0, 0)], "unknown", "attempt 0 finished before it could be ended"),
        ([GOOD[0]._replace(code=0)], "refused", "attempt 0 ended with exit code 0 after the signal"),
        ([GOOD[0]._replace(code=93)], "refused", "after which there is no other one (`stop_on_exit`)"),
        ([GOOD[0]._replace(ended=None)], "unknown", "attempt 0 has no end"),
        ([*GOOD[:2], failed(2, 1)], "refused",
         "attempt 2, after KILL to rank 0 on n1 at a checkpoint, failed by itself, with exit code 1"),
        ([GOOD[0], GOOD[1]._replace(read=frozenset()), *GOOD[2:]], "refused",
         "after the signal before a time limit, did not go on from the last whole checkpoint: it read none"),
        ([GOOD[0], GOOD[1]._replace(read=None), *GOOD[2:]], "unknown", "may have gone on or not"),
        ([whole(0, 0), *GOOD[1:]], "passes", "warning: it saved nothing after USR1"),
        ([whole(0, 0)._replace(ended=1300.0), *GOOD[1:]], "refused",
         "wrong: USR1 does not reach it, or it ignores that: it neither saved nor ended until TERM came"),
        ([GOOD[0]._replace(ended=1300.0), *GOOD[1:]], "unknown",
         "it went on after USR1 until TERM came: what it saved may be a checkpoint like others"),
        ([*GOOD[:2], attempt(2, (file("c", 5, 5),), (file("c", 5, 6),)), GOOD[3]], "refused",
         "wrong: c is written over in place"),
        ([GOOD[0], attempt(1, (file("c", 3, 3),), (file("c", 3, 3), file("d", 4, 4)),
                           (file("c", 3, 3), file("d", 4, 5, size=300)), kind="node", pause=0.5), *GOOD[2:]],
         "passes", "warning: d was written under its own name"),
        ([*GOOD[:2], failed(2, 0)], "passes", "not tried: KILL to all ranks of a node"),
        ([GOOD[0], failed(1, 0)], "unknown", "no rank was ended by KILL"),
        ([GOOD[0], GOOD[1]._replace(endings=(), untried=("n2",)), *GOOD[2:]], "refused",
         "not tried: KILL to a rank while it writes a checkpoint (no rank was found on n2, or no way there)"),
        ([*GOOD[:2], GOOD[2]._replace(endings=GOOD[2].endings * 2), GOOD[3]], "passes",
         "warning: attempt 2 went on for a minute after KILL to rank 0 on n1"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_sentence(attempts: list[Attempt], verdict: str, text: str) -> None:
    plan = replace(PLAN, stop_on_exit=(93,))
    found, sentences = texts(attempts, plan)
    assert found == verdict
    assert any(text in sentence for sentence in sentences), sentences


def test_a_notice_may_be_too_short() -> None:
    slow = GOOD[0].looks[-1]._replace(at=1060.0)
    attempts = [GOOD[0]._replace(looks=(*GOOD[0].looks[:-1], slow)), *GOOD[1:]]
    assert texts(attempts) == ("passes", [])
    verdict, [text] = texts(attempts, replace(PLAN, notice=50))
    assert (verdict, text) == (
        "refused",
        "wrong: `notice` is too short: it saved 30 s after USR1, and TERM comes before that",
    )
