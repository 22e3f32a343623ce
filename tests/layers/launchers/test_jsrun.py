from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Task
from hpcdist.plan.values import Origin, Word
from hpcdist.script.renderer import render
from hpcdist.site.model import LauncherOptions, RankVariables
from hpcdist.site.problems import problems_of
from tests.experiments import environment, resources
from tests.layers.launchers.jsrun_checker import check
from tests.layers.launchers.jsrun_erf import Machine, Placed
from tests.layers.launchers.jsrun_script import resource_file
from tests.plans import WRAPPED, changed, planned, warnings_of, words
from tests.sites import site_named
from tests.tasks import told

SUMMIT = site_named("summit-like")
BATCH = {"account": "abc"}


def summit(machine: Any = SUMMIT, **data: Any) -> Plan:
    return planned(machine, **({"framework": "mpi", "batch": BATCH} | data))


def meant(plan: Plan, folder: Path) -> tuple[Placed, ...]:
    """Return where jsrun puts the tasks of a plan, by its launch line and its resource file."""
    hosts = tuple(f"h{number}" for number in range(plan.placement.nodes))
    line = [
        "--erf_input=resources" if word.text.startswith("--erf_input") else word.text
        for word in plan.words[: words(plan).index(WRAPPED[0])]
    ]
    step = check(
        [*line, "bash"],
        Machine(hosts),
        {"LSB_JOBID": "1"},
        lambda _: resource_file(render(plan), hosts, folder),
    )
    assert step.program == ("bash",)
    return step.tasks


def shape(task: Task) -> tuple[int, int, int]:
    return task.node, task.local_rank, len(task.cpus)


def agrees(plan: Plan, folder: Path) -> None:
    """Hold that jsrun's map is the plan's: hosts, numbers of cores that nobody shares, and GPUs."""
    tasks, placed = list(plan.placement.tasks), meant(plan, folder)
    assert [(int(p.host[1:]), p.local_rank, len(p.cores)) for p in placed] == [shape(task) for task in tasks]
    cores = [(p.host, core) for p in placed for core in p.cores]
    assert len(cores) == len(set(cores))
    if plan.gpus.visibility == "launcher":
        assert [p.gpus for p in placed] == [task.gpus for task in tasks]
    else:
        assert all(set(task.gpus) <= set(p.gpus) for p, task in zip(placed, tasks, strict=True))


def test_a_set_for_each_task() -> None:
    plan = summit(environment=environment(11, each=resources(cpu=7, gpu=1)))
    assert words(plan) == [
        "jsrun",
        "--nrs=12",
        "--tasks_per_rs=1",
        "--cpu_per_rs=7",
        "--gpu_per_rs=1",
        "--rs_per_host=6",
        "--launch_distribution=packed",
        "--latency_priority=gpu-cpu",
        "--bind=packed:7",
        "--exit_on_error=1",
        "--smpiargs=-gpu",
        *WRAPPED,
    ]
    assert plan.words[10] == Word(
        text="--smpiargs=-gpu", origin=Origin("site", "summit-like", "launchers.jsrun.args")
    )
    assert (plan.gpus.visibility, plan.launch.label_in_task, plan.launch.needs_pmi) == (
        "launcher",
        True,
        False,
    )
    assert plan.launch.rank_variables == RankVariables(
        rank="JSM_NAMESPACE_RANK", size="JSM_NAMESPACE_SIZE", local_rank="JSM_NAMESPACE_LOCAL_RANK"
    )


def test_the_wrapper_takes_no_gpu_that_jsrun_has_renumbered(tmp_path: Path) -> None:
    plan = summit(environment=environment(5, each=resources(cpu=7, gpu=1)))
    for variables in told(plan, tmp_path, names=["HPCDIST_GPUS"], CUDA_VISIBLE_DEVICES="0"):
        assert (variables["CUDA_VISIBLE_DEVICES"], variables["HPCDIST_GPUS"]) == ("0", "0")


