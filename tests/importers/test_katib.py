# ruff: noqa: E501 - a file is written as one line
"""Experiments of Katib are searches: their parameters, algorithm and metrics, with the trial's job as the job."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.experiment.search import Choices, Space, values_of
from hpcdist.loading.load import load_experiment
from tests.wording import Wording

from .remarks import cases, remarks_of

EXPERIMENT = """
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: tune, namespace: lab}
spec:
  objective: {type: maximize, goal: 0.99, objectiveMetricName: Validation-accuracy, additionalMetricNames: [loss]}
  algorithm: {algorithmName: ALGORITHM}
  maxTrialCount: 3
  parameters:
  - {name: --lr, parameterType: double, feasibleSpace: {min: "0.01", max: "0.03", step: "0.01"}}
  - {name: num-layers, parameterType: int, feasibleSpace: {min: "2", max: "5"}}
  - {name: optimizer, parameterType: categorical, feasibleSpace: {list: [sgd, adam]}}
  trialTemplate:
    primaryContainerName: training-container
    trialParameters:
    - {name: learningRate, description: its rate, reference: --lr}
    - {name: layers, reference: num-layers}
    - {name: opt, reference: optimizer}
    - {name: space, reference: "${trialSpec.Namespace}"}
    trialSpec:
JOB
"""
JOB = """
      apiVersion: batch/v1
      kind: Job
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: training-container
              image: i
              command: [python3, t.py, "--lr=${trialParameters.learningRate}", "-o '${trialParameters.opt}'"]
              env: [{name: LAYERS, value: "${trialParameters.layers}"}, {name: WHERE, value: "${trialParameters.space}"}]
"""
MPI = """
      apiVersion: kubeflow.org/v1
      kind: MPIJob
      spec:
        mpiReplicaSpecs:
          Launcher: {template: {spec: {containers: [{name: a, image: i, command: [mpirun, -np, "2", python, t.py, "${trialParameters.learningRate}", "${trialParameters.layers}", "${trialParameters.opt}"]}]}}}
          Worker: {replicas: 2, template: {spec: {containers: [{name: b, image: i}]}}}
"""
TRAIN = """
      apiVersion: trainer.kubeflow.org/v1alpha1
      kind: TrainJob
      spec:
        runtimeRef: {name: torch-distributed}
        trainer: {numNodes: 2, image: i, command: [sh, -c, "echo {{ x }}; a ${trialParameters.learningRate} ${trialParameters.layers} ${trialParameters.opt}"]}
