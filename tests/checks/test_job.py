"""Findings from the records of a job's tasks."""

from __future__ import annotations

import msgspec

from hpcdist.checks.finding import AllReduce, CheckFinding, Clock, TaskRecord
from hpcdist.checks.job import CheckJob, job_findings
from hpcdist.plan.model import Plan
from hpcdist.site.fabric import Fabric, Setting
from hpcdist.site.model import Site
from tests.checks.hosts import ALLREDUCES, GOOD, host, task
from tests.experiments import environment, resources
from tests.plans import LOCAL, TESTBED, changed, planned
from tests.sites import shipped_site

LOG = "read `hpcdist logs doctor-1`"
PORTS = (
    "let tasks reach each other at all ports (a firewall between the nodes?), and rank 0 by its name: "
    "`head_node` in the site file can set another"
)
FIRST = "first fix the connections between the tasks"


def plan(site: Site = TESTBED, gpus: int = 1) -> Plan:
    each = resources(cpu=9, gpu=gpus) if gpus else resources(cpu=9)
    return planned(
        site, framework="pytorch", pytorch={"launch": "env"}, environment=environment(1, each=each)
    )


def findings_of(
    *tasks: TaskRecord, site: Site = TESTBED, groups: tuple[str, ...] = ("network",)
) -> list[CheckFinding]:
    check = CheckJob("doctor-1", site, plan(site), dict(enumerate(tasks)))
    return [item for item in job_findings(check) if item.group in groups]


def test_two_healthy_nodes() -> None:
    check = CheckJob("doctor-1", TESTBED, plan(), {0: task(0), 1: task(1, clock=Clock(-0.002, 0.0001))})
    assert [*job_findings(check)] == [
        CheckFinding("job", "records", "ok", "2 of 2 tasks wrote into the run directory"),
        CheckFinding("nodes: python", "python", "ok", "n1, n2: 3.11.2, /usr/bin/python"),
        CheckFinding("nodes: python", "torch", "ok", "n1, n2: 2.3.0"),
        CheckFinding(
            "nodes: python", "horovod", "ok", "n1, n2: 0.28.1, built with pytorch 2.3.0, mpi, gloo, nccl"
        ),
        CheckFinding("nodes: python", "mpi4py", "ok", "n1, n2: 4.0.0"),
        CheckFinding("nodes: limits", "shared memory", "ok", "n1, n2: 64 GiB, 60 GiB free"),
        CheckFinding("nodes: limits", "memlock", "ok", "n1, n2: unlimited"),
        CheckFinding("nodes: limits", "nofile", "ok", "n1, n2: 65536"),
        CheckFinding("nodes: limits", "stack", "ok", "n1, n2: 8 MiB"),
        CheckFinding("nodes: limits", "nproc", "ok", "n1, n2: 100000"),
        CheckFinding("nodes: fabric", "fabric.interface", "ok", "n1, n2: eth0"),
        CheckFinding("nodes: gpus", "gpus", "ok", "n1, n2: each task sees its 1"),
        CheckFinding("nodes: variables", "fabric", "ok", "n1, n2: GLOO_SOCKET_IFNAME arrived as planned"),
        CheckFinding("network", "names", "ok", "n1, n2: n1, n2 can be resolved"),
        CheckFinding(
            "network",
            "connectivity",
            "ok",
            "2 of 2 tasks reach rank 0 at the job's port, and their neighbours",
        ),
        CheckFinding("network", "clock", "ok", "n2 is 2.00 ms ahead of n1, give or take 0.10 ms"),
        CheckFinding(
            "network",
            "all-reduce by sockets",
            "ok",
            "sockets, 8 MiB over 2 tasks: 0.0839 GB/s, on the bus 0.0839 GB/s; the sum is correct",
        ),
        CheckFinding(
            "network",
            "all-reduce by torch",
            "ok",
            "torch 2.3.0 nccl, 8 MiB over 2 tasks: 8.39 GB/s, on the bus 8.39 GB/s; the sum is correct",
        ),
    ]


def test_a_job_without_a_supervisor() -> None:
    tasks = [task(rank, host(supervised=False)) for rank in range(2)]
    assert findings_of(*tasks, groups=("job",))[1:] == [
        CheckFinding(
            "job",
            "supervisor",
            "warning",
            "the first node has no Python 3.6 or newer, which restarts, steps, searches and causes need",
            "set HPCDIST_PYTHON to one before you submit, or ask the centre for /usr/bin/python3",
        )
    ]


def test_the_interfaces_of_the_nodes_of_the_job_are_checked() -> None:
    kinds = {
        name: msgspec.structs.replace(kind, interface="ib9") if kind.gpus else kind
        for name, kind in TESTBED.node_types.items()
    }
    env: dict[str, Setting | str] = {
        "NCCL_SOCKET_IFNAME": Setting(value="hsn", library="rccl"),
        "NCCL_IB_HCA": Setting(value="mlx5_9", node_types=("none",)),
    }
    machine = changed(TESTBED, node_types=kinds, fabric=Fabric(interface="eth0", env={**env}))
    found = findings_of(task(0), task(1), site=machine, groups=("nodes: fabric",))
    missing = "n1, n2: ib9 is not there; there is eth0, lo"
    report = "report to the centre that ib9 is missing on these nodes"
    hint = f"correct `fabric.interface` in the site file, or {report}"
    assert found == [CheckFinding("nodes: fabric", "fabric.interface", "error", missing, hint)]