def test_a_set_for_each_host_where_the_wrapper_chooses_the_gpus() -> None:
    machine = site_named("summit-like-task")
    plan = summit(machine, environment=environment(11, each=resources(cpu=7, gpu=1)))
    assert plan.gpus.visibility == "node"
    assert words(plan)[1:9] == [
        "--nrs=2",
        "--tasks_per_rs=6",
        "--cpu_per_rs=42",
        "--gpu_per_rs=6",
        "--rs_per_host=1",
        "--launch_distribution=packed",
        "--latency_priority=gpu-cpu",
        "--bind=packed:7",
    ]


def test_words_of_the_site_that_bind() -> None:
    options = {"jsrun": LauncherOptions(binding=("--bind=rs",))}
    plan = summit(changed(SUMMIT, launchers=options), environment=environment(1, each=resources(cpu=2)))
    assert words(plan)[7:] == ["--bind=rs", "--exit_on_error=1", *WRAPPED]
    assert plan.words[7].origin == Origin("site", "summit-like", "launchers.jsrun.binding")


def test_a_resource_file_for_unequal_tasks(tmp_path: Path) -> None:
    plan = summit(environment=UNEQUAL)
    assert words(plan) == [
        "jsrun",
        '--erf_input="$(resources 4 error)"',
        "--exit_on_error=1",
        "--smpiargs=-gpu",
        *WRAPPED,
    ]
    assert resource_file(render(plan), ("h0", "h1"), tmp_path) == (
        "cpu_index_using: logical\n"
        "launch_distribution: packed\n"
        "overlapping_rs: error\n"
        "oversubscribe_cpu: error\n"
        "oversubscribe_gpu: error\n"
        "oversubscribe_mem: allow\n"
        "skip_missing_cpu: error\n"
        "skip_missing_gpu: error\n"
        "skip_missing_mem: allow\n"
        "\n"
        "rank: 0: { hostname: h0; cpu: {0-79}; gpu: {0-1} }\n"
        "rank: 1: { hostname: h0; cpu: {80-119}; gpu: {2} }\n"
        "rank: 2: { hostname: h1; cpu: {0-39}; gpu: {0} }\n"
        "rank: 3: { hostname: h1; cpu: {40-79}; gpu: {1} }\n"
        "rank: 4: { hostname: h1; cpu: {80-119}; gpu: {2} }\n"
    )


@pytest.mark.parametrize("folder", [".", "absent"])
def test_jsrun_never_starts_without_its_resource_file(tmp_path: Path, folder: str) -> None:
    program = tmp_path / "jsrun"
    program.write_text('#!/bin/bash\nprintf "%s\\n" "$@" >words\n')
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LSB_JOBID": "7", "LS_SUBCWD": str(tmp_path)}
    environ |= {"LSB_MCPU_HOSTS": "login 1 h0 42 h1 42"} | (
        {"HPCDIST_RUN_DIR": folder} if folder != "." else {}
    )
    script = render(summit(environment=UNEQUAL))
    done = subprocess.run(["bash"], input=script, env=environ, capture_output=True, text=True, check=False)
    if folder == ".":
        assert f"--erf_input={tmp_path}/resources.7" in (tmp_path / "words").read_text(), done.stderr
    else:
        assert (done.returncode, (tmp_path / "words").exists()) == (86, False)
        assert "hpcdist: cannot write absent/resources.7; is the disk full?" in done.stderr


ALONE = (
    "jsrun shows each task its own GPUs alone: rank 1 has device 0, and its rank on the node is 1; a program "
    "that takes the device of that number, such as `hvd.local_rank()`, fails there or takes another's: let "
    "it take the first of HPCDIST_GPUS"
)


def test_explicit_resource_file_warns() -> None:
    said = (
        "the tasks are not alike on all nodes, so that jsrun reads their cores from an explicit resource "
        "file (--erf_input): it counts 4 hardware threads a core (the site's `threads_per_core`), binds "
        "each task to its cores, whatever the site's `binding`, and was never tried on a real jsrun; "
        "Summit's refused files that named the first core of the second socket; the same resources for all "
        "replicas, as many on each node, need no file"
    )
    assert warnings_of(summit(environment=UNEQUAL)) == (ALONE, said)
    assert warnings_of(summit(environment=environment(11, each=resources(cpu=7, gpu=1)))) == (ALONE,)
    one = changed(SUMMIT, launchers={})
    assert warnings_of(summit(one, environment=UNEQUAL)) == (
        ALONE,
        said.replace("4 hardware threads", "1 hardware thread"),
    )


