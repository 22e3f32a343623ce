"""What the records of a job's tasks mean."""

from __future__ import annotations

import msgspec

from hpcdist.doctor.finding import Finding
from hpcdist.doctor.records import Clock, Sum, Task
from hpcdist.doctor.tasks import CheckJob, findings
from hpcdist.plan.model import Plan
from hpcdist.site.model import Site
from tests.doctor.hosts import GOOD, SUMS, host, task
from tests.experiments import environment, resources
from tests.plans import LOCAL, TESTBED, changed, planned
from tests.sites import shipped_site

LOG = "read `hpcdist logs doctor-1`"
PORTS = (
    "let tasks reach each other at all ports (a firewall between the nodes?), and rank 0 by its name: "
    "`head_node` in the site file can say another"
)
FIRST = "mend first what keeps the tasks from meeting"


def plan(site: Site = TESTBED, gpus: int = 1) -> Plan:
    each = resources(cpu=9, gpu=gpus) if gpus else resources(cpu=9)
    return planned(
        site, framework="pytorch", pytorch={"launch": "env"}, environment=environment(1, each=each)
    )


def judged(*tasks: Task, site: Site = TESTBED, groups: tuple[str, ...] = ("network",)) -> list[Finding]:
    check = CheckJob("doctor-1", site, plan(site), dict(enumerate(tasks)))
    return [item for item in findings(check) if item.group in groups]


def test_two_good_nodes() -> None:
    check = CheckJob("doctor-1", TESTBED, plan(), {0: task(0), 1: task(1, clock=Clock(-0.002, 0.0001))})
    assert [*findings(check)] == [
        Finding("job", "records", "ok", "2 of 2 tasks wrote into the run directory"),
        Finding("nodes: python", "python", "ok", "n1, n2: 3.11.2, /usr/bin/python"),
        Finding("nodes: python", "torch", "ok", "n1, n2: 2.3.0"),
        Finding(
            "nodes: python", "horovod", "ok", "n1, n2: 0.28.1, built with pytorch 2.3.0, mpi, gloo, nccl"
        ),
        Finding("nodes: python", "mpi4py", "ok", "n1, n2: 4.0.0"),
        Finding("nodes: limits", "shared memory", "ok", "n1, n2: 64 GiB, 60 GiB free"),
        Finding("nodes: limits", "memlock", "ok", "n1, n2: unlimited"),
        Finding("nodes: limits", "nofile", "ok", "n1, n2: 65536"),
        Finding("nodes: limits", "stack", "ok", "n1, n2: 8 MiB"),
        Finding("nodes: limits", "nproc", "ok", "n1, n2: 100000"),
        Finding("nodes: fabric", "fabric.interface", "ok", "n1, n2: eth0"),
        Finding("nodes: gpus", "gpus", "ok", "n1, n2: each task sees its 1"),
        Finding("nodes: variables", "fabric", "ok", "n1, n2: GLOO_SOCKET_IFNAME arrived as planned"),
        Finding("network", "names", "ok", "n1, n2: n1, n2 can be resolved"),
        Finding(
            "network", "meeting", "ok", "2 of 2 tasks reach rank 0 at the job's port, and their neighbours"
        ),
        Finding("network", "clock", "ok", "n2 is 2.00 ms ahead of n1, give or take 0.10 ms"),
        Finding(
            "network",
            "sum by sockets",
            "ok",
            "sockets, 8 MiB over 2 tasks: 0.0839 GB/s, on the bus 0.0839 GB/s; the sum is right",
        ),
        Finding(
            "network",
            "sum by torch",
            "ok",
            "torch 2.3.0 nccl, 8 MiB over 2 tasks: 8.39 GB/s, on the bus 8.39 GB/s; the sum is right",
        ),
    ]


def test_the_bus_carries_more_than_the_sum_where_tasks_are_many() -> None:
    one = Sum("x", ranks=4, bytes=10**9, right=True, seconds=0.5)
    assert (one.algorithm, one.bus) == (2.0, 3.0)


