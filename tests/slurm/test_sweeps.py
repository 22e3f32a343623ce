"""Searches over params on the real Slurm: each trial is an element of one array."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.slurm.cluster import CHECKOUT
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.mark.extended
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


@pytest.mark.extended
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
    best = user.json("sweep", "best", "tune-1", "--top", "2")
    assert best == [item | {"state": "completed"} for item in found[:2]]


@pytest.mark.extended
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


@pytest.mark.extended
@pytest.mark.usefixtures("examples")
def test_a_grid_of_trainings_over_two_nodes_each_finds_the_best_one(user: User) -> None:
    fewer = ("--set", "hptuning.matrix.lr={geomspace: [0.001, 0.1, 3]}", "--set", "hptuning.concurrency=2")
    options = (*fewer, "--set", "hptuning.matrix.batch_size={values: [8, 64]}")
    done = user.hpcdist("submit", "examples/horovod_search.yml", "--wait", *options, timeout=900)
    assert done.returncode == 0, done.stderr
    assert user.json("sweep", "status", "horovod-search-1")["states"] == {"completed": 6}
    (best,) = user.json("sweep", "best", "horovod-search-1")
    found = user.json("compare", "horovod-search-1")
    printed = [
        float(re.findall("test accuracy ([0-9.]+) on 2 ranks", log.read_text())[0])
        for log in (user.directory / "runs/horovod-search-1/logs").iterdir()
    ]
    assert sorted(printed) == sorted(round(item["metrics"]["accuracy"], 4) for item in found)
    assert round(best["metrics"]["accuracy"], 4) == max(printed) > 0.9
    assert len({(item["params"]["lr"], item["params"]["batch_size"]) for item in found}) == 6


@pytest.fixture
def small(user: User) -> User:
    """Return somebody on a site whose arrays have two elements at most."""
    site = yaml.safe_load((CHECKOUT / "site_configs" / "testbed.yaml").read_text())
    (user.directory / "small.yml").write_text(json.dumps(site | {"max_array_elements": 2}))
    return user


@pytest.mark.extended
def test_more_trials_than_an_array_has_elements_are_several_arrays_of_one_run(small: User) -> None:
    experiment = {
        "hptuning": {"concurrency": 2, "matrix": {"lr": {"values": [1, 2, 3, 4, 5]}}},
        "tracking": {"metrics": {"got": "got=(.*)"}},
        "run": {"cmd": "touch $HPCDIST_OUTPUTS/file; [ {{ lr }} != 3 ] || [ -e again ] && echo got={{ lr }}"},
    }
    done = small.hpcdist("submit", small.write("five", experiment), "--site", "small.yml", "--wait")
    said = r"job [0-9]+: first in element 3 \(NonZeroExitCode\); 1 of 2 elements completed"
    assert done.returncode == 1
    assert re.search(said, done.stderr), done.stderr
    folder = small.directory / "runs" / "five-1"
    records = [json.loads((folder / f"record{end}.json").read_text()) for end in ("", ".2", ".3")]
    assert len({record["job_id"] for record in records}) == 3
    assert small.json("sweep", "status", "five-1")["states"] == {"completed": 4, "failed": 1}
    assert small.hpcdist("logs", "five-1/5").stdout.splitlines()[-1] == "got=5"
    (small.directory / "again").touch()
    assert [job["trials"] for job in small.json("resume", "five-1")] == ["3"]
    done = small.hpcdist("wait", "five-1")
    assert done.returncode == 0, done.stderr
    assert small.json("sweep", "status", "five-1")["states"] == {"completed": 5}
    assert [(item["run"], item["metrics"]) for item in small.json("compare", "five-1")] == [
        (f"five-1/{lr}", {"got": lr}) for lr in range(1, 6)
    ]
    assert sorted(path.name for path in (folder / "outputs").iterdir()) == ["1", "2", "3", "4", "5"]
    done = small.hpcdist("resume", "five-1")
    assert (done.returncode, "all trials of five-1 have completed" in done.stderr) == (2, True)


@pytest.mark.extended
def test_a_search_ends_at_its_limits_and_goes_on_when_it_is_resumed_or_extended(user: User) -> None:
    experiment = {
        "environment": {"resources": {"gpu": {"requests": 1}}},
        "hptuning": {
            "concurrency": 1,
            "max_failures": 2,
            "matrix": {"lr": {"uniform": [0, 1]}},
            "random_search": {"n_experiments": 4},
        },
        "batch": {"walltime": "00:01:00", "budget": 0.02},
        "run": {"cmd": "echo {{ lr }}; [ -e well ]"},
    }
    done = user.hpcdist("submit", user.write("poor", experiment), "--wait")
    assert done.returncode == 1, done.stderr
    assert user.json("sweep", "status", "poor-1")["states"] == {"failed": 2, "stopped": 2}
    why = "2 trials have failed, and max_failures is 2"
    assert f"trial 3 does not start: {why}" in user.hpcdist("logs", "poor-1/3").stdout
    assert f"trials 3, 4 did not start: {why}" in user.json("sweep", "status", "poor-1")["remarks"]
    (user.directory / "well").touch()
    user.json("resume", "poor-1")
    assert user.hpcdist("wait", "poor-1").returncode == 0
    assert user.json("sweep", "status", "poor-1")["states"] == {"completed": 4}
    assert [job["trials"] for job in user.json("sweep", "advance", "poor-1", "--trials", "2")] == ["5-6"]
    assert user.hpcdist("wait", "poor-1").returncode == 0
    assert user.json("sweep", "status", "poor-1")["states"] == {"completed": 6}
    log = user.directory / "runs" / "poor-1" / "events"
    log.write_text(f"{log.read_text()}started 1_99 100 0\n")  # which may take most of the budget
    user.json("sweep", "advance", "poor-1", "--trials", "1")
    assert user.hpcdist("wait", "poor-1").returncode == 85
    limit = r"(0|0\.0\d+) GPU-hours are spent, 2 trials that run may take 0.03333, and the budget is 0.02"
    assert re.search(limit, user.hpcdist("logs", "poor-1/7").stdout)
    (told, _) = user.json("sweep", "status", "poor-1")["remarks"]
    assert re.fullmatch(f"trial 7 did not start: {limit}", told)
    log.write_text(f"{log.read_text()}ended 1_99 200 0\n")  # and has taken more
    done = user.hpcdist("resume", "poor-1")
    said = r"the budget of poor-1 is used up: 0\.0\d+ of 0.02 GPU-hours are spent, and a trial may take 0"
    assert (done.returncode, bool(re.search(said, done.stderr))) == (2, True), done.stderr


@pytest.mark.extended
def test_a_search_ends_when_a_trial_has_reached_what_is_good_enough(user: User) -> None:
    record = "from hpcdist_tracking import log_metrics; log_metrics(accuracy={{ lr }})"
    experiment = {
        "hptuning": {
            "concurrency": 1,
            "matrix": {"lr": {"values": [0.5, 0.9, 0.7, 1]}},
            "early_stopping": [{"metric": "accuracy", "value": 0.8}],
        },
        "run": {"cmd": f"python3 -c '{record}'"},
    }
    assert user.hpcdist("submit", user.write("enough", experiment), "--wait").returncode == 85
    assert user.json("sweep", "status", "enough-1")["states"] == {"completed": 2, "stopped": 2}
    said = user.hpcdist("logs", "enough-1/3").stdout
    assert "the search was stopped as a trial has reached accuracy 0.9" in said


def test_a_trial_is_shown_and_cancelled_alone(small: User) -> None:
    experiment = {
        "hptuning": {"concurrency": 2, "matrix": {"lr": {"values": [1, 2, 3, 4]}}},
        "tracking": {"metrics": {"got": "got=(.*)"}},
        "run": {"cmd": "echo got={{ lr }}; touch $HPCDIST_OUTPUTS/{{ lr }}; [ {{ lr }} = 2 ] || sleep 600"},
    }
    small.hpcdist("submit", small.write("one", experiment), "--site", "small.yml")
    log = small.directory / "runs" / "one-1" / "logs" / "job-2.out"
    wait_for(lambda: small.json("status", "one-1/2")[0]["state"] == "completed")
    assert "got=2" in log.read_text()
    shown = small.json("status", "one-1/1", "one-1/2", "one-1/4")
    assert [(one["name"], one["trial"], one["state"], one["exit_code"]) for one in shown] == [
        ("one-1/1", 1, "running", None),
        ("one-1/2", 2, "completed", 0),
        ("one-1/4", 4, "pending", None),
    ]
    first, second = (
        json.loads((small.directory / "runs/one-1" / name).read_text())["job_id"]
        for name in ("record.json", "record.2.json")
    )
    done = small.hpcdist("cancel", "one-1/1", "one-1/2", "one-1/4")
    assert (done.returncode, done.stderr) == (0, "note: one-1/2 has already ended: it is completed\n")
    said = "requested to cancel it, alone of its job"
    assert done.stdout.splitlines() == [f"one-1/{number}: {said}" for number in (1, 4)]
    # the first array is over, so the second one begins; its second element is trial 4
    wait_for(lambda: small.json("status", "one-1/3")[0]["state"] == "running")
    shown = small.json("status", "one-1/1", "one-1/4")
    assert [(one["job_id"], one["state"]) for one in shown] == [
        (f"{first}_1", "cancelled"),
        (f"{second}_4", "cancelled"),
    ]
    details = small.json("describe", "one-1/2")
    assert (details["params"], details["metrics"], details["state"]) == ({"lr": 2}, {"got": 2}, "completed")
    assert [(one["job_id"], one["state"], one["exit_code"]) for one in details["attempts"]] == [
        (f"{first}_2", "completed", 0)
    ]
    assert [Path(file).name for file in details["logs"]] == ["job-2.out"]
    assert [(one["event"], one["job_id"]) for one in details["events"]] == [
        ("started", f"{first}_2"),
        ("ended", f"{first}_2"),
    ]
    assert [one["path"] for one in small.json("outputs", "one-1/2")] == ["2/2"]
    assert [one["job"] for one in small.json("metrics", "one-1/2")] == [f"{first}_2"]
    assert small.hpcdist("cancel", "one-1/3").returncode == 0
    small.hpcdist("wait", "one-1")
    assert small.json("sweep", "status", "one-1")["states"] == {"cancelled": 3, "completed": 1}
    done = small.hpcdist("status", "one-1/5")
    assert (done.returncode, "one-1 has no trial 5; it has 1-4" in done.stderr) == (2, True)


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait for at most two minutes."""
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.5)