"""


def written(job: str = JOB, algorithm: str = "grid", **changes: str) -> str:
    text = EXPERIMENT.replace("JOB", job.strip("\n")).replace("ALGORITHM", algorithm)
    for old, new in changes.items():
        text = (
            text.replace(f"{old}:", new)
            if new.endswith(":")
            else re.sub(rf"{old}: .*", f"{old}: {new}", text)
        )
    return text


def test_the_trials_of_a_grid_are_those_of_the_template() -> None:
    done = load_experiment(source.parse(written(), "f.yml"))
    assert [(trial.params, trial.command, trial.variables["LAYERS"]) for trial in done.trials] == [
        ({"lr": "0.01", "num_layers": layers, "optimizer": opt}, f"python3 t.py --lr=0.01 '-o '\"'\"'{opt}'\"'\"''", layers)
        for layers, opt in (("2", "sgd"), ("2", "adam"), ("3", "sgd"))
    ]  # fmt: skip
    experiment = done.experiment
    assert (experiment.name, experiment.environment.env_vars["WHERE"]) == ("tune", "lab")
    assert experiment.hptuning is not None
    assert (experiment.hptuning.concurrency, experiment.hptuning.order) == (3, "-Validation-accuracy")


@pytest.mark.parametrize(
    ("job", "command", "framework"),
    [
        (MPI, "python t.py 0.01 2 sgd", "mpi"),
        (TRAIN, "echo {{ x }}; a 0.01 2 sgd", "pytorch"),
    ],
)
def test_each_trial_may_be_a_job_of_several_nodes(job: str, command: str, framework: str) -> None:
    done = load_experiment(source.parse(written(job), "f.yml"))
    assert done.trials[0].command.splitlines()[-1] == command
    assert done.experiment.framework == framework


def test_the_metrics_are_found_as_katib_finds_them() -> None:
    metrics = importers.read(source.parse(written(), "f.yml").data).data["tracking"]["metrics"]
    assert list(metrics) == ["Validation-accuracy", "loss"]
    lines = "2020 INFO loss=0.25 Validation-accuracy = 9.5e-1\nx-loss=3 loss: 4 val_loss=5\nloss=\n"
    assert [re.findall(pattern, lines) for pattern in metrics.values()] == [["9.5e-1"], ["0.25"]]


def test_a_format_of_ones_own_is_used() -> None:
    own = r"""resumePolicy: Never
  metricsCollectorSpec: {source: {filter: {metricsFormat: ['\{metricName: ([\w|-]+), metricValue: ((-?\d+)(\.\d+)?)\}']}}}"""
    text = written().replace("maxTrialCount: 3", f"maxTrialCount: 3\n  {own}")
    metrics = importers.read(source.parse(text, "f.yml").data).data["tracking"]["metrics"]
    assert re.findall(metrics["loss"], "{metricName: loss, metricValue: -1.5} {metricName: xloss, metricValue: 2}") == ["-1.5"]  # fmt: skip


GRIDS: list[tuple[str, list[Any]]] = [
    ("parameterType: int, feasibleSpace: {min: '1', max: '10', step: '3'}", [1, 4, 7, 10]),
    ("parameterType: int, feasibleSpace: {min: '2', max: '4'}", [2, 3, 4]),
    ("parameterType: double, feasibleSpace: {min: '0.1', max: '0.3', step: '0.1'}", [0.1, 0.2, 0.30000000000000004]),
    ("parameterType: double, feasibleSpace: {min: '0.5', max: '0.9', step: '0.1'}", [0.5, 0.6, 0.7, 0.7999999999999999, 0.8999999999999999]),
    ("parameterType: double, feasibleSpace: {min: '0.01', max: '0.05', step: '0.02'}", [0.01, 0.03, 0.049999999999999996]),
    ("parameterType: double, feasibleSpace: {min: '0', max: '1', step: '0.4'}", [0.0, 0.4, 0.8]),
    ("parameterType: discrete, feasibleSpace: {list: ['1', '2.5']}", ["1", "2.5"]),
]  # fmt: skip
"""What the ``range`` and ``arange`` of Katib's ``convert_to_combinations`` make of them, by NumPy 2.4.6."""


def search_of(parameter: str, algorithm: str) -> Any:
    text = re.sub(r"- \{name: --lr.*", f"- {{name: --lr, {parameter}}}", written(algorithm=algorithm))
    return importers.read(source.parse(text, "f.yml").data).data["hptuning"]


@pytest.mark.parametrize(("parameter", "expected"), GRIDS)
def test_a_grid_has_the_values_of_katib(parameter: str, expected: list[Any]) -> None:
    space = search_of(parameter, "grid")["matrix"]["lr"]
    made = values_of(Space(**space))
    assert isinstance(made, Choices)
    found = [made.at(index) for index in range(made.size)]
    assert [str(value) for value in found] == [str(type(found[0])(value)) for value in expected]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("parameterType: double, feasibleSpace: {min: '1', max: '3'}", {"uniform": {"low": 1, "high": 3}}),
        (
            "parameterType: int, feasibleSpace: {min: '1', max: '3'}",
            {"quniform": {"low": 1, "high": 3, "q": 1}, "rounding": "nearest"},
        ),
        (
            "parameterType: double, feasibleSpace: {min: '1', max: '3', step: '0.5', distribution: normal}",
            {"qnormal": {"loc": 2, "scale": 2 / 6, "q": 0.5}, "rounding": "nearest"},
        ),
        (
            "parameterType: double, feasibleSpace: {min: '1', max: '1', distribution: logUniform}",
            {"loguniform": {"low": 0, "high": 0}},
        ),
        (
            "parameterType: int, feasibleSpace: {min: '1', max: '1', distribution: logNormal}",
            {"qlognormal": {"loc": 0, "scale": 0, "q": 1}, "rounding": "nearest"},
        ),
    ],
)
def test_a_random_search_has_the_distributions_of_hyperopt(parameter: str, expected: object) -> None:
    search = search_of(parameter, "random")
    assert search["matrix"]["lr"] == expected
    assert search["random_search"] == {"n_experiments": 3}


