"""What is wrong with restarts though each value has the right type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiment.test_problems import found
from tests.wording import Wording

PACKED: dict[str, Any] = {
    "hptuning": {"matrix": {"lr": {"values": [1, 2]}}},
    "batch": {"pack": True},
    "run": {"cmd": "echo {{ lr }}"},
}


@pytest.mark.parametrize(
    ("restart", "others"),
    [
        ({"max": 1001}, {}),
        ({"no_progress": -1}, {}),
        ({"stop_on_exit": [93, 0]}, {}),
        ({"on": []}, {}),
        ({"signal": "KILL"}, {}),
        ({"stop_file": "a\nover 0 0"}, {}),
        ({}, {"environment": {"max_restarts": 2}}),
        ({"by": "requeue"}, {"batch": {"requeue": False}}),
        ({"by": "follow"}, {"batch": {"array": "0-3"}}),
        pytest.param({"stop_file": "STOP"}, PACKED, id="a stop_file of packed trials"),
        pytest.param({"spare_nodes": 1}, PACKED, id="spare_nodes of packed trials"),
        pytest.param({"signal": "USR1"}, PACKED, id="a signal of packed trials"),
    ],
    ids=str,
)
def test_restarts_that_cannot_be(restart: dict[str, Any], others: dict[str, Any], wording: Wording) -> None:
    environment = {"restart": restart, **others.get("environment", {})}
    wording(found(**{**others, "environment": environment}))
