"""Each file is shaped like a public one; what becomes of it stands beside it, as a whole."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.experiment.model import Environment, GpuAmount, ReplicaEntry, Replicas, Resources
from hpcdist.importers.azure import IMPORTER
from hpcdist.loading.load import load_experiment
from tests.wording import Wording

from .azure_commands import prepared

FOLDER = pathlib.Path(__file__).parent / "azure"
NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.expected.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_an_experiment(name: str) -> None:
    document = source.parse((FOLDER / f"{name}.yml").read_text(), f"{name}.yml")
    expected = source.load(FOLDER / f"{name}.expected.yml").data
    assert IMPORTER.recognises(document.data)
    read = importers.read(document.data)
    assert read.data == expected["native"]
    remarks = [f"{problem.severity}: {document.locate(problem)}" for problem in read.remarks]
    assert remarks == expected["remarks"]


def test_every_file_has_its_expectation() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yml") if "expected" not in path.name) == NAMES


NO_MACHINE = (
    "distribution: no GPUs are requested: the file does not say which machine a node is; "
    "for G GPUs on each node write `--set environment.resources.gpu.requests=G "
    "--set environment.replicas.default_worker.resources.gpu.requests=G`"
)
JOB = "type: command\ncommand: x ${{outputs.o}}\n"


@pytest.mark.parametrize(
    ("rest", "native", "remarks"),
    [
        ("outputs: {o: {type: string}}", {"run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}}, []),
        (
            "outputs: {o: {type: custom_model, intellectual_property: {protection_level: all}}}",
            {"run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"', "o")}},
            [("outputs.o.intellectual_property: intellectual_property has no effect on a batch machine: "
             "hpcdist does not hide code or data")],
        ),
        (
            "outputs: {o: {type: uri_file}}\nenvironment: mcr.microsoft.com/azureml/openmpi4.1.0:latest",
            {"build": {"image": "mcr.microsoft.com/azureml/openmpi4.1.0:latest"},
             "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [],
        ),
        (
            "outputs: {o: {type: uri_file}}\nenvironment: {image: 'azureml:sklearn@latest'}",
            {"run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [("environment.image: image has no effect on a batch machine: it is kept in Azure; "
             "install its packages beforehand, or give `--set build.image=IMAGE`")],
        ),
        (
            "outputs: {o: {type: uri_file}}\nenvironment_variables: {A: 1, TOKEN: '${{ secrets.TOKEN }}'}",
            {"environment": {"env_vars": {"A": "1"}}, "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [("environment_variables.TOKEN: TOKEN comes from Azure; "
             "export TOKEN in the shell that submits the job; the job inherits its variables")],
        ),
        (
            ("outputs: {o: {type: uri_file}}\n"
            "distribution: {type: tensorflow, worker_count: 3}\nresources: {instance_count: 2}"),
            {"framework": "tensorflow", "environment": {"replicas": {"n_workers": 2}}, "batch": {"nodes": 2},
             "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [NO_MACHINE],
        ),
        (
            ("outputs: {o: {type: uri_file}}\n"
            "distribution: {type: tensorflow, worker_count: 2}\nresources: {instance_count: 3}"),
            {"framework": "tensorflow", "environment": {"replicas": {"n_workers": 1}}, "batch": {"nodes": 2},
             "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [("resources.instance_count: 2 workers and 0 parameter servers leave some of 3 instances idle; "
             "hpcdist asks for a node for each of them"), NO_MACHINE],
        ),
        (
            ("outputs: {o: {type: uri_file}}\n"
            "distribution: {type: tensorflow, worker_count: 2, parameter_server_count: 1}"),
            {"framework": "tensorflow", "environment": {"replicas": {"n_workers": 1, "n_ps": 1}},
             "tensorflow": {"chief": False}, "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [NO_MACHINE],
        ),
        (
            ("outputs: {o: {type: uri_file}}\nresources: {instance_count: 2}\n"
            "distribution: {type: tensorflow, worker_count: 1, parameter_server_count: 1}"),
            {"framework": "tensorflow", "environment": {"replicas": {"n_ps": 1}}, "batch": {"nodes": 2},
             "tensorflow": {"chief": False}, "run": {"cmd": prepared('x "$HPCDIST_OUTPUTS/o"')}},
            [NO_MACHINE],
        ),
    ],
)  # fmt: skip
def test_keys_besides_the_command(rest: str, native: dict[str, Any], remarks: list[str]) -> None:
    read = importers.read(source.parse(JOB + rest, "job.yml").data)
    assert (read.data, [str(problem._replace(place=None)) for problem in read.remarks]) == (native, remarks)


@pytest.mark.parametrize(
    ("rest", "key"),
    [
        (
            "distribution: {type: mpi, process_count_per_instance: 4}\nresources: {instance_count: 2}",
            "distribution",
        ),
        ("environment: {image: nvidia/cuda}", "command"),
    ],
)
@pytest.mark.parametrize("kind", ["command", "CommandComponent"])
def test_gpus_of_a_machine_that_is_not_named_are_a_warning(kind: str, rest: str, key: str) -> None:
    def warnings(more: str) -> list[str]:
        read = importers.read(source.parse(f"type: {kind}\ncommand: x\n{rest}\n{more}", "job.yml").data)
        return [str(problem._replace(place=None)) for problem in read.remarks if "no GPUs" in problem.message]

    assert [line.partition(";")[0] for line in warnings("")] == [
        f"{key}: no GPUs are requested: the file does not say which machine a node is"
    ]
    for named in ("compute: azureml:gpus", "runsettings: {target: gpus}", "compute: {target: a}"):
        assert warnings(named) == []


COMPONENT = FOLDER / "component_mpi.yml"


def command_of(**params: str) -> str:
    loaded = load_experiment(source.load(COMPONENT), params={"train": "/data"} | params)
    return loaded.experiment.run.command.splitlines()[-1]


RAY = """\
type: command
command: python d.py
resources: {instance_count: 3}
distribution:
  type: ray
  port: 6379
