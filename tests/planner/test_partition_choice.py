from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import PlanError
from hpcdist.base.units import Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Origin
from hpcdist.planner.launcher_choice import launch_request
from hpcdist.planner.partition_choice import select
from hpcdist.site.model import Site
from tests.experiments import environment, experiment, resources, where
from tests.sites import shipped_site, site
from tests.wording import Wording

MACHINE: dict[str, Any] = {
    "node_types": {
        "a100": {"cpus": 16, "memory": 64000, "gpus": 4, "gpu_type": "a100"},
        "v100": {"cpus": 16, "memory": 32000, "gpus": 2, "gpu_type": "v100"},
        "cpu": {"cpus": 32, "memory": 128000, "gpus": 0},
        "small": {"cpus": 1, "memory": 128000, "gpus": 0},
    },
    "partitions": {
        "a100": {"nodes": {"a100": 2}, "max_walltime": "01:00:00"},
        "v100": {"nodes": {"v100": 8}, "max_walltime": "12:00:00"},
        "cpu": {"nodes": {"cpu": 4}},
    },
    "default_partition": "v100",
}
SITE = site(**MACHINE)


def selected(
    exp: Experiment, machine: Site = SITE, *, walltime: str | None = None, spread: bool = False
) -> Placement:
    asked = launch_request(exp)
    asked = asked._replace(topology=replace(asked.topology, spread=spread))
    return select(exp, machine, Walltime.parse(walltime) if walltime else None, where, asked)


def test_a_partition_that_the_file_lacks_is_the_schedulers_to_judge() -> None:
    placement = selected(
        experiment(framework="horovod", environment=environment(2), batch={"partition": "cup"})
    )
    assert [(group.partition, group.nodes, group.memory) for group in placement.groups] == [("cup", 3, None)]
    counted = experiment(
        framework="horovod", environment=environment(3), batch={"partition": "cup", "nodes": 2}
    )
    assert shape(selected(counted)) == [("cup", 2, 4)]


def shape(placement: Placement) -> list[tuple[str | None, int, int]]:
    return [(group.partition, group.nodes, group.tasks) for group in placement.groups]


def problems(exp: Experiment, machine: Site = SITE, *, walltime: str | None = None) -> list[str]:
    with pytest.raises(PlanError) as caught:
        selected(exp, machine, walltime=walltime)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("each", "workers", "walltime", "groups"),
    [
        (resources(cpu=1), 3, None, [("v100", 1, 4)]),  # the default partition, also without GPUs
        (resources(cpu=1, gpu=2), 3, None, [("v100", 4, 4)]),
        (resources(cpu=1, gpu=4), 1, None, [("a100", 2, 2)]),  # only there
        (resources(cpu=20), 1, None, [("cpu", 2, 2)]),
        (resources(cpu=1, gpu=1), 15, None, [("v100", 8, 16)]),
        (resources(cpu=8), 9, "13h", [("cpu", 3, 10)]),
        (resources(cpu=1, memory=60000), 1, None, [("a100", 2, 2)]),
        (resources(cpu=1, memory=60000), 3, None, [("cpu", 2, 4)]),  # too many for the two of a100
        (resources(cpu=1, memory=60000), 1, "2h", [("cpu", 1, 2)]),  # too long for a100
        (resources(cpu=1), 1, "13h", [("cpu", 1, 2)]),
    ],
)  # fmt: skip
def test_the_first_partition_that_takes_everything(
    each: dict[str, Any], workers: int, walltime: str | None, groups: list[tuple[str, int, int]]
) -> None:
    exp = experiment(framework="pytorch", environment=environment(workers, each=each))
    assert shape(selected(exp, walltime=walltime)) == groups


