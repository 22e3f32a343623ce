"""What a partition says otherwise than its site: whole nodes, and memory, of which not everybody is asked."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.cli.site.sites_init import HostFacts, site_text
from hpcdist.plan.values import Directive, Origin
from hpcdist.site.model import Site
from hpcdist.site.survey import PartitionInfo, Survey
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.sites import account_on, shipped_site, site
from tests.wording import Wording

NODES: dict[str, Any] = {"node_types": {"n": {"cpus": 8, "memory": 16000}}}
UNKNOWN: dict[str, Any] = {"node_types": {"n": {"cpus": 8}}}
SILENT: dict[str, Any] = {"request_memory": False}
LSF: dict[str, Any] = {"scheduler": "lsf", "launcher": "mpirun"}
SGE: dict[str, Any] = {"scheduler": "sge", "launcher": "mpirun", "sge": {"environments": {"*": "mpi{slots}"}}}
FLUX: dict[str, Any] = {"scheduler": "flux", "launcher": "flux"}
PBS: dict[str, Any] = {"scheduler": "pbs", "launcher": "mpirun"}

MASTER, WORKER = (f"environment.{section}resources.memory" for section in ("", "replicas.default_worker."))
BATCH = {"walltime": "1h"}


def machine(partition: dict[str, Any] | None = None, **keys: Any) -> Site:
    pool = {"nodes": {"n": 4}, **(partition or {})}
    return site(**NODES | {"partitions": {"p": pool}, "default_partition": "p"} | keys)


def asked(where: Site, flag: str, **data: Any) -> list[str]:
    """Return the values of a directive of one task that asks for 4 GB."""
    plan = planned(where, environment=environment(each=resources(cpu=2, memory=4000)), batch=BATCH, **data)
    return [str(line.value) for line in plan.directives if line.flag == flag]


def warned(where: Site, batch: dict[str, Any] | None = None) -> tuple[str, ...]:
    """Return what is told of an experiment of two replicas with 4 GB each."""
    section = environment(1, each=resources(cpu=2, memory=4000))
    return warnings_of(planned(where, environment=section, batch=BATCH | (batch or {})))


def told(why: str) -> tuple[str, ...]:
    return tuple(f"{key}: memory is not requested: {why}" for key in (MASTER, WORKER))


def silence(key: str) -> tuple[str, ...]:
    return told(f"site x says `{key}: false`; a job gets the site's default")


# --- Whole nodes


@pytest.mark.parametrize(
    ("by_site", "by_partition", "by_user", "expected"),
    [
        (False, None, None, (False, None)),
        (True, None, None, (True, Origin("site", "x", "whole_nodes"))),
        (True, False, None, (False, None)),
        (False, True, None, (True, Origin("site", "x", "partitions.p.whole_nodes"))),
        (True, True, None, (True, Origin("site", "x", "partitions.p.whole_nodes"))),
        (True, False, True, (True, Origin("place", "exp.yml batch.exclusive"))),
        (False, True, False, (False, Origin("place", "exp.yml batch.exclusive"))),
    ],
)
def test_whole_nodes_of_partition_and_site(
    *, by_site: bool, by_partition: bool | None, by_user: bool | None, expected: tuple[bool, str | None]
) -> None:
    partition = {} if by_partition is None else {"whole_nodes": by_partition}
    batch = {} if by_user is None else {"exclusive": by_user}
    plan = planned(machine(partition, whole_nodes=by_site), batch=batch)
    assert (plan.request.exclusive, plan.origins.get("exclusive")) == expected
    assert any(line.flag == "--exclusive" for line in plan.directives) == plan.request.exclusive


def test_job_in_two_partitions_has_whole_nodes_if_one_gives_them() -> None:
    two = site(
        node_types={"cpu": {"cpus": 8}, "gpu": {"cpus": 8, "gpus": 2}},
        partitions={
            "cpu": {"nodes": {"cpu": 4}},
            "gpu": {"nodes": {"gpu": 4}, "whole_nodes": True},
        },
    )
    section = environment(ps=1, resources=resources(gpu=2))
    plan = planned(two, framework="tensorflow", environment=section, batch=BATCH)
    assert [(line.group, line.flag) for line in plan.directives if line.flag == "--exclusive"] == [
        (0, "--exclusive"),
        (1, "--exclusive"),
    ]
    assert plan.origins["exclusive"] == Origin("site", "x", "partitions.gpu.whole_nodes")


@pytest.mark.parametrize("keys", [SGE, {"scheduler": "local", "launcher": "mpirun"}])
def test_whole_nodes_of_a_partition_need_no_directive_where_there_is_none(keys: Any) -> None:
    assert planned(machine({"whole_nodes": True}, **keys), batch={}).request.exclusive


LUMI = {"account": "project_465000001", "walltime": "1h"}


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (
            "standard-g",
            {"--exclusive": None, "--mem": "480G", "--gpus-per-node": "3", "--cpus-per-task": "7"},
        ),
        ("small-g", {"--mem": "184320M", "--gpus-per-node": "3", "--cpus-per-task": "7"}),
        ("dev-g", {"--mem": "184320M", "--gpus-per-node": "3", "--cpus-per-task": "7"}),
    ],
)
def test_three_gcds_of_lumi(partition: str, expected: dict[str, str | None]) -> None:
    section = environment(2, each=resources(gpu=1))
    plan = planned(shipped_site("lumi"), environment=section, batch=LUMI | {"partition": partition})
    flags = ("--exclusive", "--mem", "--gpus-per-node", "--cpus-per-task")
    assert {line.flag: line.value for line in plan.directives if line.flag in flags} == expected
    assert warnings_of(plan) == ()


def test_whole_nodes_are_asked_for_all_their_memory() -> None:
    """Slurm gives an exclusive job all CPUs, but no more memory than it asks for (sbatch(1), --exclusive)."""
    batch = LUMI | {"partition": "small-g", "exclusive": True}
    plan = planned(shipped_site("lumi"), environment=environment(2, each=resources(gpu=1)), batch=batch)
    found = {line.flag: line.value for line in plan.directives if line.flag in ("--exclusive", "--mem")}
    assert found == {"--exclusive": None, "--mem": "0"}


def test_sites_init_writes_whole_nodes_of_a_single_partition() -> None:
    parts = (PartitionInfo("shared", {"n": 2}), PartitionInfo("whole", {"n": 2}, whole_nodes=True))
    seen = Survey(
        "slurm", "Slurm", kinds=(), partitions=parts, facts=(), sources=("nodes", "partitions"), failures=()
    )
    lines = site_text("x", seen, HostFacts("x", "2026-11-22")).splitlines()
    assert lines[lines.index("partitions:") + 1 :][:2] == [
        "  shared: {nodes: {n: 2}}",
        "  whole: {nodes: {n: 2}, whole_nodes: true}",
    ]


# --- Memory


def test_memory_warning_names_the_partition_of_each_replica() -> None:
    parts = {
        "silent": {"nodes": {"n": 4}, "request_memory": False},
        "asking": {"nodes": {"n": 4}},
    }
    section = {
        "resources": resources(cpu=2),
        "node_selector": {"partition": "asking"},
        "replicas": {
            "n_workers": 1,
            "default_worker": {"resources": resources(memory=3000), "node_selector": {"partition": "silent"}},
            "n_ps": 1,
            "default_ps": {"resources": resources(memory=2000), "node_selector": {"partition": "asking"}},
        },
    }
    where = site(**NODES, partitions=parts, default_partition="asking")
    plan = planned(where, framework="tensorflow", environment=section, batch=BATCH)
    why = "site x says `partitions.silent.request_memory: false`; a job gets the site's default"
    told = f"{WORKER}: memory is not requested: {why}"
    assert [line for line in warnings_of(plan) if "memory" in line] == [told]


@pytest.mark.parametrize(
    ("keys", "partition", "flag", "expected"),
    [
        ({}, {}, "--mem", ["4000M"]),
        (SILENT, {}, "--mem", []),
        (SILENT, {"request_memory": True}, "--mem", ["4000M"]),
        ({}, {"request_memory": False}, "--mem", []),
        (PBS, {}, "-l select", ["1:ncpus=2:mpiprocs=1:mem=4000mb"]),
        (PBS | SILENT, {}, "-l select", ["1:ncpus=2:mpiprocs=1"]),
        (LSF, {}, "-R", ["rusage[mem=4000MB] span[ptile=2]"]),
        (LSF | SILENT, {}, "-R", ["span[ptile=2]"]),
    ],
)
def test_memory_is_requested_if_partition_or_site_allow_it(
    keys: dict[str, Any], partition: dict[str, Any], flag: str, expected: list[str]
) -> None:
    assert asked(machine(partition, **keys), flag) == expected


def test_share_of_memory_is_requested_in_a_partition_with_a_low_default() -> None:
    where = machine({"request_memory": "share"}, **SILENT)
    plan = planned(where, environment=environment(each=resources(cpu=4)), batch=BATCH)
    assert [line for line in plan.directives if line.flag == "--mem"] == [
        Directive(flag="--mem", value="7500M", origin=Origin("site", "x", "partitions.p.request_memory"))
    ]


@pytest.mark.parametrize(
    ("where", "batch", "expected"),
    [
        (machine(), {}, ()),
        (machine(**SILENT), {}, silence("request_memory")),
        (machine({"request_memory": False}), {}, silence("partitions.p.request_memory")),
        (machine(**SILENT), {"exclusive": True}, ()),  # they are placed by it
        (machine(**SILENT, **UNKNOWN), {"exclusive": True}, silence("request_memory")),
        (machine(**SILENT, whole_nodes=True), {}, ()),
        (machine(**LSF | SILENT), {}, silence("request_memory")),
        (machine(**LSF, **UNKNOWN, lsf={"request": "nodes"}, whole_nodes=True), {},
         told("site x says `lsf.request: nodes`; a job gets the site's default")),
        (machine(**SGE), {},
         told("site x does not name the memory resource; write it as `sge.memory` in the site file")),
        (machine(**SGE | {"sge": {"environments": {"*": "mpi{slots}"}, "memory": "h_vmem"}}), {}, ()),
        (machine(**FLUX | SILENT), {}, silence("request_memory")),
        (machine(**FLUX), {"exclusive": True}, ()),
        (machine(**PBS | SILENT), {}, silence("request_memory")),
    ],
)  # fmt: skip
def test_memory_that_is_not_requested_warns_at_its_place(
    where: Site, batch: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert warned(where, batch) == expected


def test_default_memory_of_the_site_does_not_warn() -> None:
    where = machine(**SILENT, replica={"memory": 1000})
    assert warnings_of(planned(where, batch=BATCH)) == ()


def test_flux_refuses_memory_unless_request_memory_is_false(wording: Wording) -> None:
    with pytest.raises(PlanError) as caught:
        warned(machine(**FLUX))
    wording(str(caught.value))


@pytest.mark.parametrize("name", ["snellius", "marenostrum5", "jean-zay", "lsf", "flux"])
def test_shipped_sites_without_memory_requests_set_request_memory(name: str) -> None:
    section = environment(1, each=resources(cpu=2, memory="7Gi"))
    found_site = shipped_site(name)
    batch = BATCH | {"account": account_on(found_site, gpus=False)}
    found = warnings_of(planned(found_site, environment=section, batch=batch))
    why = f"site {name} says `request_memory: false`; a job gets the site's default"
    assert tuple(text for text in found if "memory" in text) == told(why)
