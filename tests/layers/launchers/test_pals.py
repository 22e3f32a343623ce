from __future__ import annotations

import re

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import RankVariables, Site
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, words
from tests.sites import site


def cray(**options: object) -> Site:
    return site(
        launcher="pals",
        launchers={"pals": options},
        node_types={"a100": {"cpus": 64, "gpus": 4}},
        partitions={"prod": {"nodes": {"a100": 100}}},
        default_partition="prod",
    )


def test_equal_tasks() -> None:
    plan = planned(cray(), framework="mpi", environment=environment(7, each=resources(gpu=1)))
    assert words(plan) == [
        "mpiexec",
        "-n",
        "8",
        "--ppn",
        "4",
        '--hostfile "$HPCDIST_HOSTFILE"',
        "--envall",
        "--depth",
        "16",
        "--cpu-bind",
        "depth",
        *WRAPPED,
    ]
    assert plan.launch.rank_variables == RankVariables(
        rank="PMI_RANK", size="PMI_SIZE", local_rank="PMI_LOCAL_RANK"
    )
    assert (plan.launch.needs_pmi, plan.launch.label_in_task) == (False, True)


def test_tasks_of_different_sizes_are_not_bound() -> None:
    section = {
        "resources": resources(cpu=20, gpu=1),
        "replicas": {"n_workers": 1, "default_worker": {"resources": resources(cpu=30, gpu=1)}},
    }
    found = words(planned(cray(binding=["--cpu-bind", "list:0:16"]), framework="mpi", environment=section))
    assert found[:9] == [
        "mpiexec",
        "-n",
        "2",
        "--ppn",
        "2",
        '--hostfile "$HPCDIST_HOSTFILE"',
        "--envall",
        "--cpu-bind",
        "none",
    ]


def test_options_of_the_site() -> None:
    machine = cray(binding=["--cpu-bind", "list:0-7:8-15"], args=["--line-buffer"])
    plan = planned(machine, framework="mpi", environment=environment(3, each=resources(gpu=1)))
    assert plan.words[9:12] == (
        Word(text="--cpu-bind", origin=Origin("site", "x", "launchers.pals.binding")),
        Word(text="list:0-7:8-15", origin=Origin("site", "x", "launchers.pals.binding")),
        Word(text="--line-buffer", origin=Origin("site", "x", "launchers.pals.args")),
    )


def test_the_other_tasks_may_go_on() -> None:
    plan = planned(cray(), framework="mpi", environment=environment(3), batch={"kill_on_failure": False})
    assert words(plan)[-len(WRAPPED) - 1 :] == ["--no-abort-on-failure", *WRAPPED]


def test_uneven_tasks_are_refused_with_numbers() -> None:
    message = (
        "environment.replicas: PALS mpiexec puts the same number of tasks on every node (--ppn), and "
        "the plan has 3 on 1 node, 2 on 1 node; ask for as many replicas as fill all nodes alike, such as 4 "
        "or 6 processes, or write another `batch.launcher`: srun or mpirun or hydra"
    )
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        planned(cray(), framework="mpi", environment=environment(4, each=resources(gpu=1)))