@pytest.mark.parametrize(
    ("each", "batch", "chosen"),
    [
        (resources(cpu=1), {}, ("cpu", "the default partition of jobs without GPUs")),
        (resources(cpu=1, gpu=1), {}, ("v100", "the default partition")),
        (resources(cpu=1), {"nodes": 8}, ("v100", "the default partition")),  # too many for that of CPUs
        (resources(cpu=1), {"partition": "a100"}, ("a100", "named by exp.yml batch.partition")),
    ],
)
def test_jobs_without_gpus_have_a_default_partition_of_their_own(
    each: dict[str, Any], batch: dict[str, Any], chosen: tuple[str, str]
) -> None:
    machine = site(**MACHINE | {"default_cpu_partition": "cpu"})
    exp = experiment(framework="mpi", environment=environment(7, each=each), batch=batch)
    (group,) = selected(exp, machine).groups
    assert (group.partition, group.reason) == chosen


def test_the_partition_of_the_file_counts() -> None:
    exp = experiment(
        batch={"partition": "cpu", "constraint": "fast"}, environment=environment(each=resources(cpu=1))
    )
    (group,) = selected(exp).groups
    assert (group.partition, group.node_type, group.constraint) == ("cpu", "cpu", "fast")


def test_replicas_that_no_partition_takes_together_go_to_several() -> None:
    exp = experiment(
        framework="pytorch",
        environment={
            "resources": resources(cpu=20),
            "replicas": {"n_workers": 4, "default_worker": {"resources": resources(cpu=4, gpu=2)}},
        },
    )
    placement = selected(exp)
    assert shape(placement) == [("cpu", 1, 1), ("v100", 4, 4)]
    assert [row.origin for row in placement.rows] == [
        Origin("place", "exp.yml environment.resources"),
        Origin("place", "exp.yml environment.replicas.default_worker.resources"),
    ]


def test_one_node_selector_a_replica() -> None:
    exp = experiment(
        framework="pytorch",
        environment={
            "node_selector": {"partition": "cpu"},
            "replicas": {"n_workers": 1, "default_worker": {"node_selector": {"constraint": "nvlink"}}},
        },
    )
    groups = [(group.partition, group.constraint) for group in selected(exp).groups]
    assert groups == [("cpu", None), ("v100", "nvlink")]


def test_node_selectors_are_defined_by_the_site() -> None:
    selectors = {"disk": {"ssd": {"partition": "a100", "constraint": "nvme"}, "hdd": {"constraint": "slow"}}}
    machine = site(**MACHINE, node_selectors=selectors)
    for disk, chosen in (("ssd", ("a100", "nvme")), ("hdd", ("v100", "slow")), ("tape", ("v100", None))):
        (group,) = selected(experiment(environment={"node_selector": {"disk": disk}}), machine).groups
        assert (group.partition, group.constraint) == chosen


def test_constraints_of_partition_node_type_and_file_hold_together() -> None:
    machine = site(
        node_types={"big": {"cpus": 8, "constraint": "big"}, "small": {"cpus": 4, "constraint": "small"}},
        partitions={"all": {"nodes": {"small": 1, "big": 1}, "constraint": "ib"}},
    )
    exp = experiment(batch={"constraint": "rack1"}, environment=environment(each=resources(cpu=8)))
    assert [group.constraint for group in selected(exp, machine).groups] == ["ib&big&rack1"]


KINDS: dict[str, Any] = {
    "node_types": {
        "a100": {"cpus": 16, "gpus": 4, "constraint": "a100"},
        "v100": {"cpus": 16, "gpus": 2, "constraint": "volta"},
        "cpu": {"cpus": 32, "constraint": "cpuonly"},
        "fat": {"cpus": 64, "constraint": "fat"},
    },
    "partitions": {
        "gpu": {"nodes": {"a100": 4, "v100": 4}, "constraint": "ib"},
        "mixed": {"nodes": {"a100": 2, "cpu": 4}},
        "several": {"nodes": {"a100": 2, "cpu": 4, "fat": 2}},
    },
    "node_selectors": {"gpu": {"v100": {"constraint": "volta"}}, "disk": {"ssd": {"constraint": "nvme"}}},
}
ONE_GPU = resources(cpu=1, gpu=1)


def kinds(exp: Experiment) -> list[tuple[str | None, str | None]]:
    return [(group.node_type, group.constraint) for group in selected(exp, site(**KINDS)).groups]