def test_a_sum_that_is_wrong_on_one_task_is_wrong() -> None:
    wrong = (msgspec.structs.replace(SUMS[0], right=False, seconds=0.2),)
    assert judged(task(0, sums=SUMS[:1]), task(1, sums=wrong))[-1] == Finding(
        "network",
        "sum by sockets",
        "error",
        "sockets, 8 MiB over 2 tasks: 0.0419 GB/s, on the bus 0.0419 GB/s; the sum is WRONG",
        "do not train here before this is mended: tell the centre, with the names of the nodes",
    )


def test_libraries_that_fail_or_do_not_see_each_other() -> None:
    alone = Sum("mpi4py, Open MPI v4.1.4", 1, 8 << 20, right=True, seconds=0.1)
    failed = Sum("torch", error="RuntimeError: NCCL error")
    assert judged(task(0, sums=(failed, alone)), task(1, sums=(SUMS[1], alone)))[-2:] == [
        Finding(
            "network",
            "sum by torch",
            "error",
            "RuntimeError: NCCL error",
            f"{LOG}; NCCL_DEBUG=INFO tells more",
        ),
        Finding(
            "network",
            "sum by mpi4py",
            "error",
            "mpi4py, Open MPI v4.1.4 sees 1 of 2 tasks",
            "set `launchers.srun.mpi` to a type that this MPI knows, or choose `batch.launcher: mpirun`",
        ),
    ]


def test_the_key_for_the_type_of_mpi_is_that_of_the_launcher() -> None:
    flux = shipped_site("flux")
    here = planned(flux, framework="pytorch", environment=environment(1))
    alone = (Sum("mpi4py", 1, 8 << 20, right=True, seconds=0.1),)
    check = CheckJob("doctor-1", flux, here, {0: task(0, sums=alone), 1: task(1, sums=alone)})
    assert [*findings(check)][-1].do == (
        "set `launchers.flux.mpi` to a type that this MPI knows, or choose `batch.launcher: mpirun`"
    )


def test_a_library_that_not_all_tasks_have() -> None:
    assert judged(task(0), task(1, sums=SUMS[:1]))[-1] == Finding(
        "network",
        "sum by torch",
        "error",
        "1 of 2 tasks did not come so far",
        f"{LOG}; NCCL_DEBUG=INFO tells more",
    )


def test_plain_processes_bring_no_mpi() -> None:
    here = planned(changed(LOCAL, launcher="processes"), framework="pytorch", environment=environment(1))
    alone = (Sum("horovod mpi", 1, 8 << 20, right=True, seconds=0.1),)
    check = CheckJob("doctor-1", LOCAL, here, {0: task(0, sums=alone), 1: task(1, sums=alone)})
    assert [*findings(check)][-1] == Finding(
        "network",
        "sum by horovod",
        "note",
        "horovod mpi sees 1 of 2 tasks: launcher processes brings no MPI",
        "try one that does: `--set batch.launcher=mpirun`",
    )


def test_a_clock_that_is_off_and_one_that_nobody_knows() -> None:
    off = "tell the centre: munge refuses tickets, and file times mislead, where clocks differ"
    seen = "n2 is 95.0 s behind n1, give or take 0.20 ms"
    found = judged(task(0), task(1, clock=Clock(95.0, 0.0002)))
    assert [item for item in found if item.name == "clock"] == [
        Finding("network", "clock", "warning", seen, off)
    ]
    found = judged(task(0), task(1, clock=Clock(95.0, 95.0)))
    assert [item.status for item in found if item.name == "clock"] == ["ok"]
    found = judged(task(0), task(1, clock=None))
    assert [item for item in found if item.name == "clock"] == [
        Finding("network", "clock", "unknown", "n2 could not ask n1 for the time", FIRST)
    ]


def test_names_that_mean_nothing_or_the_wrong_host() -> None:
    names = {"n1": ("127.0.1.1",), "n2": ("(Name or service not known)",)}
    found = judged(
        task(0), task(1, names=names, error="n1 port 20000 is not reached from n2: refused", sums=())
    )
    assert found == [
        Finding("network", "names", "ok", "n1: n1, n2 can be resolved"),
        Finding(
            "network",
            "names",
            "error",
            "n2: n2 has no address (Name or service not known)",
            "tell the centre where n2 cannot be resolved; `head_node` in the site file may help",
        ),
        Finding(
            "network",
            "names",
            "error",
            "n2: n1 is 127.0.1.1 there",
            "n1 is another node: tell the centre to mend /etc/hosts",
        ),
        Finding(
            "network", "meeting", "error", "rank 1: n1 port 20000 is not reached from n2: refused", PORTS
        ),
        Finding("network", "clock", "ok", "n2 is 0.00 ms ahead of n1, give or take 0.00 ms"),
        Finding("network", "sum by sockets", "error", "1 of 2 tasks did not come so far", LOG),
        Finding(
            "network",
            "sum by torch",
            "error",
            "1 of 2 tasks did not come so far",
            f"{LOG}; NCCL_DEBUG=INFO tells more",
        ),
    ]


