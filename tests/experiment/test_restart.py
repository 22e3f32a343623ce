"""What is wrong with restarts though each value has the right type."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

from typing import Any

import pytest

from tests.experiment.test_problems import found

PACKED: dict[str, Any] = {
    "hptuning": {"matrix": {"lr": {"values": [1, 2]}}},
    "batch": {"pack": True},
    "run": {"cmd": "echo {{ lr }}"},
}


@pytest.mark.parametrize(
    ("restart", "others", "problem"),
    [
        ({"max": 1001}, {}, "environment.restart.max: 1001 is out of range; write a number from 0 to 1000"),
        ({"no_progress": -1}, {}, "environment.restart.no_progress: -1 is out of range; write a number from 0 to 1000000"),
        ({"stop_on_exit": [93, 0]}, {},
         "environment.restart.stop_on_exit[1]: 0 is no exit code of a failure; write codes from 1 to 255; after 0 there is never another attempt"),
        ({"on": []}, {},
         "environment.restart.on: there is no further attempt after any end; name ends, or remove `restart`"),
        ({"signal": "KILL"}, {},
         "environment.restart.signal: 'KILL' does not reach the program; write one of TERM, INT, HUP, USR1, USR2"),
        ({"stop_file": "a\nover 0 0"}, {},
         "environment.restart.stop_file: 'a\\nover 0 0' is no name of a file; write a name of printable characters on one line"),
        ({}, {"environment": {"max_restarts": 2}},
         "environment.max_restarts: `restart` has a number of its own; remove it: `restart: {max: ...}` counts all attempts"),
        ({"by": "requeue"}, {"batch": {"requeue": False}},
         "batch.requeue: the job may not be requeued; remove it, or write `by: follow`"),
        ({"by": "follow"}, {"batch": {"array": "0-3"}},
         "environment.restart.by: elements of an array have no followers; write `by: requeue`"),
        ({"stop_file": "STOP"}, PACKED,
         "environment.restart.stop_file: packed trials have no file that ends them; remove it; `hpcdist sweep stop` ends a search"),
        ({"spare_nodes": 1}, PACKED,
         "environment.restart.spare_nodes: packed trials have no spare nodes; remove it, or write `batch: {pack: false}` where the batch system has arrays: other jobs take the trials of a lost node"),
        ({"signal": "USR1"}, PACKED,
         "environment.restart.signal: the time limit of packed trials is announced by TERM; write `signal: TERM`, or write `batch: {pack: false}` where the batch system has arrays"),
    ],
)  # fmt: skip
def test_restarts_that_cannot_be(restart: dict[str, Any], others: dict[str, Any], problem: str) -> None:
    environment = {"restart": restart, **others.get("environment", {})}
    assert found(**{**others, "environment": environment}) == [problem]
