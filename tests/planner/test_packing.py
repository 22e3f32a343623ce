"""Packed searches: how many workers there are, what each has of its node, and why some searches cannot be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hpcdist.base import fields
from hpcdist.base.errors import PlanError
from hpcdist.experiment.batch import ArraySpec, IndexRange
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
from hpcdist.plan.model import Plan
from hpcdist.plan.trials import Pack
from hpcdist.plan.values import Origin
from hpcdist.site.model import Directives, Site
from tests.experiments import environment, resources
from tests.plans import LOCAL, TESTBED, changed, planned, warnings_of, words
from tests.sites import shipped_site, site_named
from tests.wording import Wording

WHOLE = changed(TESTBED, whole_nodes=True)
FLUX = shipped_site("flux")
POLARIS = site_named("polaris-like")
FRONTIER = shipped_site("frontier")
BY_SITE = Origin("site", "testbed", "whole_nodes")
BY_FILE = Origin("place", "exp.yml batch.pack")
"""The testbed has nodes of 16 CPUs and 4 GPUs; a replica has one CPU."""


def search(trials: int = 200, at_once: int | None = None) -> dict[str, Any]:
    return {"matrix": {"seed": {"range": [0, trials, 1]}}, "concurrency": at_once}


def of_trials(machine: Site, trials: int = 200, at_once: int | None = None, **data: Any) -> Plan:
    each = {"environment": {"resources": resources(gpu=1)}, "run": {"cmd": "x {{ seed }}"}}
    return planned(machine, **(each | data), hptuning=search(trials, at_once))


def pack_of(plan: Plan) -> Pack | None:
    assert plan.sweep is not None
    return plan.sweep.pack


def refused(machine: Site, **data: Any) -> str:
    with pytest.raises(PlanError) as caught:
        of_trials(machine, **data)
    return str(caught.value)


def test_trials_smaller_than_whole_nodes_are_packed() -> None:
    plan = of_trials(WHOLE, at_once=5)
    row, group = plan.placement.rows[0], plan.placement.groups[0]
    assert pack_of(plan) == Pack(workers=5, nodes=2, per_node=4, origin=BY_SITE)
    assert plan.request.array == ArraySpec((IndexRange(1, 2),))
    assert (row.tasks, row.cpus, row.gpus, group.cpus, group.gpus) == (4, 1, 1, 4, 4)
    assert words(plan)[:5] == ["srun", "--nodes=1", "--ntasks=4", "--ntasks-per-node=4", "--cpus-per-task=1"]
    assert (plan.rendezvous.ports, plan.launch.mpi, plan.gpus.visibility) == (64, "none", "task")
    assert plan.summary == "200 trials, 5 at once by srun, 2 nodes, 8 GPUs"


def test_without_a_limit_every_trial_has_a_worker() -> None:
    assert pack_of(of_trials(WHOLE)) == Pack(workers=200, nodes=50, per_node=4, origin=BY_SITE)
    assert pack_of(of_trials(WHOLE, at_once=1)) == Pack(workers=1, nodes=1, per_node=1, origin=BY_SITE)


def test_a_walltime_for_several_trials_in_a_row_warns_unless_packing_is_asked_for(wording: Wording) -> None:
    limit = {"walltime": "02:00:00"}
    for site in (WHOLE, FLUX):
        wording(text for text in warnings_of(of_trials(site, 200, 16, batch=limit)) if "packed" in text)
    quiet = (of_trials(WHOLE, batch=limit), of_trials(WHOLE, 200, 16, batch=limit | {"pack": True}))
    assert not any("packed" in text for plan in quiet for text in warnings_of(plan))


@pytest.mark.parametrize(
    "batch", [{"pack": False}, {"exclusive": True}, {"exclusive": False}], ids=["no", "alone", "shared"]
)
def test_the_file_decides_against_it(batch: dict[str, Any]) -> None:
    plan = of_trials(WHOLE, batch=batch)
    assert (pack_of(plan), plan.request.array) == (None, ArraySpec((IndexRange(1, 200),)))


def test_nodes_that_others_share_are_packed_where_the_file_asks_for_it() -> None:
    assert pack_of(of_trials(TESTBED, at_once=4)) is None
    plan = of_trials(TESTBED, at_once=4, batch={"pack": True})
    assert pack_of(plan) == Pack(workers=4, nodes=1, per_node=4, origin=BY_FILE)


def test_trials_that_fill_a_node_are_an_array_unless_the_file_asks_for_packing() -> None:
    whole = {"resources": resources(gpu=4)}
    assert pack_of(of_trials(WHOLE, environment=whole)) is None
    plan = of_trials(WHOLE, at_once=3, environment=whole, batch={"pack": True})
    assert pack_of(plan) == Pack(workers=3, nodes=3, per_node=1, origin=BY_FILE)


def test_trials_that_share_a_gpu_have_a_part_of_its_cpus() -> None:
    shared = {"resources": {"gpu": {"requests": 1, "trials_per_gpu": 2}, "cpu": {"requests": 2}}}
    plan = of_trials(TESTBED, at_once=4, environment=shared)
    row, group = plan.placement.rows[0], plan.placement.groups[0]
    assert pack_of(plan) == Pack(4, 1, 4, Origin("place", "exp.yml environment.resources.gpu.trials_per_gpu"))
    assert (row.cpus, row.tasks_per_gpu, group.cpus, group.gpus) == (2, 2, 8, 2)
    assert [task.gpus for task in plan.placement.tasks] == [(0,), (0,), (1,), (1,)]


def test_one_job_has_all_workers_where_there_are_no_arrays() -> None:
    plan = of_trials(FLUX, at_once=3)
    assert pack_of(plan) == Pack(3, 3, 1, Origin("rule", "flux has no arrays"))
    assert (plan.request.array, plan.placement.nodes, plan.placement.size) == (None, 3, 3)
    alone = of_trials(LOCAL, at_once=3, environment={"resources": resources(cpu=1)})
    assert pack_of(alone) == Pack(3, 1, 3, Origin("rule", "local has no arrays"))


def test_a_site_that_refuses_arrays_has_one_job_of_all_workers() -> None:
    plan = of_trials(shipped_site("frontera"), 9, 6, environment={}, batch={"account": "a", "walltime": "1h"})
    pack = pack_of(plan)
    assert pack is not None
    assert (pack.workers, plan.request.array, str(pack.origin)) == (
        6,
        None,
        "rule site frontera has no arrays",
    )


def test_no_job_has_more_gpus_than_its_partition_gives_one() -> None:
    def limited(machine: Site, name: str) -> Site:
        partition = msgspec.structs.replace(machine.partitions[name], max_gpus=3)
        return changed(machine, partitions={name: partition})

    plan = of_trials(limited(TESTBED, "gpu"), at_once=7, batch={"pack": True})
    assert pack_of(plan) == Pack(workers=7, nodes=3, per_node=3, origin=BY_FILE)
    frontera = limited(changed(TESTBED, directives=Directives(forbidden=("--array",))), "gpu")
    plan = of_trials(frontera, at_once=7)
    assert pack_of(plan) == Pack(3, 1, 3, Origin("rule", "site testbed has no arrays"))


def test_trials_without_a_limit_run_one_after_another_where_the_machine_has_none_either() -> None:
    plan = of_trials(LOCAL, environment={})
    assert pack_of(plan) == Pack(1, 1, 1, Origin("rule", "local has no arrays"))


def test_each_job_of_workers_takes_its_gpus_until_its_time_limit_from_the_budget() -> None:
    def costs(machine: Site) -> tuple[int | None, int | None]:
        sweep = of_trials(machine, at_once=8, batch={"budget": 10, "walltime": "1h", "pack": True}).sweep
        assert sweep is not None
        return sweep.budget, sweep.cost

    assert costs(TESTBED) == (36000, 4 * 3600)
    assert costs(FLUX) == (36000, 8 * 3600)


def test_torchrun_starts_the_processes_of_one_trial() -> None:
    plan = of_trials(
        WHOLE, at_once=2, framework="pytorch", pytorch={"launch": "torchrun"}, batch={"pack": True}
    )
    assert "--nnodes=1" in words(plan)
    assert (plan.placement.size, {row.processes for row in plan.placement.rows}) == (2, {1})


def test_what_cannot_be_packed_is_an_array_unless_the_file_asks_for_it(wording: Wording) -> None:
    several = {"framework": "horovod", "environment": environment(1, each=resources(gpu=1))}
    launch = {"run": {"cmd": "mpirun -np 1 x {{ seed }}"}}
    for data in (several, launch):
        assert pack_of(of_trials(WHOLE, **data)) is None
        wording(refused(WHOLE, **data, batch={"pack": True}))


def test_where_there_are_neither_arrays_nor_packing_the_refusal_says_why(wording: Wording) -> None:
    several = {"framework": "horovod", "environment": environment(1, each=resources(gpu=1))}
    wording((refused(FLUX, **several), refused(FLUX, batch={"pack": False})))


def test_gpus_cannot_be_shared_by_trials_of_several_or_where_the_launcher_deals_them_out(
    wording: Wording,
) -> None:
    def sharing(gpus: int) -> dict[str, Any]:
        return {"resources": {"gpu": {"requests": gpus, "trials_per_gpu": 2}}}

    wide = {"resources": {"cpu": {"requests": 16}, "gpu": {"requests": 1, "trials_per_gpu": 2}}}
    wording(
        (
            refused(TESTBED, environment=sharing(2)),
            refused(FRONTIER, environment=sharing(1), batch={"account": "a"}),
            refused(TESTBED, environment=wide),
        )
    )


def test_only_the_trials_of_a_search_are_packed(wording: Wording) -> None:
    def of(**data: Any) -> list[str]:
        built, _ = fields.build(Experiment, {"run": {"cmd": "x"}} | data)
        assert built is not None
        return [str(problem) for problem in problems_of(built)]

    shares = {"resources": {"gpu": {"requests": 1, "trials_per_gpu": 2}}}
    zero = {"resources": {"gpu": {"requests": 1, "trials_per_gpu": 0}}}
    worker = {"replicas": {"n_workers": 1, "default_worker": shares}}
    assert of(batch={"pack": False}) == []
    wording(of(batch={"pack": True}, environment=shares))
    wording(of(hptuning=search(), batch={"pack": False}, environment=shares))
    wording(of(hptuning=search(), environment=zero))
    wording(of(framework="horovod", hptuning=search(), environment=worker))