"""


@pytest.mark.parametrize(
    ("keys", "section"),
    [
        ({}, {}),
        ({"include_dashboard": "true"}, {"dashboard_port": 8265}),
        ({"include_dashboard": "false", "dashboard_port": "9000"}, {}),
        ({"dashboard_port": "9000"}, {"dashboard_port": 9000}),
        ({"head_node_additional_args": "--log-style record"}, {"head_args": ["--log-style=record"]}),
        (
            {"head_node_additional_args": "--verbose", "worker_node_additional_args": "--verbose"},
            {"args": ["--verbose"]},
        ),
    ],
)
def test_a_cluster_of_ray(keys: dict[str, str], section: dict[str, Any]) -> None:
    text = RAY + "".join(f"  {name}: {value}\n" for name, value in keys.items())
    read = importers.read(source.parse(text, "job.yml").data)
    assert read.data == {
        "framework": "ray",
        "environment": {"replicas": {"n_workers": 2}},
        "batch": {"nodes": 3},
        "run": {"cmd": prepared("python d.py")},
        **({"ray": section} if section else {}),
    }
    assert [str(problem._replace(place=None)) for problem in read.remarks] == [
        "distribution.port: port has no effect on a batch machine: the job has ports of its own",
        NO_MACHINE,
    ]


def test_inputs_are_given_as_params() -> None:
    assert command_of(rounds="5", label="x") == (
        "python train.py --train '/data' --rounds 5 --rate 0.1 --lazy True --label 'x' --loss l2"
        ' --out "$HPCDIST_OUTPUTS/model"'
    )
    assert command_of(train="d", lazy="false", loss="l1") == (
        "python train.py --train \"$submitted_in/\"'d' --rounds 100 --rate 0.1 --lazy False  --loss l1"
        ' --out "$HPCDIST_OUTPUTS/model"'
    )


@pytest.mark.parametrize(
    "params",
    [
        {"rounds": "many"},
        {"rate": "x"},
        {"rounds": "0"},
        {"lazy": "1"},
        {"loss": "l3"},
        {"trian": "/x"},
    ],
    ids=lambda params: " ".join(f"{name}={value}" for name, value in params.items()),
)
def test_params_are_checked_against_the_types(params: dict[str, str], wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        command_of(**params)
    wording(str(problem) for problem in caught.value.problems if problem.severity == "error")


def test_an_input_without_a_value_is_required(wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(COMPONENT.read_text(), "c.yml"))
    wording(str(problem) for problem in caught.value.problems if problem.severity == "error")


RUN_SETTINGS = [
    ("runsettings.node_count", "4"),
    ("runsettings.resource_layout.process_count_per_node", "8"),
    ("runsettings.resource_layout.instance_type", "Standard_ND96asr_v4"),
    ("runsettings.environment_variables.NCCL_DEBUG", "INFO"),
    ("environment.processes_per_replica", "2"),
    ("batch.qos", "high"),
]


def test_run_settings_are_set_in_the_file_and_the_rest_in_the_experiment() -> None:
    loaded = load_experiment(source.load(COMPONENT), params={"train": "/d"}, settings=RUN_SETTINGS)
    found = loaded.experiment.environment, loaded.experiment.batch.qos
    assert found == (
        Environment(
            resources=Resources(gpu=GpuAmount(requests=8)),
            replicas=Replicas(
                n_workers=3,
                default_worker=ReplicaEntry(
                    resources=Resources(gpu=GpuAmount(requests=8)), node_selector={"gpu_type": "A100"}
                ),
            ),
            node_selector={"gpu_type": "A100"},
            env_vars={"NCCL_DEBUG": "INFO"},
            processes_per_replica=2,
        ),
        "high",
    )
    assert not [problem for problem in loaded.problems if "the number of nodes" in problem.message]


WORDS = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
command: x ${{inputs.lora}} ${{inputs.precision}} ${{inputs.stage}} ${{inputs.data}}
environment: {image: i}
distribution: {type: pytorch}
inputs:
  lora: {type: string, enum: ["true", "false"], default: "false", optional: true}
  precision: {type: Enum, enum: [16, 2.0], default: 16}
  stage: {type: integer, enum: [2, 3]}
  data: {type: uri_folder}
"""


def test_choices_and_texts_keep_their_source_spelling(wording: Wording) -> None:
    params = {"lora": "true", "precision": "2.0", "stage": "3", "data": "/5"}
    loaded = load_experiment(source.parse(WORDS, "w.yml"), params=params)
    assert loaded.experiment.run.command.splitlines()[-1] == "x true 2.0 3 '/5'"
    wording(str(problem) for problem in loaded.problems if "the number of nodes" in problem.message)


def test_settings_of_a_job_are_set_as_az_sets_them() -> None:
    text = JOB + "outputs: {o: {}}\nenvironment: {image: i}\ndistribution: {type: mpi}\n"
    settings = [("resources.instance_count", "3"), ("distribution.process_count_per_instance", "4")]
    environment = load_experiment(source.parse(text, "job.yml"), settings=settings).experiment.environment
    assert environment == Environment(replicas=Replicas(n_workers=2), processes_per_replica=4)


@pytest.mark.parametrize(
    ("key", "text"),
    [("runsettings.node_count", "many"), ("runsettings.nodes", "2"), ("launcher.type", "pmi")],
)
def test_invalid_run_settings_are_reported_at_their_option(key: str, text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.load(COMPONENT), params={"train": "/d"}, settings=[(key, text)])
    wording(str(problem) for problem in caught.value.problems if problem.severity == "error")
