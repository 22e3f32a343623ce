from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import RankVariables, Site
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, words
from tests.sites import site, site_named

EXIT = ["--setopt=exit-on-error", "--setopt=exit-timeout=none"]
BOUND = "--setopt=cpu-affinity=per-task"


def machine(**more: Any) -> Site:
    return site(
        **{
            "scheduler": "flux",
            "launcher": "flux",
            "node_types": {"node": {"cpus": 16, "gpus": 4}},
            "partitions": {"pbatch": {"nodes": {"node": 100}}},
            "default_partition": "pbatch",
        }
        | more
    )


def test_equal_tasks() -> None:
    plan = planned(machine(), framework="mpi", environment=environment(7, each=resources(gpu=1)))
    assert words(plan) == [
        *["flux", "run", "--nodes=2", "--ntasks=8", "--cores-per-task=4", "--gpus-per-task=1", "--label-io"],
        *EXIT,
        BOUND,
        *WRAPPED,
    ]
    assert plan.launch.rank_variables == RankVariables(
        rank="FLUX_TASK_RANK", size="FLUX_JOB_SIZE", local_rank="FLUX_TASK_LOCAL_ID"
    )
    assert (plan.launch.needs_pmi, plan.launch.label_in_task) == (False, False)


def test_a_signal_before_the_limit_is_flux_runs_own() -> None:
    """As ``flux batch --signal`` ends the brokers of all nodes but the first (tried on 0.88)."""
    plan = planned(
        machine(), framework="mpi", environment=environment(7, each=resources(gpu=1)),
        batch={"walltime": "1h", "signal": "B:USR1@120"},
    )  # fmt: skip
    assert "--signal=USR1@120" in words(plan)
    assert not [line for line in plan.directives if line.flag == "--signal"]


def test_one_task_has_no_label() -> None:
    plan = planned(machine(), framework="mpi", environment=environment(each=resources(cpu=2)))
    assert words(plan)[:5] == ["flux", "run", "--nodes=1", "--ntasks=1", "--cores-per-task=2"]
    assert "--label-io" not in words(plan)


@pytest.mark.parametrize(
    "section",
    [
        {
            "resources": resources(cpu=6, gpu=1),
            "replicas": {"n_workers": 1, "default_worker": {"resources": resources(cpu=10, gpu=3)}},
        },
        {**environment(each=resources(cpu=16, gpu=4)), "processes_per_replica": 2},
    ],
)
def test_tasks_that_are_not_equal_share_whole_nodes(section: dict[str, Any]) -> None:
    found = words(planned(machine(), framework="pytorch", environment=section))
    assert "--tasks-per-node=2" in found or "--ntasks=2" in found
    assert not {"--gpus-per-task=1", "--gpus-per-task=3"} & set(found)


def test_gpus_of_unequal_tasks_are_counted_by_node() -> None:
    section = {
        "resources": resources(cpu=6, gpu=1),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(cpu=10, gpu=3)}},
    }
    plan = planned(machine(), framework="pytorch", environment=section)
    assert words(plan)[:7] == [
        *["flux", "run", "--nodes=1", "--tasks-per-node=2", "--exclusive", "--gpus-per-node=4", "--label-io"]
    ]


def test_equal_tasks_that_do_not_fill_the_nodes_are_spread_as_flux_does() -> None:
    plan = planned(machine(), framework="mpi", environment=environment(4, each=resources(gpu=1)))
    assert [*plan.placement.tasks_per_node()] == [(1, 3), (1, 2)]
    assert words(plan)[:6] == [
        *["flux", "run", "--nodes=2", "--ntasks=5", "--cores-per-task=4", "--gpus-per-task=1"]
    ]
    assert BOUND in words(plan)


def test_a_taskmap_says_how_many_unequal_tasks_each_node_has() -> None:
    section = {
        "resources": resources(cpu=10, gpu=1),
        "replicas": {"n_workers": 4, "default_worker": {"resources": resources(cpu=4, gpu=1)}},
    }
    plan = planned(machine(), framework="pytorch", environment=section)
    assert [*plan.placement.tasks_per_node()] == [(1, 2), (1, 3)]
    assert words(plan) == [
        *["flux", "run", "--nodes=2", "--ntasks=5", "--exclusive", "--taskmap=manual:[[0,1,2,1],[1,1,3,1]]"],
        "--label-io",
        *EXIT,
        *WRAPPED,
    ]


def test_whole_nodes_with_rocm() -> None:
    plan = planned(
        site_named("tuolumne-like"),
        framework="horovod",
        batch={"account": "A"},
        environment=environment(7, each=resources(gpu=1)),
    )
    assert words(plan) == [
        *["flux", "run", "--nodes=2", "--ntasks=8", "--cores-per-task=24", "--label-io"],
        *EXIT,
        "--setopt=gpu-affinity=off",
        BOUND,
        "--setopt=mpibind=off",
        *WRAPPED,
    ]


def test_gpus_that_flux_hands_out() -> None:
    giving = machine(gpus={"request": "gpus_per_node", "bound_by": "launcher"})
    plan = planned(giving, framework="mpi", environment=environment(3, each=resources(gpu=1)))
    assert "--gpus-per-task=1" in words(plan)
    assert (
        Word(text="--setopt=gpu-affinity=per-task", origin=Origin("site", "x", "gpus.bound_by")) in plan.words
    )
    section = {
        "resources": resources(gpu=1),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(gpu=2)}},
    }
    with pytest.raises(PlanError, match="site x assigns GPUs by flux run, which gives all tasks the same"):
        planned(giving, framework="pytorch", environment=section)


def test_options_of_the_site() -> None:
    options = {"mpi": "spectrum", "binding": ["--setopt=cpu-affinity=off"], "args": ["--unbuffered"]}
    plan = planned(machine(launchers={"flux": options}), framework="mpi")
    assert [(word.text, word.origin) for word in plan.words[-5:-2]] == [
        ("--setopt=mpi=spectrum", Origin("site", "x", "launchers.flux.mpi")),
        ("--setopt=cpu-affinity=off", Origin("site", "x", "launchers.flux.binding")),
        ("--unbuffered", Origin("site", "x", "launchers.flux.args")),
    ]


def test_aprun_is_refused_with_the_reason() -> None:
    with pytest.raises(
        PlanError, match=r"^batch.launcher: aprun belonged to ALPS, which is gone .*; write one of"
    ):
        planned(machine(), framework="mpi", batch={"launcher": "aprun"})
