"""Which jobs can have nodes without tasks."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from tests.plans import planned
from tests.sites import site_named
from tests.wording import Wording

OWN: dict[str, Any] = {"cmd": "true", "beside": [{"cmd": "true", "on": "own_node"}]}
SEARCH = {"hptuning": {"matrix": {"lr": {"values": [1, 2]}}}, "run": {"cmd": "echo {{ lr }}"}}
MIXED = {"n_workers": 1, "n_ps": 1, "default_ps": {"node_selector": {"partition": "cpu"}}}
SPARE = {"restart": {"spare_nodes": 1}}


@pytest.mark.parametrize(
    ("site", "data"),
    [
        ("pbs", {"environment": SPARE}),
        ("testbed", {"environment": SPARE, "run": OWN}),
        ("testbed", {"environment": SPARE, **SEARCH}),
        ("testbed", {"framework": "tensorflow", "environment": {"replicas": MIXED, **SPARE}}),
    ],
    ids=["a system that ends it", "nodes beside already", "a search", "nodes of several kinds"],
)
def test_a_job_that_can_have_none(site: str, data: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        planned(site_named(site), **data)
    wording(str(caught.value))


def test_spare_nodes_are_counted() -> None:
    assert planned(site_named("testbed"), environment=SPARE).own_nodes == 1
