"""Which nodes are left out of later attempts, and which the next one gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from supervisor import nodes
from supervisor.events import Event

from hpcdist.checks import nodes as checks
from hpcdist.checks.nodes import Evidence, Kind
from tests.tiers import examples

NOW = 1_800_000_000
DAY = 24 * 3600
KINDS: dict[str, Kind] = {"lost": "lost", "blamed": "failed"}


def suspects(*events: tuple[str, int, str]) -> list[str]:
    """Return the suspect ones by events that are so old, each with its node."""
    return nodes.suspects([Event(what, "7", NOW - age, node) for what, age, node in events], NOW)


def test_a_node_is_suspect_for_two_weeks_and_the_most_suspect_of_eight_comes_first() -> None:
    assert suspects(("lost", 14 * DAY, "n1"), ("lost", 14 * DAY + 1, "n2"), ("started", 0, "n3")) == ["n1"]
    assert len(suspects(*(("lost", 0, f"n{number}") for number in range(9)))) == 8
    assert suspects(("lost", 3 * DAY, "n1"), ("lost", 2, "n2"), ("blamed", 1, "n2")) == ["n2", "n1"]


EVENTS = st.tuples(st.sampled_from(sorted(KINDS)), st.integers(-DAY, 30 * DAY), st.sampled_from("abc"))


@given(st.lists(EVENTS, unique=True))
@examples(50)
def test_the_rule_is_that_of_all_runs(events: list[tuple[str, int, str]]) -> None:
    events.sort(key=lambda event: -event[1])  # as a log is written
    counting = [event for event in events if event[1] <= checks.DAYS * DAY]
    found = checks.grouped(
        Evidence(NOW - age, "s", node, KINDS[what], "r", 0, "") for what, age, node in counting
    )
    assert sorted(suspects(*events)) == sorted(node.name for node in found if node.is_suspect)


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