UNEQUAL = {
    "resources": resources(cpu=20, gpu=2),
    "processes_per_replica": 1,
    "replicas": {"n_workers": 4, "default_worker": {"resources": resources(cpu=10, gpu=1)}},
}

SHAPES: dict[str, dict[str, Any]] = {
    "one": {"each": resources(cpu=1)},
    "cpus only": {"workers": 6, "each": resources(cpu=6)},
    "a gpu each": {"workers": 11, "each": resources(cpu=7, gpu=1)},
    "whole nodes": {"workers": 2, "each": resources(gpu=6)},
    "three gpus a replica": {"workers": 3, "each": resources(cpu=21, gpu=3)},
    "five where four fit": {"workers": 4, "each": resources(cpu=10)},
    "seven": {"workers": 6, "each": resources(cpu=7, gpu=1)},
    "eleven cores that span sockets": {"workers": 5, "each": resources(cpu=11)},
    "a hundred": {"workers": 99, "each": resources(cpu=7, gpu=1)},
    "shared gpus": {"workers": 3, "each": resources(cpu=20, gpu=2), "processes_per_replica": 4},
    "one process with many gpus": {
        "workers": 3,
        "each": resources(cpu=20, gpu=3),
        "processes_per_replica": 1,
    },
}


@pytest.mark.parametrize("site", ["summit-like", "summit-like-task"])
@pytest.mark.parametrize("data", [*(environment(**shape) for shape in SHAPES.values()), UNEQUAL],
                         ids=[*SHAPES, "unequal"])  # fmt: skip
def test_jsrun_places_tasks_as_the_plan_does(data: dict[str, Any], site: str, tmp_path: Path) -> None:
    agrees(summit(site_named(site), environment=data), tmp_path)


def test_a_master_without_gpus(tmp_path: Path) -> None:
    data = {
        "resources": resources(cpu=2),
        "replicas": {"n_workers": 3, "default_worker": {"resources": resources(cpu=4, gpu=1)}},
    }
    for site in ("summit-like", "summit-like-task"):
        agrees(summit(site_named(site), environment=data), tmp_path)


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (resources(cpu=43), "has 42 CPUs a node, 43 requested by master"),
        (resources(cpu=7, gpu=7), "has 6 GPUs a node, 7 requested by master"),
    ],
)
def test_tasks_too_large_for_a_host_are_refused(each: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        summit(environment=environment(1, each=each))
    assert said in str(error.value), str(error.value)


def test_other_batch_systems_have_none() -> None:
    with pytest.raises(PlanError, match="launcher jsrun does not start tasks under scheduler slurm"):
        planned(framework="mpi", batch={"launcher": "jsrun"}, environment=environment(1))


@pytest.mark.parametrize("visibility", ["task", "node"])
def test_whose_gpus_a_task_sees(visibility: str, tmp_path: Path) -> None:
    machine = site_named("summit-like-task")
    batch = BATCH | {"gpu_visibility": visibility}
    for data in (environment(11, each=resources(cpu=7, gpu=1)), UNEQUAL):
        plan = summit(machine, framework="pytorch", batch=batch, environment=data)
        assert plan.gpus.visibility == visibility
        agrees(plan, tmp_path)


def test_nobody_sees_more_than_jsrun_shows() -> None:
    with pytest.raises(
        PlanError, match=r"batch\.gpu_visibility: on site summit-like each task sees the GPUs"
    ):
        summit(batch=BATCH | {"gpu_visibility": "node"}, environment=environment(1, each=resources(gpu=1)))


def test_sites_of_these_tests_are_whole() -> None:
    for name in ("summit-like", "summit-like-task", "csm-nodes", "lsf-nodes"):
        assert list(problems_of(site_named(name))) == []
