from __future__ import annotations

from hpcdist.layers.launchers.mpi import MPIRUN
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import RankVariables
from tests.experiments import environment, resources
from tests.plans import WRAPPED, planned, words
from tests.sites import site


def test_horovodrun_with_gloo() -> None:
    plan = planned(
        framework="horovod",
        batch={"launcher": "horovodrun"},
        environment=environment(3, each=resources(cpu=8)),
    )
    assert words(plan) == ["horovodrun", "--gloo", "-np", "4", '--hostfile "$HPCDIST_HOSTFILE"', *WRAPPED]
    assert plan.launch.rank_variables == RankVariables(
        rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK"
    )
    assert not plan.launch.label_in_task


def test_horovodrun_with_mpi_brings_mpi() -> None:
    plan = planned(framework="mpi", batch={"launcher": "horovodrun-mpi"}, environment=environment(1))
    assert words(plan)[:4] == ["horovodrun", "--mpi", "-np", "2"]
    assert plan.launch.rank_variables is not None
    assert plan.launch.rank_variables.rank == "OMPI_COMM_WORLD_RANK"


def test_horovodrun_over_mpirun() -> None:
    launcher = {"launcher": "horovodrun-mpi"}
    plan = planned(framework="horovod", batch=launcher, environment=environment(3, each=resources(cpu=8)))
    assert words(plan) == ["horovodrun", "--mpi", "-np", "4", '--hostfile "$HPCDIST_HOSTFILE"', *WRAPPED]
    assert plan.launch.rank_variables == MPIRUN.rank_variables


def test_options_of_the_site() -> None:
    options = {"horovodrun": {"args": ["--verbose"]}}
    machine = site(scheduler="local", launcher="horovodrun", launchers=options)
    found = planned(machine, framework="horovod").words[5]
    assert found == Word(text="--verbose", origin=Origin("site", "x", "launchers.horovodrun.args"))
