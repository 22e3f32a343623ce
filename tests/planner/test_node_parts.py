from __future__ import annotations

from typing import Any

from hpcdist.planner.placement import part_of_node
from hpcdist.site.model import Site
from tests.experiments import environment, resources
from tests.plans import changed, planned
from tests.sites import shipped_site, site

NODES = {"g": {"cpus": 16, "job_memory": 64000, "gpus": 4}, "c": {"cpus": 32}}
ONE_GPU = resources(gpu=1)


def part(machine: Site, asked: dict[str, Any], **batch: Any) -> str:
    plan = planned(machine, environment=environment(each=asked), batch=batch)
    return part_of_node(plan.placement.groups[0], machine, exclusive=plan.request.exclusive)


def of(**keys: Any) -> Site:
    partitions = {"gpu": {"nodes": {"g": 2}}, "cpu": {"nodes": {"c": 2}}}
    return site(node_types=NODES, partitions=partitions, **({"request_memory": "share"} | keys))


def test_parts_of_nodes_of_known_size() -> None:
    found = (
        part(of(), ONE_GPU),
        part(of(), ONE_GPU, exclusive=True),
        part(of(whole_nodes=True, request_memory=True), ONE_GPU),
        part(of(), {"memory": {"requests": "all"}}, partition="gpu"),
        part(of(), resources(cpu=3), partition="cpu"),
        part(of(request_memory=False), ONE_GPU),
        part(of(request_memory=True), ONE_GPU),
    )
    silent = "memory is not requested"
    refused = "site x says `request_memory: false`; a job gets the site's default"
    assert found == (
        "4 of 16 CPUs, 1 of 4 GPUs, 16000 of 64000 MiB of memory",
        "4 of 16 CPUs, 1 of 4 GPUs, all memory",
        "4 of 16 CPUs, 1 of 4 GPUs, all memory",
        "1 of 16 CPUs, all memory",
        f"3 of 32 CPUs, {silent}: how much a node has is not known, and a job gets the site's default",
        f"4 of 16 CPUs, 1 of 4 GPUs, {silent}: {refused}",
        f"4 of 16 CPUs, 1 of 4 GPUs, {silent}: the experiment sets none, and a job gets the site's default",
    )


def test_parts_of_nodes_of_which_nothing_is_known() -> None:
    unknown = "how much a node has is not known, and a job gets the site's default"
    lsf, sge = "site lsf says `request_memory: false`", "site sge does not name the memory resource"
    assert {name: part(shipped_site(name), ONE_GPU) for name in ("slurm", "pbs", "lsf", "sge")} == {
        "slurm": f"1 CPU, 1 GPU, memory is not requested: {unknown}",
        "pbs": f"1 CPU, 1 GPU, memory is not requested: {unknown}",
        "lsf": f"1 CPU, 1 GPU, memory is not requested: {lsf}; a job gets the site's default",
        "sge": f"1 CPU, 1 GPU, memory is not requested: {sge}; write it as `sge.memory` in the site file",
    }


def test_a_generic_site_with_nodes_gives_shares() -> None:
    for name in ("slurm", "pbs"):
        generic = shipped_site(name)
        own = changed(generic, node_types=of().node_types, partitions=of().partitions)
        assert part(own, ONE_GPU) == "4 of 16 CPUs, 1 of 4 GPUs, 16000 of 64000 MiB of memory"
