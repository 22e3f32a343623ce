"""The limits of a QOS that an experiment names, and names that the site's file lacks."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.plan.model import Plan
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import site
from tests.wording import Wording

MACHINE = site(
    node_types={"n": {"cpus": 4}},
    partitions={"p": {"nodes": {"n": 99}, "max_nodes": 9, "max_walltime": "1h", "qos": "normal"}},
    qos={"debug": {"max_nodes": 2, "max_walltime": "30m"}, "large": {"max_nodes": 50}},
)


def of_batch(batch: dict[str, Any]) -> Plan:
    """Return the plan of a job on three nodes."""
    return planned(MACHINE, framework="mpi", environment=environment(2, each=resources(cpu=4)), batch=batch)


@pytest.mark.parametrize(
    "batch",
    [
        {"walltime": "1h"},
        {"walltime": "20m", "qos": "large"},
        {"walltime": "20m", "qos": "normal"},
        {"walltime": "20m", "qos": "project7"},
        {"walltime": "20m", "qos": "debug2"},
    ],
)
def test_the_qos_of_a_job(batch: dict[str, Any]) -> None:
    assert warnings_of(of_batch(batch)) == ()


@pytest.mark.parametrize(
    "batch",
    [
        {"walltime": "1h", "qos": "debug"},
        {"walltime": "20m", "qos": "debgu"},
    ],
    ids=str,
)
def test_a_qos_whose_limits_the_job_exceeds_or_that_the_file_lacks(
    batch: dict[str, Any], wording: Wording
) -> None:
    wording(warnings_of(of_batch(batch)))