@pytest.mark.parametrize(
    ("batch", "selector", "chosen"),
    [
        ("", {}, ("a100", "ib&a100")),
        ("volta", {}, ("v100", "ib&volta")),  # the kind that it names
        ("v100", {}, ("v100", "ib&volta&v100")),  # by the name that the site gives it
        ("a100&rack1", {}, ("a100", "ib&a100&rack1")),
        ("rack1", {}, ("a100", "ib&a100&rack1")),
        ("a100", {"constraint": "volta"}, ("v100", "ib&volta")),  # in place of the job's
        ("a100", {"gpu": "v100"}, ("v100", "ib&volta")),
        ("a100", {"disk": "ssd"}, ("a100", "ib&a100&nvme")),  # what stands in no other's place
        ("rack1", {"gpu": "v100"}, ("v100", "ib&volta&rack1")),
        ("a100|volta", {}, (None, "ib&(a100|volta)")),  # the scheduler's choice
        ("", {"constraint": "[a100|volta]"}, (None, "ib&[a100|volta]")),
    ],
)
def test_a_replicas_own_constraint_is_in_place_of_the_jobs(
    batch: str, selector: dict[str, str], chosen: tuple[str | None, str]
) -> None:
    section = {"resources": ONE_GPU, "node_selector": selector}
    exp = experiment(batch={"constraint": batch} if batch else {}, environment=section)
    assert kinds(exp) == [chosen]


def test_each_replica_has_its_own_kind() -> None:
    worker = {"resources": ONE_GPU, "node_selector": {"constraint": "volta"}}
    exp = experiment(
        framework="pytorch",
        batch={"constraint": "a100"},
        environment={"resources": ONE_GPU, "replicas": {"n_workers": 2, "default_worker": worker}},
    )
    assert kinds(exp) == [("a100", "ib&a100"), ("v100", "ib&volta")]


@pytest.mark.parametrize(
    ("partition", "cpus", "chosen"),
    [
        ("gpu", 1, (None, "ib")),  # not one kind of GPU while the other's nodes are idle
        ("mixed", 1, ("cpu", "cpuonly")),  # GPUs are left to those who need them
        ("mixed", 20, ("cpu", "cpuonly")),
        ("several", 1, (None, None)),
        ("several", 20, ("cpu", "cpuonly")),
    ],
)
def test_a_job_without_gpus_asks_for_no_kind_of_them(
    partition: str, cpus: int, chosen: tuple[str | None, str | None]
) -> None:
    each = environment(1, each=resources(cpu=cpus))
    assert kinds(experiment(framework="mpi", batch={"partition": partition}, environment=each)) == [chosen]


def test_a_master_without_gpus_goes_where_its_workers_go() -> None:
    section = {
        "resources": resources(cpu=1),
        "replicas": {"n_workers": 1, "default_worker": {"resources": ONE_GPU}},
    }
    assert kinds(experiment(framework="mpi", environment=section)) == [("a100", "ib&a100")]


def test_any_node_of_a_partition_where_no_type_has_enough() -> None:
    exp = experiment(framework="pytorch", environment=environment(3, each=resources(cpu=1, gpu=2)))
    testbed = shipped_site("testbed")
    assert shape(selected(exp, testbed)) == [("gpu", 2, 4)]
    more = experiment(framework="pytorch", environment=environment(7, each=resources(cpu=1, gpu=1)))
    assert shape(selected(more, testbed)) == [("gpu", 2, 8)]
    mixed = experiment(framework="pytorch", environment=environment(3, each=resources(cpu=16, gpu=1)))
    (group,) = selected(mixed, testbed).groups
    assert (group.partition, group.node_type, group.gpu_type, group.nodes) == ("gpu", None, None, 4)


