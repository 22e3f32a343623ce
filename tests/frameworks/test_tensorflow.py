from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcdist import frameworks, load, source
from hpcdist.frameworks.plain import section_of
from hpcdist.frameworks.tensorflow import TENSORFLOW, Section
from hpcdist.placement import Crowd, place
from hpcdist.plan import Plan
from hpcdist.wiring import Wiring
from tests.experiments import environment, experiment, resources
from tests.plans import LOCAL, TESTBED, planned
from tests.tasks import PORT, told
from tests.test_placement import jobs

PLAN = planned(framework="tensorflow", environment=environment(1, ps=1))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crowds=jobs(), data=st.data())
def test_every_task_is_told_where_all_are(tmp_path: Path, crowds: list[Crowd], data: st.DataObject) -> None:
    placement = place(crowds)
    plan = replace(PLAN, placement=placement, head_suffix="i")
    first: dict[tuple[str, int], str] = {}
    for task in placement.tasks:
        first.setdefault((task.role, task.index), f"node{task.node}i:{PORT + task.local_rank}")
    peers: dict[str, list[str]] = {}
    for (role, _), address in first.items():
        peers.setdefault(role, []).append(address)
    chosen = data.draw(st.sampled_from(list(placement.tasks)))
    own = TENSORFLOW.task_variables(plan, experiment(tensorflow={"version": "1.15"}), TESTBED)
    (variables,) = told(replace(plan, task_variables=own), tmp_path, [chosen])
    assert json.loads(variables["TF_CONFIG"]) == {
        "cluster": peers,
        "task": {"type": chosen.role, "index": chosen.index},
        "model_dir": "$HPCDIST_OUTPUTS",
        "environment": "cloud",
    }


def tf_configs(plan: Plan) -> list[Any]:
    wiring = Wiring(plan)
    return [json.loads(wiring.of(task)["TF_CONFIG"]) for task in plan.placement.tasks]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "chief"),
        ("2", "chief"),
        ("2.16.1", "chief"),
        ("10.0", "chief"),
        ("1.15", "master"),
        ("1.x", "master"),
        ("1", "master"),
        ("0.12", "master"),
        ("0", "master"),
    ],
)
def test_what_the_cluster_calls_the_master(version: str | None, name: str) -> None:
    section = {"version": version}
    plan = planned(framework="tensorflow", tensorflow=section, environment=environment(1))
    configs = tf_configs(plan)
    assert [config["task"] for config in configs] == [
        {"type": name, "index": 0},
        {"type": "worker", "index": 0},
    ]
    assert [list(config["cluster"]) for config in configs] == [[name, "worker"]] * 2


def test_a_version_is_read_as_it_is_written() -> None:
    text = "run: {cmd: x}\nframework: tensorflow\ntensorflow: {version: 1.10}"
    exp = load.load_experiment(source.parse(text, "e.yml")).experiment
    assert section_of(Section, exp, "tensorflow") == Section(version="1.10")


@pytest.mark.parametrize(
    ("section", "sentences"),
    [
        ({"version": "two"},
         ["tensorflow.version: 'two' is no version of TensorFlow; write one such as 1.15 or 2.16"]),
        ({"version": ">=2"},
         ["tensorflow.version: '>=2' is no version of TensorFlow; write one such as 1.15 or 2.16"]),
        ({"verison": "2"},
         ["tensorflow.verison: unknown key 'verison'; did you mean 'version'?"]),
        ({"ends_with": "ps"},
         ["tensorflow.ends_with: 'ps' is not known here; known: master, workers"]),
        ({"ends_with": "master", "version": "1.15"}, []),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_section(section: dict[str, str], sentences: list[str]) -> None:
    exp = experiment(framework="tensorflow", tensorflow=section)
    assert [str(problem) for problem in frameworks.problems_of(exp)] == sentences


EVALUATOR = {"replicas": {"n_workers": 1, "evaluator": {}}}
BOTH = ("master", "worker")


@pytest.mark.parametrize(
    ("section", "replicas", "awaited"),
    [
        ({}, environment(), ()),  # nobody serves
        ({}, environment(2), ()),
        ({"version": "1.15"}, environment(2), ()),
        ({"ends_with": "master"}, environment(2), ("master",)),
        ({}, environment(2, ps=1), ("master",)),  # its coordinator
        ({"ends_with": "workers"}, environment(2, ps=1), BOTH),
        ({"version": "1.15"}, environment(2, ps=1), BOTH),
        ({"version": "1.15", "ends_with": "master"}, environment(2, ps=1), ("master",)),
        ({"version": "1.15"}, environment(ps=1), ("master",)),
        ({}, EVALUATOR, BOTH),
    ],
)
def test_whose_end_is_the_end_of_the_job(
    section: dict[str, str], replicas: dict[str, Any], awaited: tuple[str, ...]
) -> None:
    plan = planned(framework="tensorflow", tensorflow=section, environment=replicas)
    assert plan.awaited == awaited
    assert plan.awaited_tasks == sum(task.role in awaited for task in plan.placement.tasks)


def test_a_launch_of_the_users_own_is_not_ended_for_its_servers() -> None:
    run = {"cmd": "srun python train.py"}
    assert planned(framework="tensorflow", run=run, environment=environment(1, ps=1)).awaited == ()


def test_the_evaluator_is_beside_the_cluster() -> None:
    plan = planned(framework="tensorflow", environment=EVALUATOR)
    last = tf_configs(plan)[-1]
    assert last["cluster"] == {"chief": ["node0:PORT"], "worker": ["node0:PORT+1"]}
    assert last["task"] == {"type": "evaluator", "index": 0}


@settings(deadline=None)
@given(
    workers=st.integers(0, 60),
    ps=st.integers(0, 20),
    processes=st.integers(1, 4),
    machine=st.sampled_from([LOCAL, TESTBED]),
)
def test_no_two_tasks_listen_on_the_same_port_of_a_node(
    workers: int, ps: int, processes: int, machine: Any
) -> None:
    few = 1 if machine is LOCAL else 8
    section = environment(workers // few, ps // few, processes_per_replica=processes)
    plan = planned(machine, framework="tensorflow", environment=section)
    cluster = tf_configs(plan)[0]["cluster"]
    addresses = [address for role in cluster.values() for address in role]
    assert len(set(addresses)) == len(addresses) == 1 + workers // few + ps // few
    offsets = [int(address.partition("+")[2] or 0) for address in addresses]
    assert max(offsets) < plan.ports


@pytest.mark.parametrize(("workers", "ports"), [(0, 16), (15, 16), (16, 32), (32, 64)])
def test_as_many_ports_as_a_node_has_tasks_and_sixteen_at_least(workers: int, ports: int) -> None:
    section = environment(workers, each=resources(cpu=1))
    assert planned(LOCAL, framework="tensorflow", environment=section).ports == ports
