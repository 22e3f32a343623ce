"""Sites whose nodes differ: what a job gets by the nodes, the framework and the partition that it has."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.planner.pools import pools
from tests.experiments import environment, resources
from tests.layers.containers.sites import IMAGE
from tests.plans import planned, words
from tests.sites import account_on, shipped_site, site
from tests.wording import Wording

NODES = {
    "a100": {"cpus": 8, "memory": "64G", "gpus": 4, "gpu_type": "a100"},
    "mi100": {"cpus": 8, "memory": "64G", "gpus": 2, "library": "rccl", "interface": "hsn0"},
}
MIXED: dict[str, Any] = {
    "node_types": NODES,
    "partitions": {
        "nvidia": {"nodes": {"a100": 4}},
        "amd": {"nodes": {"mi100": 4}, "gpus": {"request": "gpus_per_node", "typed": True}},
    },
    "fabric": {"interface": "ib0"},
}
TWO = environment(1, each=resources(cpu=1, gpu=1))


def on(partition: str, machine: dict[str, Any] = MIXED, **data: Any) -> Plan:
    keys = {"framework": "horovod", "environment": TWO, "batch": {"partition": partition}}
    return planned(site(**machine), **keys | data)


def test_gpus_are_requested_and_named_as_on_their_nodes() -> None:
    nvidia, amd = on("nvidia"), on("amd")
    assert (nvidia.gpus.variable, nvidia.gpus.library) == ("CUDA_VISIBLE_DEVICES", "nccl")
    assert (amd.gpus.variable, amd.gpus.library) == ("ROCR_VISIBLE_DEVICES", "rccl")
    assert (nvidia.request.gpu_request, amd.request.gpu_request) == ("gres", "gpus_per_node")
    assert [str(plan.origins["gpus"]) for plan in (nvidia, amd)] == [
        "site x: gpus",
        "site x: partitions.amd.gpus",
    ]


def test_a_variable_of_the_site_wins_over_that_of_the_library() -> None:
    machine = MIXED | {
        "partitions": {"amd": {"nodes": {"mi100": 4}}},
        "gpus": {"visible": "CUDA_VISIBLE_DEVICES"},
    }
    assert on("amd", machine).gpus.variable == "CUDA_VISIBLE_DEVICES"


def on_both(machine: dict[str, Any]) -> list[str]:
    """Return why a job with a GPU of each partition, ``a`` and ``b``, is refused."""
    one, selectors = resources(cpu=1, gpu=1), {name: {"partition": name} for name in "ab"}
    worker = {"resources": one, "node_selector": {"kind": "b"}}
    with pytest.raises(PlanError) as caught:
        planned(
            site(**machine, node_selectors={"kind": selectors}),
            framework="mpi",
            environment={
                "resources": one,
                "node_selector": {"kind": "a"},
                "replicas": {"n_workers": 1, "default_worker": worker},
            },
        )
    return [str(problem) for problem in caught.value.problems]


def test_a_job_with_gpus_of_two_makers_is_refused(wording: Wording) -> None:
    nodes = {"a": {"cpus": 4, "gpus": 1}, "b": {"cpus": 4, "gpus": 1, "library": "rccl"}}
    partitions = {name: {"nodes": {name: 1}} for name in nodes}
    wording(on_both({"node_types": nodes, "partitions": partitions}))


def test_partitions_that_request_gpus_differently_are_refused_together(wording: Wording) -> None:
    nodes = {"a": {"cpus": 4, "gpus": 1}, "b": {"cpus": 4, "gpus": 1}}
    partitions = {"a": {"nodes": {"a": 1}}, "b": {"nodes": {"b": 1}, "gpus": {"request": "gpus_per_node"}}}
    wording(on_both({"node_types": nodes, "partitions": partitions}))


def test_the_interface_of_the_nodes() -> None:
    def interface(partition: str) -> list[tuple[str, str]]:
        shared = on(partition, framework="pytorch").environment.variables
        return [(item.value, item.origin.key) for item in shared if item.name == "GLOO_SOCKET_IFNAME"]

    assert interface("nvidia") == [("ib0", "fabric.interface")]
    assert interface("amd") == [("hsn0", "node_types.mi100.interface")]


CONDITIONAL = MIXED | {
    "modules": ["gcc", {"value": "rocm", "library": "rccl"}],
    "setup": ["a=1", {"value": "b=2", "frameworks": ["mpi"]}],
    "task_setup": [{"value": "c=3", "node_types": ["mi100"]}],
    "container": {
        "runtime": "apptainer",
        "binds": ["/opt", {"value": "/dev/kfd", "library": "rccl"}],
        "args": [{"value": "--cleanenv", "not_frameworks": ["mpi"]}],
        "setup": [{"value": "d=4", "when": "multi_node"}],
    },
}


def test_lines_modules_and_binds_with_conditions() -> None:
    mpi = on("nvidia", CONDITIONAL, framework="mpi", build={"image": IMAGE})
    amd = on("amd", CONDITIONAL, build={"image": IMAGE})
    assert (mpi.environment.modules, amd.environment.modules) == (("gcc",), ("gcc", "rocm"))
    lines = [
        [word.text for word in plan.environment.setup if word.origin.key == "setup"] for plan in (mpi, amd)
    ]
    assert lines == [["a=1", "b=2"], ["a=1"]]
    assert [[word.text for word in plan.environment.task_setup] for plan in (mpi, amd)] == [[], ["c=3"]]
    assert [
        [bind.text for bind in plan.container.binds if bind.origin.key == "container.binds"]
        for plan in (mpi, amd)
        if plan.container
    ] == [
        ["/opt:/opt"],
        ["/opt:/opt", "/dev/kfd:/dev/kfd"],
    ]
    assert ["--cleanenv" in words(plan) for plan in (mpi, amd)] == [False, True]
    assert [str(word.origin) for word in amd.environment.task_setup] == ["site x: task_setup (nodes mi100)"]


@pytest.mark.parametrize(("gpus", "partition"), [(1, "small"), (4, "small"), (8, "large"), (16, "large")])
def test_the_gpus_of_a_job_choose_the_partition(gpus: int, partition: str) -> None:
    machine = site(
        node_types={"n": {"cpus": 8, "gpus": 4}},
        partitions={
            "small": {"nodes": {"n": 10}, "max_gpus": 4},
            "large": {"nodes": {"n": 10}, "min_gpus": 4},
        },
    )
    plan = planned(machine, framework="mpi", environment=environment(gpus - 1, each=resources(cpu=1, gpu=1)))
    assert [group.site_partition for group in plan.placement.groups] == [partition]


@pytest.mark.parametrize(
    ("partition", "gpus"),
    [
        ("small", 8),
        ("large", 1),
    ],
)
def test_too_few_or_too_many_gpus_are_refused(partition: str, gpus: int, wording: Wording) -> None:
    machine = site(
        node_types={"n": {"cpus": 8, "gpus": 4}},
        partitions={
            "small": {"nodes": {"n": 10}, "max_gpus": 4},
            "large": {"nodes": {"n": 10}, "min_gpus": 4},
        },
    )
    with pytest.raises(PlanError) as caught:
        planned(
            machine,
            framework="mpi",
            environment=environment(gpus - 1, each=resources(cpu=1, gpu=1)),
            batch={"partition": partition},
        )
    wording(str(caught.value))


def test_the_largest_job_within_the_gpus_of_a_partition_is_suggested(wording: Wording) -> None:
    nodes, partitions = {"n": {"cpus": 8, "gpus": 4}}, {"p": {"nodes": {"n": 10}, "max_gpus": 12}}
    machine = site(node_types=nodes, partitions=partitions)
    with pytest.raises(PlanError) as caught:
        planned(machine, framework="mpi", environment=environment(5, each=resources(gpu=4)))
    wording(str(caught.value))


def test_memory_that_jobs_can_request_is_shared_whole() -> None:
    nodes = {
        "known": {"cpus": 4, "memory": "64G", "job_memory": "60G"},
        "unknown": {"cpus": 4, "memory": "64G"},
    }
    machine = site(node_types=nodes, partitions={name: {"nodes": {name: 1}} for name in nodes})
    found = {pool.node_type: (pool.memory, pool.shared_memory) for pool in pools(machine)}
    assert found == {"known": (61440, 61440), "unknown": (65536, 61440)}


def test_lumi_gives_each_gcd_60_gb() -> None:
    batch = {"partition": "small-g", "account": "project_1"}
    plan = planned(
        shipped_site("lumi"), framework="mpi", environment=environment(1, each=resources(gpu=1)), batch=batch
    )
    assert [group.memory for group in plan.placement.groups] == [2 * 60 * 1024]


def given(machine: str, framework: str | None, gpu: int | None) -> set[str]:
    """Return the names of the variables of a job on two nodes of a shipped site."""
    batch = {"account": "abc123", "walltime": "1h", "nodes": 2}
    plan = planned(
        shipped_site(machine),
        framework=framework,
        environment=environment(1, each=resources(gpu=gpu)),
        batch=batch,
    )
    extra = [word.text for word in plan.request.site_directives]
    return {item.name for item in plan.environment.variables} | {*extra, *plan.environment.modules}


def test_frontier_has_the_other_rendezvous_for_rccl_only() -> None:
    rendezvous = {"FI_CXI_RDZV_PROTO", "--network=disable_rdzv_get"}
    assert rendezvous <= given("frontier", "pytorch", 8)
    assert not rendezvous & given("frontier", "mpi", 8)
    assert not (rendezvous | {"rccl-net-plugin"}) & given("frontier", "mpi", None)
    assert "rccl-net-plugin" in given("frontier", "mpi", 8)


@pytest.mark.parametrize(
    ("machine", "framework", "expected"),
    [
        ("clariden", "pytorch", [("0", None)]),
        ("daint", "horovod", [("0", None)]),
        ("daint", "mpi", [("1", "libmpi_gtl_cuda.so")]),
        ("clariden", None, [("1", "libmpi_gtl_cuda.so")]),
        ("frontier", "mpi", [("1", "libmpi_gtl_hsa.so")]),
        ("polaris", "mpi", [("1", "libmpi_gtl_cuda.so")]),
    ],
)
def test_mpi_is_told_of_gpus_where_the_program_is_linked_so(
    machine: str, framework: str | None, expected: list[tuple[str, str | None]]
) -> None:
    def found(gpu: int | None) -> list[tuple[str, str | None]]:
        plan = planned(
            shipped_site(machine),
            framework=framework,
            environment=environment(each=resources(gpu=gpu)),
            batch={"account": "abc123", "walltime": "1h"},
        )
        variables = plan.environment.variables
        return [(item.value, item.links) for item in variables if item.name == "MPICH_GPU_SUPPORT_ENABLED"]

    assert (found(4), found(None)) == (expected, [])


def test_jean_zay_chooses_the_qos_of_long_jobs_and_the_modules_of_the_nodes() -> None:
    def job(gpu: int | None, **batch: str) -> tuple[str | None, tuple[str, ...], list[str | None]]:
        machine = shipped_site("jean-zay")
        account = account_on(machine, gpus=gpu is not None, partition=batch.get("partition"))
        plan = planned(
            machine,
            framework="mpi",
            environment=environment(each=resources(gpu=gpu)),
            batch={"account": account, **batch},
        )
        return (
            plan.request.qos,
            plan.environment.modules,
            [group.site_partition for group in plan.placement.groups],
        )

    assert job(4, walltime="20h") == (None, (), ["gpu_p13"])
    assert job(4, walltime="30h") == ("qos_gpu-t4", (), ["gpu_p13-t4"])
    assert job(4, walltime="20h", partition="gpu_p6") == (None, ("arch/h100",), ["gpu_p6"])
    assert job(None, walltime="30h") == ("qos_cpu-t4", (), ["cpu_p1-t4"])


def test_stampede3_and_delta_name_the_gpus_of_each_maker() -> None:
    for name, partition, variable in (
        ("stampede3", "pvc", "ZE_AFFINITY_MASK"),
        ("stampede3", "h100", "CUDA_VISIBLE_DEVICES"),
        ("delta", "gpuMI100x8", "ROCR_VISIBLE_DEVICES"),
        ("delta", "gpuH200x8", "CUDA_VISIBLE_DEVICES"),
    ):
        machine = shipped_site(name)
        batch = {"account": account_on(machine, partition=partition), "partition": partition}
        plan = planned(
            machine,
            framework="mpi",
            environment=environment(each=resources(cpu=1, gpu=1)),
            batch=batch,
        )
        assert plan.gpus.variable == variable