def test_bus_bandwidth_of_four_ranks_is_higher_than_algorithm_bandwidth() -> None:
    one = AllReduce("x", ranks=4, bytes=10**9, correct=True, seconds=0.5)
    assert (one.algorithm_bandwidth, one.bus_bandwidth) == (2.0, 3.0)


def test_wrong_sum_on_one_task_is_an_error() -> None:
    wrong = (msgspec.structs.replace(ALLREDUCES[0], correct=False, seconds=0.2),)
    assert findings_of(task(0, allreduces=ALLREDUCES[:1]), task(1, allreduces=wrong))[-1] == CheckFinding(
        "network",
        "all-reduce by sockets",
        "error",
        "sockets, 8 MiB over 2 tasks: 0.0419 GB/s, on the bus 0.0419 GB/s; the sum is WRONG",
        "do not train here before this is fixed: report it to the centre, with the names of the nodes",
    )


def test_library_that_fails_and_library_with_separate_ranks_are_errors() -> None:
    alone = AllReduce("mpi4py", "mpi4py, Open MPI v4.1.4", "mpi", 1, 8 << 20, correct=True, seconds=0.1)
    failed = AllReduce("torch", error="RuntimeError: NCCL error")
    assert findings_of(task(0, allreduces=(failed, alone)), task(1, allreduces=(ALLREDUCES[1], alone)))[
        -2:
    ] == [
        CheckFinding(
            "network",
            "all-reduce by torch",
            "error",
            "RuntimeError: NCCL error",
            f"{LOG}; NCCL_DEBUG=INFO prints more",
        ),
        CheckFinding(
            "network",
            "all-reduce by mpi4py",
            "error",
            "mpi4py, Open MPI v4.1.4 sees 1 of 2 tasks",
            "set `launchers.srun.mpi` to a type that this MPI knows, or choose `batch.launcher: mpirun`",
        ),
    ]


def test_hint_names_the_mpi_key_of_the_launcher() -> None:
    flux = shipped_site("flux")
    here = planned(flux, framework="pytorch", environment=environment(1))
    alone = (AllReduce("mpi4py", ranks=1, bytes=8 << 20, correct=True, seconds=0.1),)
    check = CheckJob("doctor-1", flux, here, {0: task(0, allreduces=alone), 1: task(1, allreduces=alone)})
    assert [*job_findings(check)][-1].hint == (
        "set `launchers.flux.mpi` to a type that this MPI knows, or choose `batch.launcher: mpirun`"
    )


def test_library_missing_on_one_task_is_an_error() -> None:
    assert findings_of(task(0), task(1, allreduces=ALLREDUCES[:1]))[-1] == CheckFinding(
        "network",
        "all-reduce by torch",
        "error",
        "1 of 2 tasks did not get that far",
        f"{LOG}; NCCL_DEBUG=INFO prints more",
    )


def test_launcher_without_mpi_is_a_note() -> None:
    here = planned(changed(LOCAL, launcher="processes"), framework="pytorch", environment=environment(1))
    alone = (AllReduce("horovod", "horovod mpi", "", 1, 8 << 20, correct=True, seconds=0.1),)
    check = CheckJob("doctor-1", LOCAL, here, {0: task(0, allreduces=alone), 1: task(1, allreduces=alone)})
    assert [*job_findings(check)][-1] == CheckFinding(
        "network",
        "all-reduce by horovod",
        "note",
        "horovod mpi sees 1 of 2 tasks: launcher processes has no MPI",
        "try one that has: `--set batch.launcher=mpirun`",
    )


def test_clock_that_differs_warns_and_missing_clock_is_unknown() -> None:
    off = "report it to the centre: munge refuses tickets and file times mislead where clocks differ"
    detail = "n2 is 95.0 s behind n1, give or take 0.20 ms"
    found = findings_of(task(0), task(1, clock=Clock(95.0, 0.0002)))
    assert [item for item in found if item.name == "clock"] == [
        CheckFinding("network", "clock", "warning", detail, off)
    ]
    found = findings_of(task(0), task(1, clock=Clock(95.0, 95.0)))
    assert [item.status for item in found if item.name == "clock"] == ["ok"]
    found = findings_of(task(0), task(1, clock=None))
    assert [item for item in found if item.name == "clock"] == [
        CheckFinding("network", "clock", "unknown", "n2 could not get the time of n1", FIRST)
    ]


