"""How the work of a plan grows: counted in calls, without a clock."""

from __future__ import annotations

import pytest

from hpcdist.experiment.model import Experiment
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from tests.calls import calls
from tests.experiments import environment, experiment, resources, where
from tests.sites import shipped_site, site

ENDLESS = site(node_types={"gpu": {"cpus": 64, "gpus": 4}}, partitions={"gpu": {"nodes": {"gpu": None}}})
SITES = [ENDLESS, *map(shipped_site, ("slurm", "pbs", "lsf", "flux", "sge"))]
ONE_GPU = resources(gpu=1)


def calls_of(exp: Experiment, machine: Site = ENDLESS) -> int:
    """Return how many calls it takes to make a plan and its script."""
    return calls(lambda: render(make_plan(exp, machine, where)))


@pytest.mark.parametrize("machine", SITES, ids=lambda machine: machine.name)
@pytest.mark.parametrize("framework", ["horovod", "pytorch", "tensorflow"])
def test_a_million_equal_tasks_take_as_much_as_a_hundred(framework: str, machine: Site) -> None:
    few, many = (
        experiment(framework=framework, environment=environment(tasks - 1, each=ONE_GPU))
        for tasks in (100, 1_000_000)
    )
    assert calls_of(many, machine) == pytest.approx(calls_of(few, machine), rel=0.01)


def different(count: int) -> Experiment:
    """Return an experiment of which every tenth worker needs other GPUs than its neighbours."""
    own = [{"index": 10 * at, "resources": resources(gpu=2)} for at in range(count)]
    replicas = {"n_workers": 10 * count, "default_worker": {"resources": ONE_GPU}, "worker": own}
    return experiment(framework="mpi", environment={"resources": ONE_GPU, "replicas": replicas})


@pytest.mark.extended
def test_twice_as_many_different_replicas_take_twice_as_much() -> None:
    assert calls_of(different(400)) / calls_of(different(200)) < 2.2