@pytest.mark.extended
def test_a_search_that_is_stopped_starts_no_further_trial(user: User) -> None:
    experiment = {
        "hptuning": {"concurrency": 1, "matrix": {"lr": {"values": [1, 2, 3]}}},
        "run": {"cmd": "touch begun; until [ -e go ]; do sleep 0.1; done; echo {{ lr }}"},
    }
    user.hpcdist("submit", user.write("halted", experiment))
    user.hpcdist("sweep", "stop", "halted-1")
    (user.directory / "go").touch()
    assert user.hpcdist("wait", "halted-1").returncode == 85
    shown = user.json("sweep", "status", "halted-1")["states"]
    assert shown["stopped"] >= 2
    user.json("resume", "halted-1")
    assert user.hpcdist("wait", "halted-1").returncode == 0
    for name in ("go", "begun"):
        (user.directory / name).unlink()
    user.hpcdist("submit", user.write("killed", experiment))
    until((user.directory / "begun").exists, "the first trial to begin")
    user.hpcdist("cancel", "killed-1")
    assert user.hpcdist("wait", "killed-1").returncode in {1, 143}
    assert user.json("sweep", "status", "killed-1")["states"] == {"cancelled": 3}


@pytest.mark.extended
def test_hyperband_gives_more_to_the_better_trials_which_go_on_from_their_checkpoints(user: User) -> None:
    experiment = {
        "hptuning": {
            "matrix": {"lr": {"uniform": [0, 1]}},
            "hyperband": {
                "max_iterations": 4,
                "eta": 2,
                "resource": {"name": "epochs", "type": "int"},
                "metric": {"name": "loss", "optimization": "minimize"},
                "resume": True,
            },
        },
        "tracking": {"metrics": {"loss": "loss=(.*)"}},
        "run": {"cmd": "echo {{ epochs }} >> $HPCDIST_CHECKPOINTS/epochs; echo loss={{ lr }}"},
    }
    user.hpcdist("submit", user.write("band", experiment))
    done = user.hpcdist("sweep", "advance", "band-1", "--wait")
    assert (done.returncode, "is over: all its generations have ended" in done.stderr) == (0, True), (
        done.stderr
    )
    found = user.json("sweep", "status", "band-1")
    by_epochs = {
        number: sorted(one["params"]["lr"] for one in found["trials"] if one["params"]["epochs"] == number)
        for number in (1, 2, 4)
    }
    assert ({number: len(rates) for number, rates in by_epochs.items()}, found["states"]) == (
        {1: 4, 2: 5, 4: 5},
        {"completed": 14},
    )
    first, last = found["trials"][:4], found["trials"][-1]["params"]
    assert last["lr"] == min(one["params"]["lr"] for one in first if one["params"]["epochs"] == 1)
    kept = [
        path.read_text().split() for path in (user.directory / "runs/band-1/checkpoints").glob("*/epochs")
    ]
    assert ["1", "2", "4"] in kept
    assert user.json("sweep", "best", "band-1")[0]["metrics"]["loss"] == min(map(min, by_epochs.values()))
    done = user.hpcdist("sweep", "advance", "band-1")
    assert "is over" in done.stderr


