"""Searches over params on the real Slurm: each trial is an element of one array."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import User

pytestmark = pytest.mark.real


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    return User(cluster, workdir)


def test_each_trial_of_a_grid_runs_over_two_nodes_with_its_own_command_and_variables(user: User) -> None:
    experiment = {
        "framework": "mpi",
        "environment": {"env_vars": {"TEXT": "a\t{{ lr }}\\"}, "replicas": {"n_workers": 1, "per_node": 1}},
        "hptuning": {
            "concurrency": 2,
            "matrix": {"lr": {"values": [0.1, 2]}, "opt": {"values": ["sgd", "a b"]}},
        },
        "run": {
            "cmd": "echo \"in $HPCDIST_TRIAL: lr={{ lr }} '{{ opt }}' <$TEXT> $POLYAXON_PARAMS\"",
        },
    }
    done = user.hpcdist("submit", user.write("grid", experiment), "--wait")
    assert done.returncode == 0, done.stderr
    logs = user.directory / "runs" / "grid-1" / "logs"
    lines = sorted(line for log in logs.iterdir() for line in log.read_text().splitlines() if ": in " in line)
    trials = [(lr, opt) for lr in (0.1, 2) for opt in ("sgd", "a b")]
    assert lines == sorted(
        f'{rank}: in {number}: lr={lr} \'{opt}\' <a\t{lr}\\> {{"lr": {lr}, "opt": "{opt}"}}'
        for number, (lr, opt) in enumerate(trials, 1)
        for rank in range(2)
    )
    said = "".join(log.read_text() for log in logs.iterdir())
    assert sorted(re.findall(r"hpcdist: grid: .*: (trial=.*) \(job", said))[:2] == [
        r"trial=1 lr=0.1 opt=sgd",
        r"trial=2 lr=0.1 opt=a\ b",
    ]
    assert user.hpcdist("logs", "grid-1/2").stdout.count("in 2: lr=0.1 'a b'") == 2


def test_trials_are_compared_row_by_row(user: User) -> None:
    experiment = {
        "hptuning": {
            "matrix": {"lr": {"uniform": [0, 1]}, "n": {"values": [1, 2]}},
            "random_search": {"n_experiments": 5},
            "metric": {"name": "reached"},
        },
        "tracking": {"metrics": {"reached": "reached=(.*)"}},
        "run": {"cmd": "[ $HPCDIST_TRIAL != 4 ] && echo reached={{ lr * n }}"},
    }
    user.hpcdist("submit", user.write("tune", experiment), "--wait")
    found = user.json("compare", "tune-1", "--sort", "-reached")
    reached = [item["metrics"].get("reached", -1) for item in found]
    expected = [
        item["params"]["lr"] * item["params"]["n"] if item["run"] != "tune-1/4" else -1 for item in found
    ]
    assert reached == expected == sorted(expected, reverse=True)
    assert sorted(item["run"] for item in found) == [f"tune-1/{number}" for number in range(1, 6)]
    shown = user.json("sweep", "status", "tune-1")
    assert (shown["number"], shown["states"]) == (5, {"completed": 4, "failed": 1})
    assert {item["trial"]: (item["state"], item["exit_code"]) for item in shown["trials"]} == {
        number: ("failed", 1) if number == 4 else ("completed", 0) for number in range(1, 6)
    }
    assert user.json("sweep", "best", "tune-1", "--top", "2") == found[:2]


def test_searches_of_other_tools_run_as_they_stand(user: User) -> None:
    """A trial of Katib is two pods, one of Azure ML has outputs of its own, one of MLRun its context."""
    script = 'echo "accuracy=${trialParameters.rate}" of $WORLD_SIZE ${trialParameters.opt}'
    rates = {"min": "1", "max": "2", "step": "0.5"}
    pod = {"template": {"spec": {"containers": [{"name": "pytorch", "command": ["sh", "-c", script]}]}}}
    katib = {
        "apiVersion": "kubeflow.org/v1beta1",
        "kind": "Experiment",
        "metadata": {"name": "katib"},
        "spec": {
            "objective": {"type": "maximize", "objectiveMetricName": "accuracy"},
            "algorithm": {"algorithmName": "grid"},
            "parameters": [
                {"name": "rate", "parameterType": "double", "feasibleSpace": rates},
                {"name": "opt", "parameterType": "categorical", "feasibleSpace": {"list": ["sgd"]}},
            ],
            "trialTemplate": {
                "trialParameters": [{"name": name, "reference": name} for name in ("rate", "opt")],
                "trialSpec": {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "PyTorchJob",
                    "spec": {"pytorchReplicaSpecs": {"Master": pod, "Worker": pod}},
                },
            },
        },
    }
    azure = {
        "type": "sweep",
        "display_name": "azure",
        "trial": {
            "command": "echo ${{search_space.a}} ${{inputs.b}} > outputs/a; echo a=$(cat outputs/a)",
            "environment": "azureml:x@latest",
        },
        "inputs": {"b": "two words"},
        "sampling_algorithm": "grid",
        "search_space": {"a": {"type": "choice", "values": [1, 2]}},
        "objective": {"goal": "minimize", "primary_metric": "a"},
    }
    mlrun = {
        "kind": "job",
        "metadata": {"name": "mlrun"},
        "spec": {
            "command": 'echo "[{a} $MLRUN_EXEC_CONFIG]"',
            "mode": "pass",
            "hyperparams": {"a": [1, 2], "b": ["x", "y z"]},
        },
    }
    for name, file in (("katib", katib), ("azure", azure), ("mlrun", mlrun)):
        path = user.directory / f"{name}.yml"
        path.write_text(json.dumps(file))
        done = user.hpcdist("submit", str(path), "--wait")
        assert done.returncode == 0, done.stderr
    best = user.json("sweep", "best", "katib-1", "--top", "2")
    assert [(item["params"], item["metrics"]) for item in best] == [
        ({"rate": rate, "opt": "sgd"}, {"accuracy": rate}) for rate in (2, 1.5)
    ]
    runs = user.directory / "runs"
    logs = {
        name: sorted(
            re.sub(r"^\d+: ", "", line)
            for log in (runs / f"{name}-1" / "logs").iterdir()
            for line in log.read_text().splitlines()
            if re.search(r"accuracy=|a=|\[", line) and "hpcdist:" not in line
        )
        for name in ("katib", "azure", "mlrun")
    }
    assert logs["katib"] == [f"accuracy={rate} of 2 sgd" for rate in ("1.0", "1.5", "2.0") for _ in range(2)]
    assert logs["azure"] == ["a=1 two words", "a=2 two words"]
    assert logs["mlrun"] == sorted(
        f'[{a} {{"spec": {{"parameters": {{"a": {a}, "b": "{b}"}} }} }}]'
        for b in ("x", "y z")
        for a in (1, 2)
    )
    outputs = runs / "azure-1" / "outputs"
    assert [(outputs / element / "a").read_text() for element in "12"] == ["1 two words\n", "2 two words\n"]


def test_a_grid_of_trainings_over_two_nodes_each_finds_the_best_one(user: User) -> None:
    (user.directory / "examples").symlink_to(CHECKOUT / "examples")
    done = user.hpcdist("submit", "examples/horovod_search.yml", "--wait", timeout=900)
    assert done.returncode == 0, done.stderr
    assert user.json("sweep", "status", "horovod-search-1")["states"] == {"completed": 24}
    (best,) = user.json("sweep", "best", "horovod-search-1")
    found = user.json("compare", "horovod-search-1")
    printed = [
        float(re.findall("test accuracy ([0-9.]+) on 2 ranks", log.read_text())[0])
        for log in (user.directory / "runs/horovod-search-1/logs").iterdir()
    ]
    assert sorted(printed) == sorted(round(item["metrics"]["accuracy"], 4) for item in found)
    assert round(best["metrics"]["accuracy"], 4) == max(printed) > 0.9
    assert len({(item["params"]["lr"], item["params"]["batch_size"]) for item in found}) == 24