@pytest.mark.parametrize(
    "change",
    [
        ("ALGORITHM", "cmaes"),
        ("ALGORITHM", "hyperband"),
        ("ALGORITHM", "hyperband, algorithmSettings: [{name: resource_name, value: epochs}]"),
        ("ALGORITHM", "tpe, algorithmSettings: [{name: random_state, value: x}]"),
        ("ALGORITHM", "random, algorithmSettings: [{name: gamma, value: '1'}]"),
        ("objective: {type", "objective: {metricStrategies: [{name: a, value: max}], type"),
        ("maxTrialCount: 3", "maxTrialCount: 3\n  resumePolicy: Never"),
        ("maxTrialCount: 3", "maxTrialCount: 2.5"),
        ("maxTrialCount: 3", "maxTrialCount: 3\n  earlyStopping: {algorithmName: best}"),
        (
            "maxTrialCount: 3",
            "maxTrialCount: 3\n  earlyStopping: {algorithmName: medianstop, algorithmSettings: [{name: start_step, value: x}]}",
        ),
        ("ALGORITHM", "tba"),
        ("ALGORITHM", "sobol"),
        ('max: "0.03", step: "0.01"', 'max: "0.03"'),
        ('max: "0.03"', 'max: "0"'),
        ("[sgd, adam]", "['a b']"),
        ("reference: optimizer", "reference: opt"),
        ("Namespace}", "Name}"),
        ("image: i", "image: 'i:${trialParameters.opt}'"),
        ("trialSpec:", "goTemplate: {rawTemplate: '{{if x}}'}\n    configMap:"),
        ("trialSpec:", "successCondition: status.replicaStatuses.Worker.succeeded = 2\n    trialSpec:"),
        ("maxTrialCount: 3", "parallelTrialCount: 3"),
        ("kind: Job", "kind: Pod"),
        ("template:\n", "parallelism: 4\n        template:\n"),
    ],
    ids=cases(),
)
def test_what_has_no_trials_is_refused_in_katibs_words(change: tuple[str, str], wording: Wording) -> None:
    text = EXPERIMENT.replace("JOB", JOB.strip("\n")).replace(*change)
    wording(remarks_of(text.replace("ALGORITHM", "random" if "maxTrial" in change[0] else "grid")))


GO = """
    goTemplate:
      rawTemplate: |-
        apiVersion: "kubeflow.org/v1"
        kind: TFJob
        metadata: {name: {{.Trial}}, namespace: {{.NameSpace}}}
        spec:
          tfReplicaSpecs:
            Worker:
              replicas: 2
              template:
                spec:
                  containers:
                  - name: tensorflow
                    image: i
                    command:
                    - "python"
                    - "/t.py"
                    {{- with .HyperParameters}}
                    {{- range .}}
                    - "{{.Name}}={{.Value}}"
                    {{- end}}
                    {{- end}}
"""


def with_go_template(go: str = GO) -> str:
    return EXPERIMENT.split("    trialParameters:", maxsplit=1)[0].replace("ALGORITHM", "grid") + go.lstrip(
        "\n"
    )


def test_a_template_of_go_has_all_parameters() -> None:
    done = load_experiment(source.parse(with_go_template(), "f.yml"))
    assert [trial.command for trial in done.trials] == [
        f"python /t.py --lr=0.01 num-layers={layers} optimizer={opt}"
        for layers, opt in (("2", "sgd"), ("2", "adam"), ("3", "sgd"))
    ]
    assert (done.experiment.name, done.experiment.framework) == ("tune", "tensorflow")


def test_a_template_of_go_that_is_no_yaml_is_an_error_at_its_place(wording: Wording) -> None:
    wording(remarks_of(with_go_template(GO.replace("replicas: 2", "replicas: [2"))))


METRIC = {"name": "Validation-accuracy", "optimization": "maximize"}
STOP = [{"metric": "Validation-accuracy", "value": 0.99, "optimization": "maximize"}]