@pytest.mark.extended
def test_bayesian_optimization_goes_on_where_the_trials_promise_most_until_one_is_good_enough(
    user: User,
) -> None:
    experiment = {
        "hptuning": {
            "concurrency": 3,
            "matrix": {"lr": {"uniform": [0, 10]}},
            "bo": {
                "n_initial_trials": 3,
                "n_iterations": 30,
                "metric": {"name": "loss", "optimization": "minimize"},
            },
            "early_stopping": [{"metric": "loss", "value": 1.5, "optimization": "minimize"}],
        },
        "tracking": {"metrics": {"loss": "loss=(.*)"}},
        "run": {"cmd": "echo loss=$(python3 -c 'print(abs({{ lr }} - 7) + 1)')"},
    }
    user.hpcdist("submit", user.write("bo", experiment))
    done = user.hpcdist("sweep", "advance", "bo-1", "--by-job")
    assert "bo-1-advance-1 is submitted as job" in done.stderr
    runs, end, said = user.directory / "runs", time.monotonic() + 300, ""
    while "is over: a trial has reached loss 1.5" not in said:
        said = "".join(log.read_text() for log in runs.glob("bo-1-advance-*/logs/*"))
        assert time.monotonic() < end, said
        time.sleep(0.2)
    assert user.json("sweep", "best", "bo-1")[0]["metrics"]["loss"] <= 1.5
    assert 3 < user.json("sweep", "status", "bo-1")["number"] < 33
