from __future__ import annotations

import re

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.values import Origin
from hpcdist.site.model import RankVariables
from tests.experiments import environment, resources
from tests.plans import LOCAL, WRAPPED, planned, words
from tests.sites import site

MPIRUN = ["mpirun", "-np", "4", '--hostfile "$HPCDIST_HOSTFILE"', "--map-by", "slot", "--bind-to", "none"]


def test_mpirun_over_the_jobs_own_hostfile() -> None:
    plan = planned(
        framework="mpi", batch={"launcher": "mpirun"}, environment=environment(3, each=resources(cpu=8))
    )
    assert words(plan) == [*MPIRUN, '"${exports[@]}"', *WRAPPED]
    assert plan.launch.rank_variables == RankVariables(
        rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE", local_rank="OMPI_COMM_WORLD_LOCAL_RANK"
    )
    assert (plan.launch.needs_pmi, plan.launch.label_in_task, plan.launch.mpi) == (False, True, None)


def test_the_local_site_has_it_too() -> None:
    assert words(planned(LOCAL, framework="mpi", environment=environment(3)))[:8] == MPIRUN


def test_several_components_are_reached_by_ssh() -> None:
    plan = planned(
        framework="mpi",
        batch={"launcher": "mpirun"},
        environment={
            "resources": resources(cpu=20),
            "replicas": {"n_workers": 3, "default_worker": {"resources": resources(cpu=1, gpu=1)}},
        },
    )
    rules = ["--mca", "plm", "rsh", "--mca", "ras", "^slurm"]
    assert words(plan) == [*MPIRUN, *rules, '"${exports[@]}"', *WRAPPED]


def test_parameters_and_options_of_the_site() -> None:
    options = {"flavour": "openmpi", "mca": {"btl": "^openib", "pml": "ucx"}, "args": ["--report-bindings"]}
    plan = planned(site(launcher="mpirun", launchers={"mpirun": options}))
    assert [(word.text, word.origin) for word in plan.words[8:15]] == [
        ("--mca", Origin("site", "x", "launchers.mpirun.mca.btl")),
        ("btl", Origin("site", "x", "launchers.mpirun.mca.btl")),
        ("^openib", Origin("site", "x", "launchers.mpirun.mca.btl")),
        ("--mca", Origin("site", "x", "launchers.mpirun.mca.pml")),
        ("pml", Origin("site", "x", "launchers.mpirun.mca.pml")),
        ("ucx", Origin("site", "x", "launchers.mpirun.mca.pml")),
        ("--report-bindings", Origin("site", "x", "launchers.mpirun.args")),
    ]


@pytest.mark.parametrize("flavour", ["mpich", "intel", "cray-mpich"])
def test_other_mpi_libraries_are_refused(flavour: str) -> None:
    message = f"site x: the mpirun of {flavour} is not known yet; use srun there"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        planned(site(launcher="mpirun", launchers={"mpirun": {"flavour": flavour}}))
