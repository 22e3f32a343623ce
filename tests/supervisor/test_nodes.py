"""Which nodes are left out of later attempts, and which the next one gets."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from supervisor import nodes
from supervisor.events import Event

from hpcdist.nodes import ledger
from hpcdist.nodes.ledger import THRESHOLD, Evidence, Kind
from tests.tiers import examples

NOW = 1_800_000_000
DAY = 24 * 3600
KINDS: dict[str, Kind] = {"lost": "lost", "blamed": "failed"}


def suspects(*events: tuple[str, int, str]) -> list[str]:
    """Return the suspect ones by events that are so old, each with its node."""
    return nodes.suspects([Event(what, "7", NOW - age, node) for what, age, node in events], NOW)


def test_a_node_is_suspect_for_a_week_and_the_most_suspect_of_eight_comes_first() -> None:
    assert suspects(("lost", 7 * DAY, "n1"), ("lost", 8 * DAY, "n2"), ("started", 0, "n3")) == ["n1"]
    assert len(suspects(*(("lost", 0, f"n{number}") for number in range(9)))) == 8
    assert suspects(("lost", 3 * DAY, "n1"), ("lost", 0, "n2")) == ["n2", "n1"]


EVENTS = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(-DAY, 30 * DAY), st.sampled_from("abc"))


@given(st.lists(EVENTS))
@examples(50)
def test_the_law_is_that_of_the_ledger(events: list[tuple[str, int, str]]) -> None:
    events.sort(key=lambda event: -event[1])  # as a log is written
    evidence = [Evidence(NOW - age, "s", node, KINDS[what], "r", 0, "") for what, age, node in events]
    known = {node.name: node.suspicion for node in ledger.nodes(evidence, NOW)}
    assume(all(abs(each - THRESHOLD) > 1e-9 for each in known.values()))
    assert sorted(suspects(*events)) == sorted(node for node, each in known.items() if each >= THRESHOLD)


def test_an_end_speaks_against_nodes() -> None:
    lost = nodes.blamed("node_failure", ["n2"], ["n2.site", "n1.site"], "n3", several=True)
    assert lost == [("lost", "n1"), ("lost", "n2")]
    assert nodes.blamed("failure", ["n2"], [], "n3.site", several=True) == [("blamed", "n3")]
    for why, host, several in (("failure", "", True), ("failure", "n3", False), ("timeout", "n3", True)):
        assert nodes.blamed(why, [], [], host, several=several) == []


def test_the_next_attempt_gets_nodes_that_are_alive_and_suspect_ones_last() -> None:
    own = ["n1.x", "n2", "n3"]
    assert nodes.choose(own, 2, ["n3", "n1.x"], []) == (["n1.x", "n3"], [])
    assert nodes.choose(own, 2, own, ["n1"]) == (["n2", "n3"], ["n1.x"])
    assert nodes.choose(own, 2, own[:2], ["n1"]) == (["n2", "n1.x"], [])
    assert nodes.choose(own, 2, ["n1.x", "another"], []) is None
    assert [nodes.has_suspect(own, [name]) for name in ("n1", "n")] == [True, False]
