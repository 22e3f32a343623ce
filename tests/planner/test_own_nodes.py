"""Which jobs can have nodes without tasks."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.errors import PlanError
from tests.plans import planned
from tests.sites import site_named

OWN: dict[str, Any] = {"cmd": "true", "beside": [{"cmd": "true", "on": "own_node"}]}
SEARCH = {"hptuning": {"matrix": {"lr": {"values": [1, 2]}}}, "run": {"cmd": "echo {{ lr }}"}}
MIXED = {"n_workers": 1, "n_ps": 1, "default_ps": {"node_selector": {"partition": "cpu"}}}
SPARE = {"restart": {"spare_nodes": 1}}


@pytest.mark.parametrize(
    ("site", "data", "message"),
    [
        ("pbs", {"environment": SPARE}, "a job of pbs ends when it loses a node"),
        ("testbed", {"environment": SPARE, "run": OWN}, "a program beside the tasks has its own"),
        ("testbed", {"environment": SPARE, **SEARCH}, "the trials of a search have no nodes beside those "),
        ("testbed", {"framework": "tensorflow", "environment": {"replicas": MIXED, **SPARE}},
         "spare nodes need nodes of one kind, and these replicas are on several"),
    ],
)  # fmt: skip
def test_a_job_that_can_have_none(site: str, data: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        planned(site_named(site), **data)
    assert [problem.path for problem in caught.value.problems] == [("environment", "restart", "spare_nodes")]


def test_spare_nodes_are_counted() -> None:
    assert planned(site_named("testbed"), environment=SPARE).own_nodes == 1