def test_unresolvable_name_and_loopback_address_are_errors() -> None:
    names = {"n1": ("127.0.1.1",), "n2": ("(Name or service not known)",)}
    found = findings_of(
        task(0), task(1, names=names, error="n1 port 20000 cannot be reached from n2: refused", allreduces=())
    )
    assert found == [
        CheckFinding("network", "names", "ok", "n1: n1, n2 can be resolved"),
        CheckFinding(
            "network",
            "names",
            "error",
            "n2: n2 cannot be resolved (Name or service not known)",
            "report to the centre that n2 cannot resolve n2, or set `head_node` of the site",
        ),
        CheckFinding(
            "network",
            "names",
            "error",
            "n2: n1 resolves to 127.0.1.1",
            "n1 is another node: ask the centre to correct /etc/hosts",
        ),
        CheckFinding(
            "network",
            "connectivity",
            "error",
            "rank 1: n1 port 20000 cannot be reached from n2: refused",
            PORTS,
        ),
        CheckFinding("network", "clock", "ok", "n2 is 0.00 ms ahead of n1, give or take 0.00 ms"),
        CheckFinding("network", "all-reduce by sockets", "error", "1 of 2 tasks did not get that far", LOG),
        CheckFinding(
            "network",
            "all-reduce by torch",
            "error",
            "1 of 2 tasks did not get that far",
            f"{LOG}; NCCL_DEBUG=INFO prints more",
        ),
    ]


def test_missing_and_partial_records_are_errors() -> None:
    check = CheckJob("doctor-1", TESTBED, plan(), {})
    nothing = CheckFinding(
        "job",
        "records",
        "error",
        "of 2 tasks, these wrote no record: rank 0, 1",
        f"{LOG}, and check whether the nodes can reach the run directory",
    )
    assert [*job_findings(check)] == [nothing]
    found = findings_of(TaskRecord(GOOD), groups=("job", "network"))
    assert found == [
        nothing._replace(detail="of 2 tasks, these wrote no record: rank 1"),
        CheckFinding(
            "network",
            "connectivity",
            "error",
            "rank 0: it ended before the connection checks",
            LOG,
        ),
        CheckFinding("network", "clock", "ok", "all tasks are on n1, with one clock"),
        CheckFinding("network", "all-reduce", "unknown", "the tasks did not connect", FIRST),
    ]


def test_gpus_and_variables_that_differ_from_the_plan() -> None:
    blind = host(gpus=None, gpus_source="cuInit of libcuda.so.1 failed with code 999", variables={})
    groups = ("nodes: gpus", "nodes: variables")
    found = findings_of(task(0, host(gpus=4)), task(1, blind), groups=groups)
    again = "something overrides GLOO_SOCKET_IFNAME: check modules, profiles and `task_setup`"
    assert found == [
        CheckFinding(
            "nodes: gpus",
            "gpus",
            "error",
            "n1: a task sees 4 GPUs, 1 are planned",
            "check `gpus` in the site file, and CUDA_VISIBLE_DEVICES; run nvidia-smi in a job",
        ),
        CheckFinding(
            "nodes: gpus",
            "gpus",
            "unknown",
            "n2: cuInit of libcuda.so.1 failed with code 999",
            "load the driver's library where there is one: without it no framework finds a GPU",
        ),
        CheckFinding("nodes: variables", "fabric", "ok", "n1: GLOO_SOCKET_IFNAME arrived as planned"),
        CheckFinding(
            "nodes: variables", "GLOO_SOCKET_IFNAME", "warning", "n2: it is not set, eth0 is planned", again
        ),
    ]


def test_same_error_of_several_tasks_is_reported_once() -> None:
    found = findings_of(task(0, error="it hung up"), task(1, error="it hung up"))
    assert [item.detail for item in found if item.name == "connectivity"] == ["rank 0, 1: it hung up"]


def test_mpi_of_another_launcher_is_an_error() -> None:
    alone = AllReduce("mpi4py", "mpi4py, Open MPI v4.1.4", "mpi", 1, 8 << 20, correct=True, seconds=0.1)
    site = changed(TESTBED, launcher="mpirun")
    found = findings_of(task(0, allreduces=(alone,)), task(1, allreduces=(alone,)), site=site)
    assert (found[-1].status, found[-1].hint) == (
        "error",
        "use a library that is built with the MPI of mpirun",
    )


def test_nodes_with_different_versions_warn() -> None:
    other = host(python="3.9.6", packages={**GOOD.packages, "torch": "2.4.0", "jax": "0.4"})
    found = findings_of(task(0), task(1, other), groups=("nodes: python",))
    assert [item for item in found if item.name == "versions"] == [
        CheckFinding(
            "nodes: python",
            "versions",
            "warning",
            "the nodes differ in jax, python, torch",
            "load one environment on all nodes: `batch.modules`, or `modules` and `setup` of the site file",
        )
    ]


def test_node_names_are_those_of_the_job() -> None:
    assert CheckJob("doctor-1", TESTBED, plan(), {}).node(task(1, host(host="other"))) == "n2"
    assert CheckJob("doctor-1", TESTBED, plan(), {}).node(TaskRecord(host(host="other"))) == "other"
