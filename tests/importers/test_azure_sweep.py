# ruff: noqa: E501 - a file is written as one line
"""Sweeps of Azure ML are searches: their spaces, algorithms and limits, with the trial as the job."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.experiment.search import Space
from hpcdist.importers.azure import IMPORTER
from hpcdist.loading.load import load_experiment, to_native
from hpcdist.loading.named_files import with_named_file
from tests.wording import Wording

from .remarks import cases, remarks_of

SWEEP = """
type: sweep
trial:
  command: >-
    train --csv ${{inputs.csv}} --lr ${{search_space.lr}} --kernel ${{search_space.kernel}}
  environment: {image: i}
  distribution: {type: mpi, process_count_per_instance: 2}
inputs: {csv: {type: uri_file, path: /d/iris.csv}}
resources: {instance_count: 2}
sampling_algorithm: grid
search_space:
  lr: {type: choice, values: [1e-3, 0.10]}
  kernel: {type: choice, values: [rbf, poly]}
objective: {goal: minimize, primary_metric: loss}
limits: {max_total_trials: 3, max_concurrent_trials: 2, timeout: 7200, trial_timeout: 600}
display_name: iris
"""
METRIC = {"name": "loss", "optimization": "minimize"}
COMMAND = "type: sweep\ntrial: {command: 'x ${{search_space.a}}', environment: {image: i}}\n"


def search_of(rest: str) -> Any:
    return importers.read(source.parse(COMMAND + rest, "f.yml").data).data["hptuning"]


def test_a_sweep_has_the_trials_of_its_grid() -> None:
    done = load_experiment(source.parse(SWEEP, "f.yml"))
    assert [(trial.params, trial.command.splitlines()[-1]) for trial in done.trials] == [
        ({"lr": lr, "kernel": kernel}, f"train --csv '/d/iris.csv' --lr {lr} --kernel {kernel}")
        for lr, kernel in (("1e-3", "rbf"), ("1e-3", "poly"), ("0.10", "rbf"))
    ]
    experiment = done.experiment
    assert (experiment.name, experiment.framework, experiment.batch.nodes) == ("iris", "mpi", 2)
    assert (str(experiment.batch.walltime), experiment.hptuning and experiment.hptuning.concurrency) == (
        "00:10:00",
        2,
    )


def test_what_no_trial_depends_on_is_remarked_at_its_place(wording: Wording) -> None:
    wording(remarks_of(SWEEP))


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("type: choice, values: [1, two]", {"values": [1, "two"]}),
        ("type: randint, upper: 4", {"range": {"start": 0, "stop": 4, "step": 1}}),
        ("type: uniform, min_value: 0.1, max_value: 1", {"uniform": {"low": 0.1, "high": 1}}),
        (
            "type: loguniform, min_value: -6, max_value: -1",
            {"loguniform": {"low": -6, "high": -1}},
        ),
        (
            "type: quniform, min_value: 1, max_value: 9, q: 2",
            {"quniform": {"low": 1, "high": 9, "q": 2}, "rounding": "nearest"},
        ),
        (
            "type: qloguniform, min_value: 1, max_value: 9, q: 2",
            {"qloguniform": {"low": 1, "high": 9, "q": 2}, "rounding": "nearest"},
        ),
        ("type: normal, mu: 3, sigma: 1", {"normal": {"loc": 3, "scale": 1}}),
        ("type: qnormal, mu: 3, sigma: 1, q: 1", {"qnormal": {"loc": 3, "scale": 1, "q": 1}, "rounding": "nearest"}),
        ("type: lognormal, mu: 3, sigma: 1", {"lognormal": {"loc": 3, "scale": 1}}),
        (
            "spec: qlognormal, mu: 3, sigma: 1, q: 1",
            {"qlognormal": {"loc": 3, "scale": 1, "q": 1}, "rounding": "nearest"},
        ),
    ],
)  # fmt: skip
def test_each_distribution_has_its_native_one(space: str, expected: object) -> None:
    search = search_of(f"algorithm: random\nmax_total_runs: 5\nsearch_space: {{a: {{{space}}}}}")
    assert search == {"matrix": {"a": expected}, "random_search": {"n_experiments": 5}}
    assert set(expected) <= set(Space.__struct_fields__)  # type: ignore[call-overload]


def test_an_algorithm_may_be_a_section_with_a_seed(wording: Wording) -> None:
    rest = "search_space: {a: {type: choice, values: [1]}}\nsampling_algorithm: {type: random, seed: 7, rule: sobol}\nlimits: {max_total_trials: 2}"
    assert search_of(rest) == {
        "matrix": {"a": {"values": [1]}},
        "random_search": {"n_experiments": 2},
        "seed": 7,
    }
    wording(remarks_of(COMMAND + rest))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        (40, {"bo": {"n_initial_trials": 10, "n_iterations": 30, "metric": METRIC}}),
        (5, {"bo": {"n_initial_trials": 3, "n_iterations": 2, "metric": METRIC}}),
        (1, {"metric": METRIC, "random_search": {"n_experiments": 1}}),
    ],
    ids=cases(),
)
def test_bayesian_sampling_is_bayesian_optimization(
    trials: int, expected: dict[str, object], wording: Wording
) -> None:
    rest = f"""sampling_algorithm: {{type: bayesian}}