def test_the_schedulers_name_of_a_partition() -> None:
    partitions = {
        "short": {"nodes": {"n": 2}, "submit_as": "batch"},
        "none": {"nodes": {"n": 3}, "submit_as": ""},
    }
    machine = site(node_types={"n": {"cpus": 4}}, partitions=partitions)
    for workers, names in ((1, ("batch", "short")), (2, (None, "none"))):
        exp = experiment(framework="mpi", environment=environment(workers, each=resources(cpu=4)))
        (group,) = selected(exp, machine).groups
        assert (group.partition, group.site_partition) == names


def test_a_site_without_partitions_takes_any() -> None:
    exp = experiment(framework="mpi", batch={"partition": "mine"}, environment=environment(2))
    assert shape(selected(exp, site())) == [("mine", 3, 3)]
    assert shape(selected(experiment(), site())) == [(None, 1, 1)]


def test_spread() -> None:
    exp = experiment(framework="pytorch", environment=environment(3, each=resources(cpu=1)))
    assert shape(selected(exp, spread=True)) == [("v100", 4, 4)]


def test_walltime_by_number_of_nodes(wording: Wording) -> None:
    limits = [{"nodes": 1, "walltime": "1h"}, {"nodes": 2, "walltime": "2h"}, {"nodes": 9, "walltime": "3h"}]
    partitions = {
        "batch": {"nodes": {"n": 9}, "limits": limits},
        "long": {"nodes": {"n": 1}, "max_walltime": "24h"},
    }
    machine = site(node_types={"n": {"cpus": 1}}, partitions=partitions)

    def of(nodes: int) -> Experiment:
        return experiment(framework="mpi", environment=environment(nodes - 1, each=resources(cpu=1)))

    assert shape(selected(of(3), machine, walltime="3h")) == [("batch", 3, 3)]
    assert shape(selected(of(1), machine, walltime="2h")) == [("long", 1, 1)]
    wording(problems(of(2), machine, walltime="3h"))
    wording(problems(of(9), machine, walltime="25h"))


@pytest.mark.parametrize(
    ("data", "walltime"),
    [
        ({"environment": environment(each=resources(cpu=1, gpu=8))}, None),
        ({"batch": {"partition": "v100"}, "environment": environment(each=resources(cpu=17, gpu=4))}, None),
        (
            {"batch": {"partition": "v100"}, "environment": environment(each=resources(cpu=1, memory="60G"))},
            None,
        ),
        ({"framework": "pytorch", "environment": environment(32, each=resources(cpu=16))}, None),
        (
            {
                "framework": "pytorch",
                "batch": {"partition": "cpu"},
                "environment": environment(9, each=resources(cpu=16)),
            },
            None,
        ),
        ({"batch": {"partition": "a100"}}, "2h"),
        (
            {
                "framework": "pytorch",
                "environment": environment(each=resources(gpu=2), processes_per_replica=3),
            },
            None,
        ),
    ],
    ids=[
        "too many GPUs",
        "too many CPUs and GPUs",
        "too much memory",
        "too many nodes",
        "too many nodes of a partition",
        "too long",
        "GPUs that processes cannot share evenly",
    ],
)
def test_why_a_site_cannot_take_it(data: dict[str, Any], walltime: str | None, wording: Wording) -> None:
    wording(problems(experiment(**data), walltime=walltime))


@pytest.mark.parametrize(
    ("master", "worker", "cpus_and_memory"),
    [
        # Who says nothing of memory gets the share of the node that belongs to its CPUs, if others do.
        (resources(cpu=4, memory=1000), resources(cpu=8), [(4, 1000), (8, 15000)]),
        (resources(cpu=4), resources(cpu=8), [(4, None), (8, None)]),
    ],
)
def test_memory(
    master: dict[str, Any], worker: dict[str, Any], cpus_and_memory: list[tuple[int, int | None]]
) -> None:
    replicas = {"n_workers": 1, "default_worker": {"resources": worker}}
    placement = selected(experiment(framework="mpi", environment={"resources": master, "replicas": replicas}))
    assert [(len(task.cpus), task.memory) for task in placement.tasks] == cpus_and_memory