def adaptive(algorithm: str, settings: str, trials: int) -> tuple[dict[str, Any], list[str]]:
    text = written(algorithm=f"{algorithm}, algorithmSettings: [{settings}]")
    text = text.replace("maxTrialCount: 3", f"maxTrialCount: {trials}\n  maxFailedTrialCount: 0")
    search = importers.read(source.parse(text, "f.yml").data).data["hptuning"]
    assert (search.pop("concurrency"), search.pop("max_failures"), search.pop("early_stopping")) == (
        3,
        1,
        STOP,
    )
    search.pop("matrix")
    return search, [one.rpartition(": ")[2] for one in remarks_of(text)]


@pytest.mark.parametrize(
    ("algorithm", "settings", "initial"),
    [
        ("tpe", "", 3),
        ("multivariate-tpe", "", 10),
        ("multivariate-tpe", "{name: n_startup_trials, value: '5'}", 5),
        ("bayesianoptimization", "{name: n_initial_points, value: '4'}, {name: acq_func, value: EI}", 4),
    ],
    ids=cases(),
)
def test_what_learns_from_trials_is_bayesian_optimization(
    algorithm: str, settings: str, initial: int, wording: Wording
) -> None:
    bo = {"n_initial_trials": initial, "n_iterations": 20 - initial, "metric": METRIC}
    found, remarks = adaptive(algorithm, settings, 20)
    assert found == {"bo": bo}
    wording(remarks)


def test_trials_that_are_all_random_are_a_random_search() -> None:
    assert adaptive("multivariate-tpe", "{name: random_state, value: '7'}", 10) == (
        {"seed": 7, "metric": METRIC, "random_search": {"n_experiments": 10}},
        ["all 10 trials are random ones, since the first 10 of such a search are"],
    )


@pytest.mark.parametrize(
    ("trials", "more"), [(22, []), (5, ["it has 22 trials"])], ids=["as many as it has", "cut short"]
)
def test_hyperband_gives_trials_more_of_its_resource(trials: int, more: list[str]) -> None:
    settings = "{name: resource_name, value: num-layers}, {name: r_l, value: '9'}"
    found, remarks = adaptive("hyperband", settings, trials)
    resource = {"name": "num_layers", "type": "int"}
    assert found == {"hyperband": {"max_iterations": 9, "eta": 3, "resource": resource, "metric": METRIC}}
    paper = "there are 22 trials, by the paper of hyperband; each bracket of Katib begins with `parallelTrialCount`"
    assert remarks == [paper, *more]


def test_the_resource_of_hyperband_is_a_parameter_of_the_job() -> None:
    settings = "{name: resource_name, value: num-layers}, {name: r_l, value: '9'}"
    text = written(algorithm=f"hyperband, algorithmSettings: [{settings}]").replace(', step: "0.01"', "")
    done = load_experiment(source.parse(text, "f.yml"))
    layers = [trial.variables["LAYERS"] for trial in done.trials]
    assert layers == ["1"] * 9 + ["3"] * 5 + ["9"] * 3


def test_a_goal_in_the_output_ends_no_grid_which_is_a_warning(wording: Wording) -> None:
    wording(map(str, load_experiment(source.parse(written(), "f.yml")).problems))
    text = written(algorithm="multivariate-tpe").replace("maxTrialCount: 3", "maxTrialCount: 12")
    assert load_experiment(source.parse(text, "f.yml")).problems == ()


def test_an_algorithm_that_is_refused_has_no_other_problem() -> None:
    text = written(algorithm="cmaes, algorithmSettings: [{name: sigma, value: 1}]")
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(text.replace(', step: "0.01"', ""), "f.yml"))
    assert [problem.path for problem in caught.value.problems if problem.severity == "error"] == [
        ("spec", "algorithm", "algorithmName")
    ]


def test_a_job_of_kubernetes_alone_is_refused_as_ever(wording: Wording) -> None:
    wording(remarks_of("apiVersion: batch/v1\nkind: Job\nspec: {}"))


def test_the_usual_conditions_say_nothing_new() -> None:
    usual = """successCondition: 'status.conditions.#(type=="Complete")#|#(status=="True")#'"""
    text = EXPERIMENT.replace("JOB", JOB.strip("\n")).replace("ALGORITHM", "random")
    assert remarks_of(text.replace("trialSpec:", f"{usual}\n    trialSpec:")) == remarks_of(text)
