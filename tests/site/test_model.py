from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.base.resources import shipped, site_files
from hpcdist.base.units import Walltime
from hpcdist.layers.launchers import launchers
from hpcdist.schedulers import schedulers
from hpcdist.site.model import LauncherOptions, Site
from hpcdist.site.problems import problems_of
from tests.sites import SHIPPED, shipped_site, site
from tests.tiers import sweep
from tests.wording import Wording


def problems(**data: Any) -> list[str]:
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    built, found = fields.build(Site, base | data)
    assert found == []
    assert built is not None
    return [str(problem) for problem in problems_of(built)]


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_shipped_site_is_valid(name: str) -> None:
    found = shipped_site(name)
    assert list(problems_of(found)) == []
    assert found.name == name
    assert found.scheduler in schedulers.names()
    assert found.launcher in launchers.names()
    assert found.scheduler in launchers.get(found.launcher).schedulers
    assert set(found.launchers) <= set(launchers.names())
    assert all(re.fullmatch(r"20\d\d-\d\d(-\d\d)?", source.read) for source in found.sources)
    assert found.sources


GENERIC = {"flux", "local", "lsf", "pbs", "sge", "slurm", "testbed", "university"}
BARE = ("login01", "login1", "nid000001", "x3001c0s1b0n0", "uan01", "localhost", "node1.cluster.local")
"""Host names of several sites."""


@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_no_site_is_detected_by_a_common_host_name(name: str) -> None:
    patterns = shipped_site(name).detect.fqdn
    assert [host for host in BARE for pattern in patterns if re.fullmatch(pattern, host)] == []


UNTRIED = "not yet tried on the machine"
EXAMPLE = {"example": "mpi", "where": "a page", "read": "2026-11-23", "settings": {"--nodes": None}}


def unsaid(found: Site) -> Iterator[str]:
    """Yield what a site that is shipped lacks, by the words that docs/how-to/add-a-site.md has for it."""
    notes = "\n".join(found.notes)
    if not (found.detect.env or found.detect.fqdn or f"--site {found.name}" in notes):
        yield "| `detect` | or a note to use `--site NAME` |"
    if (UNTRIED in notes) == (found.status == "tried"):
        yield 'Unless it is `tried`, a note has the words "not yet tried on the machine" |'
    if not (found.published or found.unpublished):
        yield "the settings of the centre's own examples, or `unpublished` with the reason"


@pytest.mark.parametrize("name", sweep(sorted({*SHIPPED} - GENERIC)))
def test_shipped_site_has_detection_status_and_examples(name: str) -> None:
    assert list(unsaid(shipped_site(name))) == []


@pytest.mark.parametrize(
    ("keys", "demands"),
    [
        ({"status": "documented"}, 3),
        ({"status": "documented", "notes": [f"made from the documentation; {UNTRIED}"]}, 2),
        ({"status": "documented", "notes": [UNTRIED, "say `--site x`"], "published": [EXAMPLE]}, 0),
        ({"status": "tried", "detect": {"fqdn": ["a"]}, "unpublished": "there is none"}, 0),
        ({"status": "tried", "detect": {"fqdn": ["a"]}, "notes": [UNTRIED], "unpublished": "none"}, 1),
    ],
)
def test_missing_required_site_keys_are_reported(keys: dict[str, Any], demands: int) -> None:
    found = list(unsaid(site(**keys)))
    text = " ".join((shipped("site_configs").parent / "docs/how-to/add-a-site.md").read_text().split())
    assert (len(found), [words for words in found if words not in text]) == (demands, [])


def test_site_name_equals_its_file_name() -> None:
    assert [shipped_site(name).name for name in SHIPPED] == list(SHIPPED)
    assert tuple(sorted(site_files([shipped("site_configs")]))) == SHIPPED


def test_options_of_a_launcher() -> None:
    found = site(launchers={"srun": {"mpi": "pmix", "args": ["-v"]}})
    assert found.options("srun") == LauncherOptions(mpi="pmix", args=("-v",))
    assert found.options("mpirun") == LauncherOptions()


