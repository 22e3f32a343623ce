from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.resources import shipped
from hpcdist.layers import frameworks
from hpcdist.layers.frameworks import section_of
from hpcdist.layers.frameworks.tensorflow import TENSORFLOW, TensorFlowSection
from hpcdist.layers.variables import Wiring
from hpcdist.loading import load
from hpcdist.plan.model import Plan
from hpcdist.planner.placement import ReplicaGroup, place
from hpcdist.testing.contract import altered
from tests.experiments import environment, experiment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, TESTBED, planned
from tests.tasks import PORT, told
from tests.tiers import examples

PLAN = planned(framework="tensorflow", environment=environment(1, ps=1))


@pytest.mark.extended
@examples(40)
@given(crowds=jobs(), data=st.data())
def test_every_task_is_told_where_all_are(
    tmp_path: Path, crowds: list[ReplicaGroup], data: st.DataObject
) -> None:
    placement = place(crowds)
    plan = altered(PLAN, placement=placement, suffix="i")
    first: dict[tuple[str, int], str] = {}
    for task in placement.tasks:
        first.setdefault((task.role, task.index), f"node{task.node}i:{PORT + task.local_rank}")
    peers: dict[str, list[str]] = {}
    for (role, _), address in first.items():
        peers.setdefault(role, []).append(address)
    chosen = data.draw(st.sampled_from(list(placement.tasks)))
    own = TENSORFLOW.task_variables(plan, experiment(tensorflow={"version": "1.15"}), TESTBED)
    (variables,) = told(altered(plan, task_variables=own), tmp_path, [chosen])
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
        (None, "worker"),
        ("2", "worker"),
        ("2.16.1", "worker"),
        ("10.0", "worker"),
        ("1.15", "master"),
        ("1.x", "master"),
        ("1", "master"),
        ("0.12", "master"),
        ("0", "master"),
    ],
)
def test_name_of_the_master_in_tf_config(version: str | None, name: str) -> None:
    section = {"version": version}
    plan = planned(framework="tensorflow", tensorflow=section, environment=environment(1))
    configs = tf_configs(plan)
    assert [config["task"] for config in configs] == [
        {"type": name, "index": 0},
        {"type": "worker", "index": int(name == "worker")},
    ]
    assert [list(config["cluster"]) for config in configs] == [[*dict.fromkeys((name, "worker"))]] * 2


ALONE = {"worker": ["node0:PORT", "node0:PORT+1", "node0:PORT+2"]}
WITH_CHIEF = {"chief": ["node0:PORT"], "worker": ["node0:PORT+1", "node0:PORT+2"]}


@pytest.mark.parametrize(
    ("section", "more", "cluster", "task"),
    [
        ({}, {}, ALONE, {"type": "worker", "index": 2}),
        ({"chief": False}, {}, ALONE, {"type": "worker", "index": 2}),
        ({"chief": True}, {}, WITH_CHIEF, {"type": "worker", "index": 1}),
        ({"chief": False, "version": "1.15"}, {}, ALONE, {"type": "worker", "index": 2}),
        ({}, {"evaluator": {}}, WITH_CHIEF, {"type": "evaluator", "index": 0}),
        ({"chief": False}, {"evaluator": {}}, ALONE, {"type": "evaluator", "index": 0}),
        ({}, {"n_ps": 1}, WITH_CHIEF | {"ps": ["node0:PORT+3"]}, {"type": "ps", "index": 0}),
        ({"chief": False}, {"n_ps": 1}, ALONE | {"ps": ["node0:PORT+3"]}, {"type": "ps", "index": 0}),
        (
            {"chief": False},
            {"n_workers": 0, "n_ps": 1},
            {"worker": ["node0:PORT"], "ps": ["node0:PORT+1"]},
            {"type": "ps", "index": 0},
        ),
        (
            {},
            {"n_workers": 0, "n_ps": 1},
            {"chief": ["node0:PORT"], "ps": ["node0:PORT+1"]},
            {"type": "ps", "index": 0},
        ),
    ],
)
def test_a_chief_where_somebody_needs_one(
    section: dict[str, Any], more: dict[str, Any], cluster: dict[str, list[str]], task: dict[str, Any]
) -> None:
    replicas = {"replicas": {"n_workers": 2, **more}}
    plan = planned(LOCAL, framework="tensorflow", tensorflow=section, environment=replicas)
    last = tf_configs(plan)[-1]
    assert (last["cluster"], last["task"]) == (cluster, task)
    (origin,) = {item.origin for item in plan.environment.task_variables if item.name == "TF_CONFIG"}
    kinds = "workers and parameter servers" if "ps" in cluster else "workers alone"
    form = "with a chief, which" if "chief" in cluster else f"of {kinds}; its first worker"
    assert str(origin) == f"framework tensorflow: a cluster {form} is the master"


