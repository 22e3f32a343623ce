"""The limits of a QOS that an experiment names, and names that the site's file lacks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import site

MACHINE = site(
    node_types={"n": {"cpus": 4}},
    partitions={"p": {"nodes": {"n": 99}, "max_nodes": 9, "max_walltime": "1h", "qos": "normal"}},
    qos={"debug": {"max_nodes": 2, "max_walltime": "30m"}, "large": {"max_nodes": 50}},
)


@pytest.mark.parametrize(
    ("batch", "sentences"),
    [
        ({"walltime": "1h"}, []),
        ({"walltime": "20m", "qos": "large"}, []),
        ({"walltime": "20m", "qos": "normal"}, []),
        ({"walltime": "20m", "qos": "project7"}, []),
        ({"walltime": "20m", "qos": "debug2"}, []),
        (
            {"walltime": "1h", "qos": "debug"},
            [
                "batch.qos: QOS debug gives a job 2 nodes, 3 are needed",
                "batch.walltime: QOS debug allows 00:30:00, 01:00:00 requested",
            ],
        ),
        (
            {"walltime": "20m", "qos": "debgu"},
            ["batch.qos: site x may have no QOS 'debgu'; did you mean 'debug'?"],
        ),
    ],
)
def test_the_qos_of_a_job(batch: dict[str, Any], sentences: list[str]) -> None:
    plan = planned(MACHINE, framework="mpi", environment=environment(2, each=resources(cpu=4)), batch=batch)
    assert [*warnings_of(plan)] == sentences