@pytest.mark.parametrize(
    ("master", "worker", "cpus_and_memory"),
    [
        (resources(cpu=4), resources(cpu=8), [(4, 15000), (8, 30000)]),
        (resources(cpu=4, memory=1000), resources(cpu=8), [(4, 1000), (8, 30000)]),
    ],
)
def test_memory_where_the_site_wants_each_to_ask_for_its_share(
    master: dict[str, Any], worker: dict[str, Any], cpus_and_memory: list[tuple[int, int | None]]
) -> None:
    replicas = {"n_workers": 1, "default_worker": {"resources": worker}}
    exp = experiment(framework="mpi", environment={"resources": master, "replicas": replicas})
    placement = selected(exp, site(**MACHINE | {"default_partition": "cpu", "request_memory": "share"}))
    assert [(len(task.cpus), task.memory) for task in placement.tasks] == cpus_and_memory


def test_unknown_memory_is_not_shared() -> None:
    machine = site(
        node_types={"n": {"cpus": 4}}, partitions={"p": {"nodes": {"n": 1}}}, request_memory="share"
    )
    assert [task.memory for task in selected(experiment(), machine).tasks] == [None]


SIZES: dict[str, Any] = {
    "node_types": {"n": {"cpus": 1}},
    "partitions": {"few": {"nodes": {"n": 2}}, "untold": {"nodes": {"n": None}}},
}


def test_too_large_job_goes_to_a_partition_of_unknown_size_only_on_request(wording: Wording) -> None:
    exp = {"framework": "mpi", "environment": environment(4, each=resources(cpu=1))}
    wording(problems(experiment(**exp), site(**SIZES)))
    assert shape(selected(experiment(**exp, batch={"partition": "untold"}), site(**SIZES))) == [
        ("untold", 5, 5)
    ]


def test_too_long_job_goes_to_a_partition_of_unknown_size() -> None:
    partitions = {"few": {"nodes": {"n": 2}, "max_walltime": "1h"}, "untold": {"nodes": {"n": None}}}
    placement = selected(experiment(), site(**SIZES | {"partitions": partitions}), walltime="2h")
    assert shape(placement) == [("untold", 1, 1)]


def test_a_site_that_does_not_say_how_many_gpus_its_nodes_have(wording: Wording) -> None:
    untold = site(node_types={"n": {"gpus": "unknown"}}, partitions={"gpu": {"nodes": {"n": 56}}})
    wording(problems(experiment(environment={"resources": resources(gpu=1)}), untold))
    assert shape(selected(experiment(environment={"resources": resources(cpu=4)}), untold)) == [("gpu", 1, 1)]


def test_memory_that_only_some_ask_for_where_nodes_are_unknown() -> None:
    replicas = {"n_workers": 1, "default_worker": {"resources": resources(cpu=1)}}
    exp = experiment(
        framework="mpi", environment={"resources": resources(cpu=1, memory=3000), "replicas": replicas}
    )
    placement = selected(exp, site())
    assert [(group.nodes, group.memory) for group in placement.groups] == [(2, None)]
    assert [row.memory for row in placement.rows] == [3000, None]


def test_memory_of_some_is_requested_on_nodes_of_their_own() -> None:
    node_types = {"gpu": {"cpus": 8, "gpus": 4}, "cpu": {"cpus": 8}}
    machine = site(node_types=node_types, partitions={name: {"nodes": {name: 8}} for name in node_types})
    gpu, memory = {"resources": resources(gpu=1)}, {"resources": resources(cpu=1, memory=3000)}
    replicas = {"n_workers": 1, "default_worker": gpu, "n_ps": 1, "default_ps": memory}
    placement = selected(
        experiment(framework="tensorflow", environment=gpu | {"replicas": replicas}), machine
    )
    assert [(group.site_partition, group.memory) for group in placement.groups] == [
        ("gpu", None),
        ("cpu", 3000),
    ]


