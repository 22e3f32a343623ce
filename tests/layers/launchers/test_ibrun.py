from __future__ import annotations

import re

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.schedulers.directives import directive_text
from hpcdist.schedulers.slurm.directives import HEADER
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, words
from tests.sites import site, site_named

VISTA = site_named("vista-like")


def test_all_tasks_of_the_job() -> None:
    plan = planned(
        VISTA, framework="horovod", batch={"account": "A"}, environment=environment(3, each=resources(gpu=1))
    )
    assert words(plan) == ["ibrun", "-n", "4", "-o", "0", *WRAPPED]
    assert plan.launch.rank_variables is not None
    assert plan.launch.rank_variables.rank == "OMPI_COMM_WORLD_RANK"


def test_directives_of_vista() -> None:
    plan = planned(
        VISTA,
        framework="horovod",
        environment=environment(3, each=resources(gpu=1, memory=1000)),
        batch={"walltime": "1h"},
    )
    assert [directive_text(HEADER, line) for line in plan.directives] == [
        "--job-name=experiment",
        "--no-requeue",
        "--export=ALL",
        "--partition=gh",
        "--time=01:00:00",
        "--exclusive",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--cpus-per-task=72",
    ]


def test_options_of_the_site() -> None:
    options = {"binding": ["task_affinity"], "args": ["-v"]}
    plan = planned(site(launcher="ibrun", launchers={"ibrun": options}), framework="mpi")
    assert words(plan) == ["ibrun", "-n", "1", "-o", "0", "-v", "task_affinity", *WRAPPED]
    assert plan.launch.rank_variables is not None
    assert plan.launch.rank_variables.rank == "PMI_RANK"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (
            environment(2, each=resources(cpu=70)),
            "ibrun starts the same number of tasks on every node, and the plan has 2 on 1 node, 1 on 1 node",
        ),
        (
            {
                "resources": resources(cpu=10),
                "replicas": {"n_workers": 1, "default_worker": {"resources": resources(cpu=20)}},
            },
            "ibrun starts tasks as Slurm lays them out, equal ones on nodes of one kind; give all replicas",
        ),
    ],
)
def test_other_layouts_are_refused(section: dict[str, object], said: str) -> None:
    with pytest.raises(PlanError, match=f"^environment.replicas: {re.escape(said)}"):
        planned(VISTA, framework="mpi", environment=section, batch={"partition": "gg"})
