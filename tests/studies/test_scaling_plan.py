"""One experiment planned for several numbers of nodes: what keeps it from that, and what it costs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from hpcdist.base.errors import HpcdistError, PlanError
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from hpcdist.plan.model import Plan
from hpcdist.planner.worst_case import Cost
from hpcdist.studies import scaling_plan
from hpcdist.studies.scaling_plan import SizeCost
from tests.wording import Wording

ONE: Final = {"resources": {"cpu": {"requests": 1}}}
SITE: Final = """
name: eight
description: nodes of eight CPUs
scheduler: slurm
launcher: srun
node_types: {cpu: {cpus: 8, memory: 16000}}
partitions: {all: {nodes: {cpu: 64}}}
default_partition: all
"""


def planned(folder: Path, experiment: dict[str, Any], *nodes: int, site: str = "") -> list[tuple[Any, ...]]:
    """Return name, nodes and tasks of each size."""
    plans = plans_of(folder, experiment, *nodes, site=site)
    return [(plan.identity.name, plan.placement.nodes, plan.placement.size) for plan in plans]


def plans_of(
    folder: Path, experiment: dict[str, Any], *nodes: int, site: str = "", param: str = ""
) -> list[Plan]:
    """Return the plan of each size."""
    (folder / "train.yml").write_text(yaml.safe_dump({"batch": {"walltime": "1h"}} | experiment))
    (folder / "eight.yaml").write_text(SITE)
    options = ExperimentOptions(str(folder / "train.yml"), site=site or str(folder / "eight.yaml"))
    environment = {"PATH": "", "HPCDIST_CONFIG": str(folder / "none.yml")}
    (folder / "none.yml").write_text("{}")
    plan = partial(plan_experiment, environment=environment)
    return [made.plan for _, made in scaling_plan.plan_sizes(options, nodes, plan, param)]


def replicas(workers: object = 1, **others: Any) -> dict[str, Any]:
    entry = {"n_workers": workers, "default_worker": ONE, **others}
    return {"framework": "horovod", "environment": {**ONE, "replicas": entry}, "run": {"cmd": "python t.py"}}


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [
        (replicas(1, per_node=1), [1, 2, 4]),
        (replicas(7, per_node=2), [2, 4, 8]),
        (replicas(3), [4, 8, 16]),  # all on one node as the file stands
        (replicas(3) | {"batch": {"nodes": 4}}, [1, 2, 4]),
        (replicas(2) | {"backend": "mpi"}, [2, 4, 8]),
        ({"framework": "pytorch", "run": {"cmd": "python t.py"}}, [1, 2, 4]),
        (replicas(3, per_node=2) | {"run": {"cmd": "mpirun python t.py"}}, [2, 4, 8]),
    ],
)
def test_each_node_has_as_many_replicas_as_in_the_file(
    tmp_path: Path, experiment: dict[str, Any], expected: list[int]
) -> None:
    names = ["train-1-node", "train-2-nodes", "train-4-nodes"]
    assert planned(tmp_path, experiment, 1, 2, 4) == [*zip(names, (1, 2, 4), expected, strict=True)]


def test_servers_stay_as_they_are(tmp_path: Path, wording: Wording) -> None:
    experiment = replicas(1, n_ps=1, per_node=1) | {"framework": "tensorflow"}
    assert planned(tmp_path, experiment, 3, 6) == [("train-3-nodes", 3, 3), ("train-6-nodes", 6, 6)]
    with pytest.raises(HpcdistError) as caught:
        planned(tmp_path, experiment, 1, 2)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


@pytest.mark.parametrize(
    "experiment",
    [
        replicas() | {"run": {"cmd": "mpirun -np 2 python t.py"}},
        replicas() | {"framework": "pytorch", "run": {"cmd": "torchrun --nnodes=2 t.py"}},
        replicas(2) | {"batch": {"nodes": 2}},
        replicas() | {"batch": {"array": "1-3"}},
        replicas() | {"hptuning": {"matrix": {"lr": {"values": [1, 2]}}}},
        {"run": {"cmd": "python t.py"}},
        replicas(1, per_node=1) | {"batch": {"walltime": "1h", "partition": "all"}},
    ],
    ids=["-np", "--nnodes", "uneven", "array", "search", "no framework", "partition"],
)
def test_what_the_file_fixes_is_refused(tmp_path: Path, experiment: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(HpcdistError) as caught:
        planned(tmp_path, experiment, 1, 2, 100)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def parametrised(workers: object, command: str, /, **params: Any) -> dict[str, Any]:
    """An experiment whose command and number of workers follow from params."""
    own = replicas(per_node=1) | {"params": params, "run": {"cmd": command}}
    own["environment"]["replicas"]["n_workers"] = workers
    return own


BATCH: Final = "python t.py --nodes {{ nodes }} --batch {{ 4096 // nodes }}"


@pytest.mark.parametrize(
    ("experiment", "param"),
    [
        (parametrised("{{ nodes - 1 }}", BATCH, nodes=2), ""),
        (parametrised("{{ nodes - 1 }}", BATCH, nodes=2, epochs=2), ""),
        (parametrised("{{ nodes * each - 1 }}", BATCH, nodes=1, each=1), "nodes"),
        (parametrised(1, BATCH, nodes=2), ""),
        (parametrised(1, BATCH, nodes=7), "nodes"),
        (parametrised("{{ nodes - 1 }}", BATCH, nodes=2) | {"batch": {"nodes": "{{ nodes }}"}}, ""),
    ],
)
def test_the_param_that_is_the_number_of_nodes_is_that_of_each_size(
    tmp_path: Path, experiment: dict[str, Any], param: str
) -> None:
    plans = plans_of(tmp_path, experiment, 1, 4, param=param)
    assert [(plan.placement.nodes, plan.placement.size, plan.identity.command) for plan in plans] == [
        (1, 1, "python t.py --nodes 1 --batch 4096"),
        (4, 4, "python t.py --nodes 4 --batch 1024"),
    ]


@pytest.mark.parametrize(
    ("experiment", "param"),
    [
        (parametrised("{{ a - 1 }}", "python t.py", a=3) | {"batch": {"nodes": 3}}, "nods"),
        (replicas(), "nodes"),
        (parametrised("{{ nodes * each - 1 }}", BATCH, nodes=1, each=1), ""),
        (parametrised("{{ workers }}", BATCH, workers=1, nodes=2, epochs=2), ""),
        (replicas("{{ workers }}") | {"params": {"workers": 1}}, "workers"),
        (parametrised(1, "python t.py {{ nodes }} {{ num_nodes }}", nodes=2, num_nodes=2), ""),
    ],
    ids=["no such param", "no params", "two", "none", "another number", "two in the command"],
)
def test_a_param_that_is_not_clearly_the_number_of_nodes_is_refused(
    tmp_path: Path, experiment: dict[str, Any], param: str, wording: Wording
) -> None:
    with pytest.raises(HpcdistError) as caught:
        plans_of(tmp_path, experiment, 4, param=param)
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


EXPERIMENT = """version: 1
framework: pytorch
environment: {resources: {gpu: {limits: 4}}, restart: {max: 3, by: BY}}
run: {cmd: python train.py}
batch: {account: m1, walltime: 1h, qos: regular, constraint: gpu}
"""


def cost(nodes: int, seconds: int | None = 3600) -> SizeCost:
    each = None if seconds is None else Cost(nodes, 4 * nodes, 64 * nodes, seconds)
    return SizeCost(nodes, 4 * nodes, 4 * nodes, 2, each)


def test_the_most_is_allowed_and_more_is_refused(wording: Wording) -> None:
    found = [cost(1), cost(2)]
    assert scaling_plan.total(size.gpu_hours for size in found) == 24
    scaling_plan.check_cost(found, None)
    scaling_plan.check_cost(found, 24)
    with pytest.raises(PlanError) as caught:
        scaling_plan.check_cost(found, 23.9)
    wording(str(caught.value))


def test_without_a_time_limit_there_is_no_most(wording: Wording) -> None:
    scaling_plan.check_cost([cost(1), cost(2, None)], None)
    with pytest.raises(PlanError) as caught:
        scaling_plan.check_cost([cost(1), cost(2, None)], 1e9)
    wording(str(caught.value))


@pytest.mark.parametrize("by", ["requeue", "follow"])
def test_every_attempt_counts_whatever_begins_it(by: str, tmp_path: Path) -> None:
    file = tmp_path / "exp.yml"
    file.write_text(EXPERIMENT.replace("BY", by))
    made = plan_experiment(ExperimentOptions(str(file), site="perlmutter"), environment={})
    assert made.cost is not None
    [found] = scaling_plan.size_costs([made], 2)
    assert (found.each, found.node_hours) == (made.cost, 2 * made.cost.node_hours)
