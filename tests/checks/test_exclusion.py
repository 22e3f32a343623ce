"""Suspect nodes are excluded from jobs: as many as there may be, where the experiment wants that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcdist.checks.nodes import Evidence, NodeEvidence, exclude_suspects, grouped
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment

NOW = 1.8e9
PBS = "a job of PBS can name the nodes that it gets, and none that it must not get"
CSM = "site toy asks for whole nodes by -nnodes, with which LSF takes no names of nodes"
UNWANTED = "`batch: {exclude_bad_nodes: true}` excludes them"


def made(folder: Path, batch: dict[str, Any], site: dict[str, Any] | None = None, **keys: Any) -> Planned:
    """The plan of a job of one node on a partition of twenty; keys of the file and of the site are added."""
    own = {
        "name": "toy",
        "description": "twenty nodes of a kind",
        "scheduler": "slurm",
        "launcher": "srun",
        "node_types": {"big": {"cpus": 8, "memory": 16000, "gpus": 0}},
        "partitions": {"all": {"nodes": {"big": 20}}},
        "default_partition": "all",
        "walltime": "1h",
        "replica": {"cpus": 1},
    }
    (folder / "toy.yaml").write_text(json.dumps(own | (site or {})))
    (folder / "exp.yml").write_text(json.dumps({"run": {"cmd": "true"}, "batch": batch} | keys))
    options = ExperimentOptions(str(folder / "exp.yml"), site=str(folder / "toy.yaml"))
    return plan_experiment(options, {"HPCDIST_CONFIG": ""})


def lost(count: int) -> list[NodeEvidence]:
    """So many nodes that were lost, the last one longest ago, and one that is not suspect."""
    found = [Evidence(NOW - number, "toy", f"n{number}", "lost", "a-1", 0, "") for number in range(count)]
    found.append(Evidence(NOW, "toy", "fine", "failed", "a-1", 0, ""))
    return grouped(found)


def excluded(planned: Planned, count: int = 10) -> tuple[list[str], int, str]:
    """The nodes that the script excludes, how many suspect ones are left, and why they are."""
    found = exclude_suspects(planned, lost(count))
    lines = [line.value or "" for line in found.made.plan.directives if line.flag == "--exclude"]
    return [name for line in lines for name in line.split(",")], len(found.left), found.why


WANTED = {"exclude_bad_nodes": True}
FIVE = ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("batch", "keys", "expected"),
    [
        ({}, {}, ([], 10, UNWANTED)),
        (WANTED, {}, (FIVE, 5, "no more than 5 are excluded from this job")),
        ({}, {"environment": {"restart": {}}}, (FIVE, 5, "no more than 5 are excluded from this job")),
        ({}, {"environment": {"restart": {"exclude_bad_nodes": False}}}, ([], 10, UNWANTED)),
        ({"exclude_bad_nodes": False}, {"environment": {"restart": {}}}, ([], 10, UNWANTED)),
        (
            {**WANTED, "exclude_nodes": ["n1", "odd"]},
            {},
            (["n1", "odd", "n0", "n2", "n3", "n4", "n5"], 4, "no more than 5 are excluded from this job"),
        ),
        (
            {**WANTED, "directives": ["-x n3"]},
            {},
            (["n3"], 10, "the directive -x names the nodes already"),
        ),
        (
            WANTED,
            {"environment": {"replicas": {"n_workers": 17, "per_node": 1}}},
            (["n0", "n1"], 8, "no more than 2 are excluded from this job"),
        ),
    ],
)
def test_what_is_excluded(
    tmp_path: Path, batch: dict[str, Any], keys: dict[str, Any], expected: tuple[list[str], int, str]
) -> None:
    assert excluded(made(tmp_path, batch, framework="pytorch", **keys)) == expected


@pytest.mark.parametrize(("nodes", "most"), [(1, 0), (2, 1), (4, 1), (8, 2), (40, 8), (2000, 8), (None, 2)])
def test_never_too_many_are_excluded(tmp_path: Path, nodes: int | None, most: int) -> None:
    site = {"partitions": {"all": {"nodes": {"big": nodes}}}}
    names, left, _ = excluded(made(tmp_path, WANTED, site))
    assert (len(names), left) == (most, 10 - most)


@pytest.mark.parametrize(
    ("scheduler", "own", "flag", "value"),
    [
        ("lsf", {}, "-R", "select[hname!='n0' && hname!='n1' && hname!='n2' && hname!='n3' && hname!='n4']"),
        ("sge", {"sge": {"one_node": "smp"}}, "-l hostname", "!(n0|n1|n2|n3|n4)"),
        ("flux", {}, "--requires", "not host:n0,n1,n2,n3,n4"),
    ],
)
def test_each_batch_system_is_told_in_its_own_words(
    tmp_path: Path, scheduler: str, own: dict[str, Any], flag: str, value: str
) -> None:
    planned = made(tmp_path, WANTED, {"scheduler": scheduler, "launcher": "mpirun", **own})
    lines = [(line.flag, line.value) for line in exclude_suspects(planned, lost(10)).made.plan.directives]
    assert (flag, value) in lines


@pytest.mark.parametrize(
    ("scheduler", "batch", "why"),
    [
        ("lsf", {"directives": ["-m n7"]}, "the directive -m names the nodes already"),
        ("lsf", {"constraint": "hname=='n7'"}, "the constraint names the nodes already"),
        ("sge", {"directives": ["-l h=n7"]}, "the directive -l h names the nodes already"),
        ("sge", {"constraint": "fast,hostname=n7"}, "the constraint names the nodes already"),
        ("flux", {"constraint": "host:n7"}, "the constraint names the nodes already"),
    ],
)
def test_a_job_that_names_its_nodes_keeps_them(
    tmp_path: Path, scheduler: str, batch: dict[str, Any], why: str
) -> None:
    own = {"scheduler": scheduler, "launcher": "mpirun", "sge": {"one_node": "smp"}}
    planned = made(tmp_path, WANTED | batch, own)
    found = exclude_suspects(planned, lost(10))
    assert (found.made, found.why) == (planned, why)


@pytest.mark.parametrize(
    ("own", "why"), [({"scheduler": "pbs"}, PBS), ({"scheduler": "lsf", "lsf": {"request": "nodes"}}, CSM)]
)
def test_a_batch_system_that_cannot_be_told_keeps_them(tmp_path: Path, own: dict[str, Any], why: str) -> None:
    planned = made(tmp_path, WANTED, {"launcher": "mpirun", **own})
    assert excluded(planned) == ([], 10, why)


def test_nothing_changes_without_suspects(tmp_path: Path) -> None:
    planned = made(tmp_path, WANTED)
    assert exclude_suspects(planned, lost(0)) == (planned, (), (), "")


def test_its_origin_is_shown(tmp_path: Path) -> None:
    found = exclude_suspects(made(tmp_path, WANTED), lost(1)).made
    assert [str(line.origin) for line in found.plan.directives if line.flag == "--exclude"] == [
        "hpcdist doctor --nodes"
    ]
    assert found.document.text == (tmp_path / "exp.yml").read_text()