def test_a_master_alone_is_the_one_worker() -> None:
    (config,) = tf_configs(planned(framework="tensorflow"))
    assert (config["cluster"], config["task"]) == (
        {"worker": ["node0:PORT"]},
        {"type": "worker", "index": 0},
    )


TUTORIAL = """
import json, os, sys
import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util

for line in sys.stdin:
    os.environ["TF_CONFIG"] = line
    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec, kind, number = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    chief = multi_worker_util.is_chief(spec, kind, number)
    print(workers, multi_worker_util.worker_count(spec, kind), kind, number, chief)
print(tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync)
"""
"""How TensorFlow's own tutorial counts the workers, and how TensorFlow does; the last is then started."""


@pytest.mark.extended
@pytest.mark.real
def test_tensorflow_reads_tf_config(tmp_path: Path) -> None:
    shapes = ({"n_workers": 2}, {"n_workers": 0})
    configs = [
        config
        for shape in shapes
        for config in tf_configs(planned(LOCAL, framework="tensorflow", environment={"replicas": shape}))
    ]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = "\n".join(map(json.dumps, configs)).replace("node0:PORT", "127.0.0.1:PORT")
    for offset in (1, 2):
        lines = lines.replace(f"PORT+{offset}", str(port + offset))
    python = shipped("site_configs").parent / ".frameworks" / "tensorflow" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", TUTORIAL],
        input=lines.replace("PORT", str(port)),
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "3 3 worker 0 True",
            "3 3 worker 1 False",
            "3 3 worker 2 False",
            "1 1 worker 0 True",
            "1",
        ],
    ), done.stderr


def test_a_version_is_read_as_it_is_written() -> None:
    text = "run: {cmd: x}\nframework: tensorflow\ntensorflow: {version: 1.10}"
    exp = load.load_experiment(source.parse(text, "e.yml")).experiment
    assert section_of(TensorFlowSection, exp, "tensorflow") == TensorFlowSection(version="1.10")


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
         ["tensorflow.ends_with: 'ps' is not a valid value; known: master, workers"]),
        ({"ends_with": "master", "version": "1.15"}, []),
        ({"chief": "no"}, ["tensorflow.chief: expected true or false, got 'no'"]),
    ],
)  # fmt: skip
def test_invalid_sections(section: dict[str, str], sentences: list[str]) -> None:
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
        ({}, environment(ps=1), ("master",)),
        ({"chief": False}, environment(2, ps=1), BOTH),  # nobody coordinates
        ({}, EVALUATOR, BOTH),
    ],
)
def test_whose_end_is_the_end_of_the_job(
    section: dict[str, str], replicas: dict[str, Any], awaited: tuple[str, ...]
) -> None:
    plan = planned(framework="tensorflow", tensorflow=section, environment=replicas)
    assert plan.completion.required_roles == awaited
    assert plan.required_tasks == sum(task.role in awaited for task in plan.placement.tasks)


def test_a_launch_of_the_users_own_is_not_ended_for_its_servers() -> None:
    run = {"cmd": "srun python train.py"}
    assert (
        planned(framework="tensorflow", run=run, environment=environment(1, ps=1)).completion.required_roles
        == ()
    )


def test_the_evaluator_is_beside_the_cluster() -> None:
    plan = planned(framework="tensorflow", environment=EVALUATOR)
    last = tf_configs(plan)[-1]
    assert last["cluster"] == {"chief": ["node0:PORT"], "worker": ["node0:PORT+1"]}
    assert last["task"] == {"type": "evaluator", "index": 0}


def test_servers_without_a_chief_are_for_programs_of_their_own() -> None:
    exp = experiment(framework="tensorflow", tensorflow={"chief": False}, environment=environment(1, ps=1))
    (problem,) = frameworks.problems_of(exp)
    assert (problem.severity, problem.path) == ("warning", ("tensorflow", "chief"))
    assert problem.hint == "`--set tensorflow.chief=true` makes the master one"
    first = {"chief": False, "version": "1.15"}
    exp = experiment(framework="tensorflow", tensorflow=first, environment=environment(1, ps=1))
    assert [*frameworks.problems_of(exp)] == []


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
    assert max(offsets) < plan.rendezvous.ports


@pytest.mark.parametrize(("workers", "ports"), [(0, 16), (15, 16), (16, 32), (32, 64)])
def test_as_many_ports_as_a_node_has_tasks_and_sixteen_at_least(workers: int, ports: int) -> None:
    section = environment(workers, each=resources(cpu=1))
    assert planned(LOCAL, framework="tensorflow", environment=section).rendezvous.ports == ports