@pytest.mark.parametrize(
    ("each", "defaults", "cpus"),
    [
        (resources(gpu=1), {}, 8),  # the GPU's share of the node
        (resources(gpu=1), {"cpus": 3}, 3),
        (resources(gpu=1, cpu=5), {"cpus": 3}, 5),
        (resources(), {}, 1),
        (resources(), {"cpus": 3}, 3),
    ],
)
def test_cpus_that_the_file_does_not_name(each: dict[str, Any], defaults: dict[str, int], cpus: int) -> None:
    machine = site(**MACHINE, replica=defaults)
    (task,) = selected(experiment(environment=environment(each=each)), machine).tasks
    assert len(task.cpus) == cpus


def test_horovod_shares_a_replica_among_a_task_for_each_gpu() -> None:
    each = resources(cpu=8, gpu=4, memory=4000)
    exp = experiment(framework="horovod", environment=environment(1, each=each))
    tasks = list(selected(exp).tasks)
    assert [(task.role, task.node, task.gpus, len(task.cpus), task.memory) for task in tasks] == [
        (role, node, (gpu,), 2, 1000) for node, role in enumerate(("master", "worker")) for gpu in range(4)
    ]


# --- Parameter servers


def served(**more: Any) -> dict[str, Any]:
    """Return an environment of a master, two workers with a GPU each, and two parameter servers."""
    worker = {"resources": resources(cpu=2, gpu=1)}
    replicas = {
        "n_workers": 2,
        "default_worker": worker,
        "n_ps": 2,
        "default_ps": {"resources": resources(cpu=2)},
    }
    return {"resources": resources(cpu=2, gpu=1), "replicas": replicas | more}


def tensorflow(
    machine: Site = SITE, *, batch: dict[str, str] | None = None, **more: Any
) -> list[tuple[str, str]]:
    """Return which replicas are in which partition, in rank order."""
    exp = experiment(framework="tensorflow", batch=batch or {}, environment=served(**more))
    placement = selected(exp, machine)
    return [
        (str(group.site_partition), f"{task.role} {task.index}")
        for group in placement.groups
        for task in placement.tasks
        if group.node <= task.node < group.node + group.nodes
    ]


GPU_NODES = [("v100", "master 0"), ("v100", "worker 0"), ("v100", "worker 1")]
APART = [*GPU_NODES, ("cpu", "ps 0"), ("cpu", "ps 1")]
BESIDE = [*GPU_NODES, ("v100", "ps 0"), ("v100", "ps 1")]


def with_cpu_partition(**partition: Any) -> Site:
    """Return the machine whose partition without GPUs is this one."""
    return site(
        **MACHINE | {"partitions": MACHINE["partitions"] | {"cpu": {"nodes": {"cpu": 4}} | partition}}
    )