def test_tasks_that_left_nothing_or_half() -> None:
    check = CheckJob("doctor-1", TESTBED, plan(), {})
    nothing = Finding(
        "job",
        "records",
        "error",
        "of 2 tasks these left no record: rank 0, 1",
        f"{LOG}, and look whether the nodes see the folder of the runs",
    )
    assert [*findings(check)] == [nothing]
    found = judged(Task(GOOD), groups=("job", "network"))
    assert found == [
        nothing._replace(seen="of 2 tasks these left no record: rank 1"),
        Finding(
            "network", "meeting", "error", "rank 0: it did not come so far as to look for the others", LOG
        ),
        Finding("network", "clock", "ok", "all on n1 have one clock"),
        Finding("network", "all-reduce", "unknown", "the tasks did not meet", FIRST),
    ]


def test_gpus_and_variables_that_are_not_as_planned() -> None:
    blind = host(gpus=None, gpus_why="cuInit of libcuda.so.1 failed with code 999", variables={})
    groups = ("nodes: gpus", "nodes: variables")
    found = judged(task(0, host(gpus=4)), task(1, blind), groups=groups)
    again = "something sets GLOO_SOCKET_IFNAME anew: look at modules, profiles and `task_setup`"
    assert found == [
        Finding(
            "nodes: gpus",
            "gpus",
            "error",
            "n1: a task sees 4 GPUs, 1 are planned",
            "look at `gpus` in the site file, and at CUDA_VISIBLE_DEVICES; run nvidia-smi in a job",
        ),
        Finding(
            "nodes: gpus",
            "gpus",
            "unknown",
            "n2: cuInit of libcuda.so.1 failed with code 999",
            "load the driver's library where there is one: without it no framework finds a GPU",
        ),
        Finding("nodes: variables", "fabric", "ok", "n1: GLOO_SOCKET_IFNAME arrived as planned"),
        Finding(
            "nodes: variables", "GLOO_SOCKET_IFNAME", "warning", "n2: it is not set, eth0 is planned", again
        ),
    ]


def test_what_befalls_many_tasks_alike_is_told_once() -> None:
    found = judged(task(0, error="it hung up"), task(1, error="it hung up"))
    assert [item.seen for item in found if item.name == "meeting"] == ["rank 0, 1: it hung up"]


def test_an_mpi_that_is_not_that_of_the_launcher() -> None:
    alone = Sum("mpi4py, Open MPI v4.1.4", 1, 8 << 20, right=True, seconds=0.1)
    site = changed(TESTBED, launcher="mpirun")
    found = judged(task(0, sums=(alone,)), task(1, sums=(alone,)), site=site)
    assert (found[-1].status, found[-1].do) == ("error", "use one that is built with the MPI of mpirun")


def test_nodes_that_are_not_alike() -> None:
    other = host(python="3.9.6", packages={**GOOD.packages, "torch": "2.4.0", "jax": "0.4"})
    found = judged(task(0), task(1, other), groups=("nodes: python",))
    assert [item for item in found if item.name == "versions"] == [
        Finding(
            "nodes: python",
            "versions",
            "warning",
            "the nodes differ in jax, python, torch",
            "load one environment on all nodes: `batch.modules`, or `modules` and `setup` of the site file",
        )
    ]


def test_the_names_of_nodes_are_those_of_the_job() -> None:
    assert CheckJob("doctor-1", TESTBED, plan(), {}).node(task(1, host(host="other"))) == "n2"
    assert CheckJob("doctor-1", TESTBED, plan(), {}).node(Task(host(host="other"))) == "other"
