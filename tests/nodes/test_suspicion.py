"""How much the evidence against a node weighs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.nodes import ledger
from hpcdist.nodes.ledger import THRESHOLD, Evidence, Kind, Node

NOW = 1.8e9
DAY = 86400.0

KINDS: st.SearchStrategy[Kind] = st.sampled_from(("lost", "failed", "slow"))
EVIDENCE = st.builds(lambda days, kind: against("n1", kind, days), st.floats(0, 60, allow_nan=False), KINDS)


def against(node: str, kind: Kind, days: float) -> Evidence:
    """Evidence that is so many days old."""
    return Evidence(NOW - days * DAY, "toy", node, kind, "train-1", 0, "it was so")


@pytest.mark.parametrize(
    ("evidence", "is_suspect"),
    [
        ([("lost", 0.0)], True),
        ([("lost", 6.9)], True),
        ([("lost", 7.1)], False),
        ([("lost", -3.0)], True),  # by a clock that is ahead
        ([("failed", 0.0)], False),
        ([("failed", 0.0), ("failed", 6.9)], True),
        ([("failed", 0.0), ("failed", 7.1)], False),
        ([("slow", 0.0), ("failed", 0.0)], True),
        ([("lost", 20.0), ("lost", 10.0)], True),
        ([("lost", 20.0), ("lost", 20.01)], False),  # both within an hour are one
    ],
)
def test_who_is_suspect(evidence: list[tuple[Kind, float]], *, is_suspect: bool) -> None:
    found = ledger.of([against("n1", *one) for one in evidence], NOW)
    assert (found >= THRESHOLD) is is_suspect


@given(st.lists(EVIDENCE), st.floats(0, 365))
def test_suspicion_decays_by_half_in_a_week(evidence: list[Evidence], days: float) -> None:
    now = ledger.of(evidence, NOW)
    assert ledger.of(evidence, NOW + days * DAY) == pytest.approx(now * 2 ** (-days / 7))


@given(st.lists(EVIDENCE), EVIDENCE)
def test_more_evidence_never_weighs_less_than_half(evidence: list[Evidence], one: Evidence) -> None:
    """A loss may take the place of a later one within an hour, which a day's decay does not halve."""
    assert ledger.of([*evidence, one], NOW) >= ledger.of(evidence, NOW) / 2


def test_the_most_suspect_nodes_come_first() -> None:
    one, two, other = against("n1", "failed", 1), against("n2", "lost", 9), against("n2", "lost", 2)
    found = ledger.nodes([one, two, other], NOW)
    assert found == [
        Node("toy", "n2", 2 ** (-9 / 7) + 2 ** (-2 / 7), (other, two)),
        Node("toy", "n1", 1 / 3 * 2 ** (-1 / 7), (one,)),
    ]