search_space: {{a: {{type: uniform, min_value: 0, max_value: 1}}}}
objective: {{goal: minimize, primary_metric: loss}}
limits: {{max_total_trials: {trials}}}"""
    assert search_of(rest) == {"matrix": {"a": {"uniform": {"low": 0, "high": 1}}}, **expected}
    wording(remarks_of(COMMAND + rest))


@pytest.mark.parametrize(
    "rest",
    [
        "sampling_algorithm: bayesian\nsearch_space: {a: {type: choice, values: [1]}}",
        "sampling_algorithm: sobol\nsearch_space: {a: {type: choice, values: [1]}}",
        "search_space: {a: {type: choice, values: [1]}}",
        "sampling_algorithm: grid",
        "sampling_algorithm: grid\nsearch_space: {a: {type: uniform, min_value: 1}}",
        "sampling_algorithm: grid\nsearch_space: {a: {type: normal, mu: 1, sigma: 1}}",
        "sampling_algorithm: grid\nsearch_space: {a: {type: choise}}",
        "sampling_algorithm: grid\nsearch_space: {a: 5}",
        "sampling_algorithm: grid\nsearch_space: {a: {type: choice, values: [{m: x, lr: {type: uniform}}]}}",
        "sampling_algorithm: {type: random, logbase: 10}\nsearch_space: {a: {type: loguniform, min_value: -3, max_value: 0}}",
        "sampling_algorithm: grid\nobjective: {goal: best, primary_metric: x}\nsearch_space: {a: {type: choice, values: [1]}}",
        "inputs: {a: 1}\nsampling_algorithm: grid\nsearch_space: {a: {type: choice, values: [1]}}",
        "sampling_algorithm: random\nsearch_space: {a: {type: normal, mu: 1, sigma: 2}}",
    ],
    ids=cases(),
)
def test_what_has_no_trials_is_refused_in_azures_words(rest: str, wording: Wording) -> None:
    wording(remarks_of(COMMAND + rest))


def test_the_trial_may_be_a_component_in_a_file_as_in_a_step_of_a_pipeline(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("train.yml").write_text("""
type: command
inputs: {c: {type: number, default: 0.5}, k: {type: string}, n: {type: integer}}
environment: {image: i}
command: train ${{inputs.c}} ${{inputs.k}} ${{inputs.n}}
""")
    step = """{type: sweep, trial: ./train.yml, inputs: {n: 3}, sampling_algorithm: grid,
     search_space: {c: {type: choice, values: [1, 2]}, k: {type: choice, values: [rbf]}}}"""
    for text in (f"type: pipeline\njobs:\n  tune: {step}\n", f"{step}\n"):
        document = with_named_file(source.parse(text, "f.yml"))
        done = load_experiment(document)
        assert [trial.command.splitlines()[-1] for trial in done.trials] == ["train 1 rbf 3", "train 2 rbf 3"]


def test_the_import_of_a_sweep_is_the_same_search() -> None:
    native = to_native(source.parse(SWEEP, "f.yml"))
    search = native.document.data["hptuning"]
    assert search["grid_search"] == {"n_experiments": 3}
    assert search["metric"] == {"name": "loss", "optimization": "minimize"}


def test_an_algorithm_that_is_refused_has_no_other_problem() -> None:
    rest = "sampling_algorithm: sobol\nsearch_space: {a: {type: normal, mu: 1, sigma: 2}}\nlimits: {max_total_trials: 9}"
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(COMMAND + rest, "f.yml"))
    assert [problem.path for problem in caught.value.problems] == [("sampling_algorithm",)]


def test_sweeps_of_the_first_previews_are_read(wording: Wording) -> None:
    text = """
job_type: Sweep
algorithm: random
search_space: {lr: {spec: uniform, min_value: 0.001, max_value: 0.1}}
objective: {primary_metric: accuracy, goal: maximize}
trial: {command: 'python t.py {search_space.lr}', code: {file: ./python/t.py}, environment: {name: /x/E}}
max_total_runs: 100
max_concurrent_runs: 10
max_duration_minutes: 10000
early_termination: {spec: truncation}
"""
    document = source.parse(text, "f.yml")
    assert IMPORTER.recognises(document.data)
    done = load_experiment(document)
    assert len(done.trials) == 100
    assert done.trials[0].command.splitlines()[0] == "cd python || exit"
    wording(map(str, done.problems))


def test_a_name_that_no_template_can_have_is_changed(wording: Wording) -> None:
    text = "type: sweep\ntrial: {command: 'x {search_space.learning-rate}', environment: {image: i}}\nalgorithm: grid\nsearch_space: {learning-rate: {type: choice, values: [1]}}\n"
    assert [
        trial.command.splitlines()[-1] for trial in load_experiment(source.parse(text, "f.yml")).trials
    ] == ["x 1"]
    wording(remarks_of(text))