@pytest.mark.parametrize(("nodes", "walltime"), [(1, "1h"), (2, "1h"), (3, "3h"), (9, "3h"), (10, "5h")])
def test_walltime_by_number_of_nodes(nodes: int, walltime: str) -> None:
    partition = site(
        node_types={"n": {}},
        partitions={
            "p": {
                "nodes": {"n": 9},
                "max_walltime": "5h",
                "limits": [{"nodes": 2, "walltime": "1h"}, {"nodes": 9, "walltime": "3h"}],
            }
        },
    ).partitions["p"]
    assert partition.walltime_of(nodes) == Walltime.parse(walltime)
    assert partition.longest == Walltime.parse("5h")


def test_a_partition_without_limits() -> None:
    partition = site(node_types={"n": {}}, partitions={"p": {"nodes": {"n": 9}}}).partitions["p"]
    assert (partition.walltime_of(1), partition.longest) == (None, None)


NODE = {"n": {"cpus": 4}}


@pytest.mark.parametrize(
    "data", [{}, {"node_types": {"n": {"cpus": 8, "gpus": 2, "gpu_cpus": ["0-3", "92-95"]}}}]
)
def test_sites_without_problems(data: dict[str, Any]) -> None:
    assert problems(**data) == []


@pytest.mark.parametrize(
    "data",
    [
        {"node_types": NODE, "partitions": {"p": {"nodes": {"m": 1}}}},
        {"node_types": NODE, "partitions": {"p": {"nodes": {}}}},
        {"node_types": NODE, "partitions": {"gpu": {"nodes": {"n": 1}}}, "default_partition": "gpus"},
        {"default_cpu_partition": "cpu"},
        {"default_partition": "gpu"},
        pytest.param(
            {
                "node_types": NODE,
                "partitions": {
                    "p": {
                        "nodes": {"n": 1},
                        "limits": [{"nodes": 2, "walltime": "1h"}, {"nodes": 2, "walltime": "2h"}],
                    }
                },
            },
            id="limits that do not ascend",
        ),
        pytest.param(
            {
                "node_types": NODE,
                "partitions": {"p": {"nodes": {"n": 1}}},
                "node_selectors": {"disk": {"ssd": {"partition": "q"}}},
            },
            id="a node selector without its partition",
        ),
        {"fabric": {"env": {"NCCL-NET": "IB"}}},
        {"fabric": {"env": {"A": {"value": 1, "otherwise": 2}}}},
        {"detect": {"env": {"HOST": "a("}, "fqdn": ["b("]}},
        {"account": {"pattern": "["}},
        {"node_types": {"n": {"cpus": 0, "gpus": -1}}},
        pytest.param(
            {
                "node_types": NODE,
                "partitions": {
                    "p": {
                        "nodes": {"n": -4},
                        "min_nodes": -1,
                        "max_nodes": 0,
                        "limits": [{"nodes": -2, "walltime": "1h"}],
                    }
                },
            },
            id="numbers of nodes below their least",
        ),
        {"node_types": NODE, "partitions": {"p": {"nodes": {"n": 9}, "min_nodes": 4, "max_nodes": 2}}},
        {"replica": {"cpus": 0}, "launchers": {"jsrun": {"threads_per_core": 0}}},
        {"node_types": {"n": {"cpus": 8, "gpus": 2, "gpu_cpus": ["0-3", "92-96"]}}},
        {"node_types": {"n": {"cpus": 8, "gpus": 3, "gpu_cpus": ["0-3", "0-3", "3-7"]}}},
        {"head_node": {"suffix": "; rm -rf ~"}, "modules": ["gcc/9.2+x", "--x"]},
    ],
    ids=str,
)
def test_problems_that_types_do_not_exclude(data: dict[str, Any], wording: Wording) -> None:
    wording(problems(**data))


@pytest.mark.parametrize(
    "keys",
    [
        {"request_memory": "shared"},
        {"request_memory": 2},
        {"node_types": {"n": {"gpus": "many"}}},
        {"partitions": {"p": {"nodes": {}, "whole_nodes": "share"}}},
    ],
    ids=str,
)
def test_words_allowed_besides_numbers_and_booleans_are_listed(
    keys: dict[str, Any], wording: Wording
) -> None:
    base = {"name": "x", "description": "a test", "scheduler": "slurm", "launcher": "srun"}
    wording(map(str, fields.build(Site, base | keys)[1]))
