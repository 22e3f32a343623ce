"""Conditions of a site's fabric: what a job of that size, library and container is told."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.script.renderer import render
from hpcdist.site.fabric import (
    Fabric,
    JobFacts,
    ResolvedSetting,
    active_groups,
    problems_of,
    resolve_settings,
)
from tests.experiments import environment, resources
from tests.plans import planned, words
from tests.sites import site
from tests.wording import Wording

ALONE, TWO = JobFacts(1, "nccl"), JobFacts(2, "nccl")
TOGETHER = {"why": "alt_read needs it", "env": {"FI_CXI_RDZV_PROTO": "alt_read"}}
LIBRARY = {"value": "AWS Libfabric", "found": "libnccl-net.so", "when": "multi_node"}


def fabric(**data: Any) -> Fabric:
    built, problems = fields.build(Fabric, data)
    assert problems == []
    assert built is not None
    return built


@pytest.mark.parametrize(
    ("entry", "around", "expected"),
    [
        (1, ALONE, [ResolvedSetting("X", 1, "fabric.env.X")]),
        (
            {"value": 1, "when": "multi_node"},
            TWO,
            [ResolvedSetting("X", 1, "fabric.env.X", notes=("multi_node",))],
        ),
        ({"value": 1, "when": "multi_node"}, ALONE, []),
        (
            {"value": 1, "when": "multi_node", "otherwise": 0},
            ALONE,
            [ResolvedSetting("X", 0, "fabric.env.X", notes=("not multi_node",))],
        ),
        ({"value": 1, "library": "nccl"}, TWO, [ResolvedSetting("X", 1, "fabric.env.X", notes=("nccl",))]),
        ({"value": 1, "library": "rccl"}, TWO, []),
        ({"value": 1, "library": "nccl"}, JobFacts(2), []),
        ({"value": 1, "container": True}, TWO, []),
        (
            {"value": 1, "container": False},
            TWO,
            [ResolvedSetting("X", 1, "fabric.env.X", notes=("outside containers",))],
        ),
        (
            {"value": 1, "container": True},
            JobFacts(2, "nccl", container=True),
            [ResolvedSetting("X", 1, "fabric.env.X", notes=("in a container",))],
        ),
        ({"value": 1, "frameworks": ["horovod", "none"]}, JobFacts(2, framework="mpi"), []),
        (
            {"value": 1, "frameworks": ["horovod", "none"]},
            TWO,
            [ResolvedSetting("X", 1, "fabric.env.X", notes=("framework horovod/none",))],
        ),
        (
            {"value": 1, "links": "libnccl.so", "frameworks": ["mpi"], "otherwise": 0},
            JobFacts(2, framework="mpi"),
            [
                ResolvedSetting(
                    "X",
                    1,
                    "fabric.env.X",
                    "",
                    ("framework mpi, if the program links libnccl.so",),
                    None,
                    0,
                    "libnccl.so",
                )
            ],
        ),
        (
            {"value": 1, "found": "a.so", "otherwise": 2},
            TWO,
            [ResolvedSetting("X", 1, "fabric.env.X", "", ("if a.so is found",), "a.so", 2)],
        ),
    ],
)
def test_setting_applies_if_all_conditions_hold(
    entry: object, around: JobFacts, expected: list[ResolvedSetting]
) -> None:
    assert list(resolve_settings(fabric(env={"X": entry}), around)) == expected


def test_an_mpi_job_without_gpus_has_no_variables_of_their_libraries() -> None:
    env = fabric(env={"NCCL_CROSS_NIC": 1, "RCCL_MSCCL_ENABLE": 0, "FI_PROVIDER": "cxi"})
    expected = [ResolvedSetting("FI_PROVIDER", "cxi", "fabric.env.FI_PROVIDER")]
    assert list(resolve_settings(env, JobFacts(2, gpus=False, framework="mpi"))) == expected


def test_group_applies_as_a_whole() -> None:
    whole = fabric(together=[TOGETHER | {"when": "multi_node", "directives": ["--network=x"]}])
    assert list(active_groups(whole, ALONE)) == []
    assert list(resolve_settings(whole, ALONE)) == []
    key, why = "fabric.together.0", "alt_read needs it"
    expected = ResolvedSetting("FI_CXI_RDZV_PROTO", "alt_read", key, why, ("multi_node",))
    assert list(resolve_settings(whole, TWO)) == [expected]
    assert [group.directives for _, group in active_groups(whole, TWO)] == [("--network=x",)]


@pytest.mark.parametrize(
    "data",
    [
        {"env": {"A-B": 1}},
        {"env": {"X": {"value": 1, "otherwise": 2}}},
        pytest.param({"env": {"FI_CXI_RDZV_PROTO": "x"}, "together": [TOGETHER]}, id="a variable twice"),
        pytest.param(
            {"together": [TOGETHER | {"args": ["-x"], "found": "a.so"}]}, id="args that a file decides"
        ),
        {"env": {"X": {"value": 1, "found": "$(reboot)"}}},
        {"known": {"X": "so"}},
    ],
    ids=str,
)
def test_problems(data: dict[str, Any], wording: Wording) -> None:
    wording(map(str, problems_of(fabric(**data))))


TWO_NODES = {"framework": "mpi", "environment": environment(1, each=resources(cpu=2))}


def test_plan_has_the_settings_of_a_group_with_their_reason() -> None:
    group = TOGETHER | {"directives": ["--network=disable_rdzv_get"], "args": ["--network=disable_rdzv_get"]}
    plan = planned(
        site(fabric={"together": [group]}, launchers={"srun": {"args": ["--verbose"]}}), **TWO_NODES
    )
    origin = Origin("site", "x", "fabric.together.0", "alt_read needs it")
    assert [line.origin for line in plan.directives if line.flag == "--network"] == [origin]
    assert plan.arguments == (
        Word(text="--verbose", origin=Origin("site", "x", "launchers.srun.args")),
        Word(text="--network=disable_rdzv_get", origin=origin),
    )
    assert [text for text in words(plan) if text in ("--verbose", "--network=disable_rdzv_get")] == [
        "--verbose",
        "--network=disable_rdzv_get",
    ]


@pytest.mark.parametrize(
    ("entry", "files", "value"),
    [
        (LIBRARY, ["libnccl-net.so"], "AWS Libfabric"),
        (LIBRARY, [], "unset"),
        (LIBRARY | {"otherwise": "Socket"}, [], "Socket"),
        (LIBRARY | {"found": "$PLACE/lib*.so"}, ["libnccl-net.so"], "AWS Libfabric"),
        (LIBRARY | {"found": "$PLACE/lib*.so"}, ["other.so"], "unset"),
    ],
)
def test_script_searches_the_file_of_a_condition(
    tmp_path: Path, entry: dict[str, Any], files: list[str], value: str
) -> None:
    plan = planned(site(fabric={"env": {"FI_PROVIDER": entry}}), **TWO_NODES)
    for name in files:
        (tmp_path / name).touch()
    (lines,) = re.findall(r"^if .*FI_PROVIDER.*?^fi$", render(plan), re.MULTILINE | re.DOTALL)
    text = lines + '\nprintf %s "${FI_PROVIDER-unset}"'
    places = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}", "PLACE": str(tmp_path)}
    said = subprocess.run(["bash", "-c", text], env=places, capture_output=True, text=True, check=True).stdout
    assert said == value


def test_plan_shows_the_file_of_a_condition() -> None:
    plan = planned(site(fabric={"env": {"FI_PROVIDER": LIBRARY}}), **TWO_NODES)
    assert (
        Variable(
            name="FI_PROVIDER",
            value="AWS Libfabric",
            origin=Origin(
                "site", "x", "fabric.env.FI_PROVIDER", notes=("multi_node, if libnccl-net.so is found",)
            ),
            found="libnccl-net.so",
        )
        in plan.environment.variables
    )
