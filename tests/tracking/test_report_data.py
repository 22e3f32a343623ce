"""What a report shows of each run: text, the placement, attempts over time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.plan.placement import Group, Placement, Row
from hpcdist.runs.event_states import Attempt
from hpcdist.tracking import report_data
from hpcdist.tracking.report_data import Bar, Card, Chip, NodeMap, Share, Timeline

# --- Text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain é 漢 <b>", "plain é 漢 <b>"),
        ("a\0b\x1b[31m\n\t\r", "a\\x00b\\x1b[31m\\n\\t\\r"),
        ("\u202egnp.exe\u2028\udc80", "\\u202egnp.exe\\u2028\\udc80"),
        ("x" * 2003, "x" * 2000 + "… (3 more)"),
    ],
)
def test_what_is_not_printable_is_shown_as_its_code(value: str, shown: str) -> None:
    assert report_data.visible(value) == shown


@given(st.text())
def test_what_is_shown_is_printable(value: str) -> None:
    assert report_data.visible(value).isprintable()


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("10%\r20%\r30%\r", "30%"),
        ("\x1b[32mgreen\x1b[0m \x1b]0;title\x07", "green \x1b]0;title\x07"),
        ("a\tb", "a       b"),
    ],
)
def test_a_line_of_output_is_what_a_terminal_shows(line: str, shown: str) -> None:
    assert report_data.terminal_line(line) == shown


@pytest.mark.extended
@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_data_of_a_script_has_no_markup_and_is_read_as_it_was(value: object) -> None:
    written = report_data.script_data(value)
    assert written.isascii()
    assert not {*"<>&"} & {*written}
    assert json.loads(written) == value


# --- Placement


def placed(count: int, per_node: int = 1) -> Placement:
    """Return a master on the first node, and workers on it and all others, each with a GPU."""
    row: dict[str, Any] = {
        "tasks_per_replica": 1,
        "local_rank": 0,
        "cpu": 0,
        "cpus": 2,
        "gpu": 0,
        "gpus": 1,
        "index": 0,
    }
    master = Row(role="master", rank=0, tasks=1, tasks_per_node=1, node=0, **row)
    workers = Row(role="worker", rank=1, tasks=(count - 1) * per_node, tasks_per_node=per_node, node=1, **row)
    group = Group(
        partition="gpu", node_type="a100", gpu_type=None, constraint=None, node=0, nodes=count, rank=0,
        tasks=1, tasks_per_node=per_node, cpus_per_task=2, cpus=8, gpus=4, memory=None, gpus_per_task=1,
        even=True,
    )  # fmt: skip
    return Placement(groups=(group,), rows=(master, workers))


def test_each_node_is_a_card_with_its_tasks() -> None:
    assert report_data.node_map(placed(2, 2), ["n1", "n2"], 2, 400) == NodeMap(
        cards=[
            Card(0, "n1", (Chip(0, "master", 0, 2, (0,)),)),
            Card(1, "n2", (Chip(1, "worker 0", 1, 2, (0,)), Chip(2, "worker 1", 1, 2, (1,), failed=True))),
        ],
        roles=[("master", "1"), ("worker", "2")],
        groups=["nodes 0-1: partition gpu, a100 nodes"],
    )


def test_of_many_nodes_that_look_alike_the_first_and_the_last_are_drawn() -> None:
    found = report_data.node_map(placed(2000), [], None, 400)
    assert [(card.node, card.more) for card in found.cards] == [(0, 0), (1, 0), (-1, 1997), (1999, 0)]
    assert found.left_out == 0


def test_of_many_tasks_that_look_alike_the_first_and_the_last_are_drawn() -> None:
    [_, card] = report_data.node_map(placed(2, 100), [], None, 400).cards
    assert [(chip.rank, chip.more) for chip in card.chips] == [(1, 0), (-1, 98), (100, 0)]


def test_nodes_that_differ_are_bounded() -> None:
    rows = tuple(
        Row(
            role="worker", index=node, rank=node, tasks=1, tasks_per_replica=1, tasks_per_node=1, node=node,
            local_rank=0, cpu=0, cpus=1 + node % 2, gpu=0, gpus=0,
        )
        for node in range(2000)
    )  # fmt: skip
    groups = placed(2000).groups
    found = report_data.node_map(Placement(groups=groups, rows=rows), [], None, 400)
    assert (len(found.cards), found.left_out) == (60, 1940)


def test_of_nodes_with_many_tasks_fewer_are_drawn() -> None:
    """At least one, though: that of the master here."""
    found = report_data.node_map(placed(3, 7), [], None, 9)
    assert ([card.node for card in found.cards], found.left_out) == ([0, 1], 1)
    found = report_data.node_map(placed(3, 7), [], None, 0)
    assert ([card.node for card in found.cards], found.left_out) == ([0], 2)


# --- Attempts


def test_a_job_that_waited_was_requeued_and_failed() -> None:
    first = Attempt("7", (0, 0), "requeued", 100, 120, 140, exit_code=143)
    second = Attempt("7", (1, 0), "failed", 140, 160, 200, exit_code=3)
    assert report_data.timeline([first, second], 999.0) == Timeline(
        100, 200, Share([Bar(first, (0, 20), (20, 20)), Bar(second, (40, 20), (60, 40))])
    )


def test_what_runs_or_waits_lasts_until_now() -> None:
    running = Attempt("7", (0, 0), "running", 100, 200)
    waiting = Attempt("8", (0, 0), "pending", 250)
    assert report_data.timeline([running, waiting], 300.0) == Timeline(
        100, 300, Share([Bar(running, (0, 50), (50, 50)), Bar(waiting, (75, 25), (0, 0))])
    )


def test_an_attempt_of_unknown_end_is_no_longer_than_its_start() -> None:
    lost = Attempt("7", (0, 0), "unknown", 100, 200)
    assert report_data.timeline([lost], 300.0) == Timeline(100, 200, Share([Bar(lost, (0, 100), (100, 0))]))


def test_without_a_time_there_is_none() -> None:
    assert report_data.timeline([], 300.0) is None
    assert report_data.timeline([Attempt("7", (0, 0), "unknown")], 300.0) is None


def test_the_attempts_of_a_large_array_are_bounded() -> None:
    found = [Attempt(f"7_{number}", (0, 0), "running", 100, 100 + number) for number in range(1000)]
    line = report_data.timeline(found, 2000.0)
    assert line
    assert (len(line.bars.items), line.bars.left_out) == (60, 940)