def without_cpu_nodes() -> Site:
    partitions = {name: value for name, value in MACHINE["partitions"].items() if name != "cpu"}
    return site(**MACHINE | {"partitions": partitions})


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, APART),
        ({"ps_on": "cpu_nodes"}, APART),
        ({"ps_on": "worker_nodes"}, BESIDE),
        ({"evaluator": {}}, [*APART, ("cpu", "evaluator 0")]),
        ({"evaluator": {"resources": resources(gpu=1)}}, [*APART, ("v100", "evaluator 0")]),
        ({"n_ps": 0, "evaluator": {}}, [*GPU_NODES, ("cpu", "evaluator 0")]),
        ({"default_ps": {"resources": resources(gpu=1)}}, BESIDE),  # they compute as well
    ],
)
def test_parameter_servers_leave_gpus_to_the_workers(
    more: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert tensorflow(**more) == found


@pytest.mark.parametrize(
    ("machine", "batch"),
    [
        (without_cpu_nodes(), {}),
        (with_cpu_partition(qos="other"), {}),  # a job has one QOS
        (with_cpu_partition(nodes={"small": 4}), {}),
        (SITE, {"partition": "v100"}),
    ],
    ids=["no such nodes", "another QOS", "too small nodes", "a partition that is named"],
)
def test_where_no_other_nodes_can_take_them_they_sit_beside_the_workers(
    machine: Site, batch: dict[str, str], wording: Wording
) -> None:
    assert tensorflow(machine, batch=batch) == BESIDE
    with pytest.raises(PlanError) as caught:
        tensorflow(machine, batch=batch, ps_on="cpu_nodes")
    wording(str(caught.value))


def test_a_server_that_needs_gpus_cannot_go_where_there_are_none(wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        tensorflow(ps_on="cpu_nodes", default_ps={"resources": resources(gpu=1)})
    wording(str(caught.value))


def test_other_nodes_that_are_too_few_are_left_alone(wording: Wording) -> None:
    machine = with_cpu_partition(nodes={"cpu": 1})
    many: dict[str, Any] = {"n_ps": 9, "default_ps": {"resources": resources(cpu=4)}}
    assert {partition for partition, _ in tensorflow(machine, **many)} == {"v100"}
    with pytest.raises(PlanError) as caught:
        tensorflow(machine, **many, ps_on="cpu_nodes")
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("ps_on", "groups"),
    [
        (None, [("v100", 1, 4)]),  # nobody's GPUs to be left to
        ("worker_nodes", [("v100", 1, 4)]),
        ("cpu_nodes", [("v100", 1, 3), ("cpu", 1, 1)]),
    ],
)
def test_where_no_replica_needs_gpus(ps_on: str | None, groups: list[tuple[str, int, int]]) -> None:
    section = environment(2, ps=1, each=resources(cpu=1))
    section["replicas"]["ps_on"] = ps_on
    assert shape(selected(experiment(framework="tensorflow", environment=section))) == groups


# --- One task a node


def test_a_task_a_node_has_all_that_its_replicas_have() -> None:
    section = environment(2, each=resources(cpu=4, gpu=2, memory=8000))
    exp = experiment(framework="pytorch", pytorch={"launch": "torchrun"}, environment=section)
    placement = selected(exp, shipped_site("testbed"))
    assert [
        (task.role, task.gpus, len(task.cpus), task.memory, task.processes) for task in placement.tasks
    ] == [
        ("master", (0, 1, 2, 3), 8, 16000, 4),
        ("worker", (0, 1), 4, 8000, 2),
    ]


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [("V100", ["v100"]), ("a100-80g", ["a100"]), ("K80", ["v100"]), ("", ["v100"])],
)
def test_a_gpu_type_is_preferred(kind: str, chosen: list[str]) -> None:
    selector = {"gpu_type": kind} if kind else {}
    exp = experiment(environment={"resources": ONE_GPU, "node_selector": selector})
    (group,) = selected(exp).groups
    assert [group.node_type] == chosen
    asked = bool(kind) and kind.lower().startswith(chosen[0])
    assert group.reason == (
        f"it has {kind} GPUs, as the node selector asks" if asked else "the default partition"
    )


def test_each_replica_has_its_own_gpu_type() -> None:
    worker = {"resources": ONE_GPU, "node_selector": {"gpu_type": "v100"}}
    exp = experiment(
        framework="pytorch",
        environment={
            "resources": ONE_GPU,
            "node_selector": {"gpu_type": "A100"},
            "replicas": {"n_workers": 2, "default_worker": worker},
        },
    )
    assert kinds(exp) == [("a100", "ib&a100"), ("v100", "ib&volta")]


def test_a_gpu_type_of_which_there_are_too_few_is_not_used() -> None:
    section = {"resources": resources(cpu=1, gpu=4), "node_selector": {"gpu_type": "a100"}}
    assert shape(selected(experiment(environment=section))) == [("a100", 1, 1)]
    section = {
        **section,
        "resources": ONE_GPU,
        "replicas": {
            "n_workers": 9,
            "default_worker": {"resources": ONE_GPU, "node_selector": {"gpu_type": "a100"}},
        },
    }
    exp = experiment(framework="pytorch", environment=section)
    assert {group.node_type for group in selected(exp, site(**MACHINE)).groups} == {"v100"}


def test_a_named_partition_without_the_gpu_type_is_used() -> None:
    section = {"resources": ONE_GPU, "node_selector": {"gpu_type": "a100"}}
    exp = experiment(environment=section, batch={"partition": "v100"})
    assert [group.node_type for group in selected(exp).groups] == ["v100"]
