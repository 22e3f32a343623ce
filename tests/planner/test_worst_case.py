"""What a job takes and is charged at most."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist.base.units import Walltime
from hpcdist.planner.worst_case import Cost, Rate, Sum, number, worst_case
from hpcdist.site.model import Site
from tests.experiments import environment, experiment, resources
from tests.plans import planned
from tests.sites import shipped_site, site

NODES: dict[str, Any] = {
    "node_types": {"n": {"cpus": 64, "gpus": 4, "memory": "256G"}},
    "partitions": {"p": {"nodes": {"n": 8}}},
}
TWO: dict[str, Any] = {"environment": environment(1, each=resources(cpu=8, gpu=2)), "framework": "horovod"}


def cost(machine: Site, **data: Any) -> Cost | None:
    """Return the cost of an experiment of these keys, with a walltime of two hours unless they have one."""
    keys = TWO | data
    keys["batch"] = {"walltime": "2h"} | keys.get("batch", {})
    return worst_case(planned(machine, **keys), experiment(**keys), machine)


def test_a_job_takes_what_it_has_for_its_time_limit() -> None:
    found = cost(site(**NODES))
    assert found == Cost(nodes=1, gpus=4, cpus=16, seconds=7200)
    assert (found.gpu_hours, found.node_hours) == (8, 2)
    assert found.summary == "at most 8 GPU-hours, 2 node-hours (1 node with 4 GPUs for 02:00:00)"


def test_of_whole_nodes_it_takes_all() -> None:
    one = {"environment": environment(each=resources(cpu=1, gpu=1)), "framework": None}
    assert cost(site(**NODES), **one) == Cost(nodes=1, gpus=1, cpus=1, seconds=7200)
    assert cost(site(**NODES, whole_nodes=True), **one) == Cost(nodes=1, gpus=4, cpus=64, seconds=7200)
    exclusive = {"batch": {"exclusive": True}}
    assert cost(site(**NODES), **one, **exclusive) == Cost(nodes=1, gpus=4, cpus=64, seconds=7200)


@pytest.mark.parametrize(
    ("data", "elements"),
    [
        ({"batch": {"array": "0-7%2"}}, 8),
        ({"hptuning": {"matrix": {"lr": {"values": [1, 2, 3]}}}}, 3),
        (
            {
                "hptuning": {
                    "matrix": {"lr": {"uniform": [0, 1]}},
                    "bo": {"n_initial_trials": 3, "n_iterations": 7, "metric": {"name": "loss"}},
                }
            },
            10,
        ),
        (
            {
                "hptuning": {
                    "matrix": {"lr": {"uniform": [0, 1]}},
                    "hyperband": {
                        "max_iterations": 9,
                        "eta": 3,
                        "resource": {"name": "epochs"},
                        "metric": {"name": "loss"},
                    },
                }
            },
            22,
        ),
    ],
)
def test_elements_and_trials_are_counted_also_those_of_later_generations(
    data: dict[str, Any], elements: int
) -> None:
    found = cost(site(**NODES), **data)
    assert found == Cost(nodes=1, gpus=4, cpus=16, seconds=7200, elements=elements)


@pytest.mark.parametrize(
    ("algorithm", "at_once", "elements"),
    [
        ({"n_initial_trials": 6, "n_iterations": 9}, 4, 4),  # 4 at once on one node: 6, 4, 4 and 1
        ({"n_initial_trials": 9, "n_iterations": 10}, 8, 5),  # two nodes each, and one for the last two
    ],
)
def test_of_a_packed_search_the_nodes_of_all_generations_count(
    algorithm: dict[str, Any], at_once: int, elements: int
) -> None:
    search = {
        "framework": None,
        "environment": environment(each=resources(cpu=1, gpu=1)),
        "hptuning": {
            "concurrency": at_once,
            "matrix": {"lr": {"uniform": [0, 1]}},
            "bo": {**algorithm, "metric": {"name": "loss"}},
        },
        "batch": {"pack": True},
    }
    assert cost(site(**NODES), **search) == Cost(nodes=1, gpus=4, cpus=4, seconds=7200, elements=elements)


def test_each_attempt_counts_that_gets_nodes_again() -> None:
    restart = {"environment": TWO["environment"] | {"restart": {"max": 2}}}
    again = {"environment": TWO["environment"] | {"max_restarts": 2}}
    never = {"environment": TWO["environment"] | {"restart": {"on": []}}}
    assert cost(site(**NODES), **restart) == Cost(nodes=1, gpus=4, cpus=16, seconds=7200, attempts=3)
    assert cost(site(**NODES), **never) == Cost(nodes=1, gpus=4, cpus=16, seconds=7200)
    assert cost(site(**NODES), **again) == Cost(nodes=1, gpus=4, cpus=16, seconds=7200)


def test_a_budget_limits_what_a_search_takes() -> None:
    search = {"hptuning": {"matrix": {"lr": {"values": [1, 2, 3]}}}, "batch": {"budget": 12}}
    found = cost(site(**NODES), **search)
    assert found is not None
    assert (found.gpu_hours, found.node_hours) == (12, 3)
    assert found.arithmetic == "1 node with 4 GPUs for 02:00:00, 3 of them, within the budget of 12"


def test_nodes_beside_the_tasks_count_too() -> None:
    spare = {"environment": TWO["environment"] | {"restart": {"max": 0, "spare_nodes": 1}}}
    assert cost(site(**NODES), **spare) == Cost(nodes=2, gpus=8, cpus=32, seconds=7200)


def test_without_a_walltime_the_limit_of_the_partition_applies() -> None:
    limited = site(**NODES | {"partitions": {"p": {"nodes": {"n": 8}, "max_walltime": "24h"}}})
    nothing = planned(limited, **TWO), experiment(**TWO), limited
    assert worst_case(*nothing) == Cost(nodes=1, gpus=4, cpus=16, seconds=86400)
    unlimited = site(**NODES)
    assert worst_case(planned(unlimited, **TWO), experiment(**TWO), unlimited) is None


def test_of_components_without_a_walltime_the_longest_limit_applies() -> None:
    partitions = {name: {"nodes": {"n": 8}, "max_walltime": time} for name, time in LIMITS.items()}
    machine = site(**NODES | {"partitions": partitions | {"r": {"nodes": {"n": 8}}}})
    plan = planned(machine, **TWO, batch={"partition": "p"})
    [group] = plan.placement.groups

    def of(*names: str) -> Cost | None:
        groups = tuple(replace(group, site_partition=name) for name in names)
        placed = replace(plan, placement=replace(plan.placement, groups=groups))
        return worst_case(placed, experiment(**TWO), machine)

    assert of("p", "q") == Cost(nodes=2, gpus=8, cpus=32, seconds=48 * 3600)
    assert of("p", "r") is None


LIMITS = {"p": "24h", "q": "48h"}


def test_a_machine_without_a_batch_system_charges_nothing() -> None:
    local = shipped_site("local")
    keys = {"batch": {"walltime": "2h"}}
    assert worst_case(planned(local, **keys), experiment(**keys), local) is None


def rate(charge: dict[str, Any], **data: Any) -> Rate | None:
    found = cost(site(**NODES, charge=charge), **data)
    assert found is not None
    return found.rate


def test_of_several_rates_the_one_that_comes_to_most_applies() -> None:
    by_gpu = {"unit": "SU", "per_gpu_hour": 0.5, "per_cpu_hour": 0.01}
    assert rate(by_gpu) == Rate(2, "SU", "0.5 SU per GPU-hour (site x: charge.per_gpu_hour)")
    by_memory = by_gpu | {"per_gib_hour": 1}
    memory = environment(1, each=resources(cpu=8, gpu=2, memory="10G"))
    assert rate(by_memory, environment=memory) == Rate(
        20, "SU", "1 SU per GiB-hour (site x: charge.per_gib_hour)"
    )


def test_a_qos_has_a_factor() -> None:
    charge = {"unit": "node-hours", "per_node_hour": 1, "qos": {"premium": 2}}
    assert rate(charge, batch={"qos": "premium"}) == Rate(
        2, "node-hours", "1 node-hours per node-hour, times 2 for QOS premium (site x: charge.per_node_hour)"
    )
    assert rate(charge, batch={"qos": "regular"}) == Rate(
        1, "node-hours", "1 node-hours per node-hour (site x: charge.per_node_hour)"
    )


def test_a_short_job_is_charged_for_the_least_time() -> None:
    charge = {"unit": "SU", "per_node_hour": 4, "min_walltime": "00:15:00"}
    found = [cost(site(**NODES, charge=charge), batch={"walltime": time}) for time in ("5m", "15m", "1h")]
    assert [each and each.charge for each in found] == [1, 1, 4]
    assert found[0] is not None
    assert found[0].charge_summary == (
        "at most 1 SU: 4 SU per node-hour, for 00:15:00 at least (site x: charge.per_node_hour)"
    )


def test_memory_that_is_charged_but_not_requested_is_not_taken_for_none() -> None:
    by_memory = {"unit": "SU", "per_gpu_hour": 1, "per_gib_hour": 1}
    assert rate(by_memory) is None
    assert rate({"unit": "SU", "per_gpu_hour": 1}) is not None


def test_a_node_type_has_its_own_charge_and_a_partition_a_factor() -> None:
    node = NODES["node_types"]["n"] | {"charge": {"unit": "GPU-hours", "per_gpu_hour": 1}}
    parts = {"p": {"nodes": {"n": 8}, "charge_factor": 0.5}}
    charge = {"unit": "SU", "per_node_hour": 9}
    machine = site(node_types={"n": node}, partitions=parts, charge=charge)
    found = cost(machine)
    assert found is not None
    assert found.rate == Rate(
        2.0,
        "GPU-hours",
        "1 GPU-hours per GPU-hour, times 0.5 for partition p (site x: node_types.n.charge.per_gpu_hour)",
    )


def test_a_partition_has_its_own_charge_with_its_source() -> None:
    lumi = shipped_site("lumi")
    keys = {"account": "project_465000001", "partition": "small-g"}
    found = cost(lumi, batch=keys)
    assert found is not None
    page = "https://docs.lumi-supercomputer.eu/runjobs/lumi_env/billing/ (undated)"
    assert found.charge_summary == (
        "at most 4 GPU-hours: 0.5 GPU-hours per GPU-hour "
        f"(site lumi: partitions.small-g.charge.per_gpu_hour; {page}, read 2026-11-23)"
    )
    assert (found.in_unit("gpu-hours"), found.in_unit("node-hours"), found.in_unit("SU")) == (4, 2, None)


@pytest.mark.parametrize(
    ("name", "batch", "has", "charge"),
    [
        ("frontier", {}, {"cpu": 7, "gpu": 1}, (2, "node-hours")),
        ("daint", {}, {"cpu": 1, "gpu": 1}, (2, "node-hours")),
        ("archer2", {"partition": "standard"}, {"cpu": 1}, (2, "CU")),
        ("roihu", {"partition": "small"}, {"cpu": 4, "memory": "16G"}, (12, "CPU BU")),  # CSC's own example
        ("betzy", {"partition": "accel"}, {"cpu": 1, "gpu": 1}, (32, "billing-hours")),
        ("derecho", {}, {"cpu": 8, "gpu": 1}, (8, "GPU-hours")),
        ("derecho", {}, {"cpu": 8}, (256, "core-hours")),
        ("derecho", {"partition": "develop"}, {"cpu": 8, "gpu": 1}, (2, "GPU-hours")),
        ("derecho", {"partition": "preempt"}, {"cpu": 8, "gpu": 1}, (pytest.approx(1.6), "GPU-hours")),
        ("casper", {}, {"cpu": 8, "gpu": 1}, (2, "GPU-hours")),
        ("delta", {"partition": "gpuA40x4", "account": "abcd-delta-gpu"}, {"cpu": 1, "gpu": 1}, (1, "SU")),
    ],
)
def test_two_hours_are_charged_as_the_pages_of_centres_have_it(
    name: str, batch: dict[str, Any], has: dict[str, Any], charge: tuple[float, str]
) -> None:
    keys = {"environment": environment(each=resources(**has)), "framework": None}
    found = cost(shipped_site(name), **keys, batch={"account": "project_1"} | batch)
    assert found is not None
    assert found.rate is not None
    assert (found.charge, found.rate.unit) == charge


def test_what_one_of_two_partitions_charges_is_not_known() -> None:
    parts = {"a": {"nodes": {"n": 8}, "charge": {"unit": "SU", "per_node_hour": 1}}, "b": {"nodes": {"n": 8}}}
    machine = site(**NODES | {"partitions": parts})
    on_two = TWO["environment"] | {"node_selector": {"partition": "a"}}
    on_two["replicas"] = {"n_workers": 1, "default_worker": {"node_selector": {"partition": "b"}}}
    found = cost(machine, environment=on_two)
    assert found is not None
    assert (found.nodes, found.rate) == (2, None)


@given(st.floats(min_value=0, max_value=1e12))
def test_numbers_are_short_and_near(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=1e-3)
    assert "e+" not in number(value)


@given(st.integers(1, 99), st.integers(0, 8), st.integers(1, 10**6), st.integers(1, 99), st.integers(1, 9))
def test_hours_grow_with_every_factor(
    nodes: int, gpus: int, seconds: int, elements: int, attempts: int
) -> None:
    found = Cost(nodes, nodes * gpus, 1, seconds, elements, attempts)
    assert found.node_hours == pytest.approx(nodes * seconds * elements * attempts / 3600)
    assert found.gpu_hours == pytest.approx(found.node_hours * gpus)
    assert str(Walltime(seconds)) in found.arithmetic


def test_several_jobs_together_cost_their_sum_and_are_charged_in_one_unit() -> None:
    one = Cost(nodes=2, gpus=8, cpus=64, seconds=3600, rate=Rate(6, "SU", "3 SU per node-hour"))
    other = one._replace(gpus=0, rate=Rate(3, "SU", "3 SU per node-hour"))
    assert Sum([(one, 2), (other, 1)]).lines == {
        "cost": "at most 16 GPU-hours, 6 node-hours in all",
        "charge": "at most 15 SU in all: 3 SU per node-hour",
    }
    assert Sum([(other._replace(rate=None), 3)]).lines == {"cost": "at most 6 node-hours in all"}
    assert [Sum([(one, 1), (None, 1)]).lines, Sum([]).lines] == [{}, {}]
