from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.resources import shipped
from hpcdist.layers import frameworks
from hpcdist.plan.model import Plan
from tests.experiments import environment, experiment, resources
from tests.plans import planned, warnings_of, words
from tests.tasks import told

PROGRAM = "$HPCDIST_RUN_DIR/runtime/python/hpcdist_ray.py"


def options(plan: Plan) -> list[str]:
    """Return what the program that starts Ray is called with."""
    found = [word.strip('"') for word in words(plan)]
    return found[found.index(PROGRAM) + 1 : found.index("--")]


def test_ray_may_open_many_files() -> None:
    """The limit of the submitting shell is often 1024, and raylets of many workers need more."""
    shown = "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    script = f"import hpcdist_ray, resource; hpcdist_ray._allow_files(); {shown}"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1000))

    folder = shipped("templates") / "python"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        preexec_fn=limit,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "1000 1000\n"


def test_a_task_a_node_which_has_the_cpus_and_gpus_of_its_replicas(tmp_path: Path) -> None:
    plan = planned(framework="ray", environment=environment(2, each=resources(cpu=8, gpu=2)))
    found = [
        (item["HPCDIST_NODE"], item["HPCDIST_CPUS"], item["HPCDIST_GPUS"], item["RAY_ADDRESS"])
        for item in told(plan, tmp_path)
    ]
    assert found == [("0", "16", "0,1,2,3", "node0:20000"), ("1", "8", "0,1", "node0:20000")]
    assert (plan.completion.required_roles, plan.rendezvous.by_address, warnings_of(plan)) == (
        ("master",),
        True,
        (),
    )


def test_the_job_ends_with_its_only_node() -> None:
    plan = planned(framework="ray")
    assert (plan.placement.size, plan.completion.required_roles) == (1, ())


def test_options_of_ray_start() -> None:
    section = {
        "object_store": "20G",
        "dashboard_port": 8265,
        "start_timeout": 60,
        "args": ['--resources={"fast": 1}'],
        "head_args": ["--dashboard-host=::"],
    }
    plan = planned(framework="ray", ray=section, environment=environment(1, each=resources(cpu=4, gpu=3)))
    assert options(plan) == [
        "--nodes=2",
        "--wait=60",
        "--start=--object-store-memory=21474836480",
        "--head=--include-dashboard=true",
        "--head=--dashboard-port=8265",
        '--start=--resources={"fast": 1}',
        "--head=--dashboard-host=::",
    ]


@pytest.mark.parametrize(
    ("memory", "store"), [(1000, ["--start=--object-store-memory=314572800"]), (200, [])]
)
def test_the_object_store_is_a_part_of_the_memory_of_the_job(memory: int, store: list[str]) -> None:
    each = resources(cpu=2, memory=memory)
    found = options(planned(framework="ray", environment=environment(0, each=each)))
    assert [word for word in found if "store" in word] == store


@pytest.mark.parametrize(
    ("section", "problems"),
    [
        ({"object_store": "10M"}, ["ray.object_store: Ray needs a larger object store; write 75M or more"]),
        ({"dashboard_port": 80}, ["ray.dashboard_port: 80 is out of range; write 8265"]),
        ({"start_timeout": 0}, ["ray.start_timeout: 0 is out of range"]),
        (
            {"args": ["{}"]},
            ["ray.args[0]: '{}' is not an option; write it with its option: `--resources=...`"],
        ),
        ({"args": ["--num_cpus=2"]}, ["ray.args[0]: --num_cpus=2 is set by hpcdist; remove it"]),
        (
            {"head_args": ["--dashboard-port=1"]},
            ["ray.head_args[0]: --dashboard-port=1 is set by hpcdist; write `ray: {dashboard_port: ...}`"],
        ),
    ],
)
def test_wrong_values(section: dict[str, Any], problems: list[str]) -> None:
    found = frameworks.problems_of(experiment(framework="ray", ray=section))
    assert [str(problem) for problem in found] == problems


@pytest.mark.parametrize("command", ["ray start --head && python d.py", "sleep 1; ray  start --head"])
def test_a_command_that_starts_ray_itself(command: str) -> None:
    [problem] = frameworks.problems_of(experiment(framework="ray", run={"cmd": command}))
    assert problem.path == ("run", "cmd")
