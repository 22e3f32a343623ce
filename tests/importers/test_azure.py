"""Each file is shaped like a public one; what becomes of it stands beside it, as a whole."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from hpcdist import importers, source
from hpcdist.errors import ConfigError
from hpcdist.importers.azure import IMPORTER
from hpcdist.importers.azure.command import Output, Param, Translation
from hpcdist.importers.azure.layout import gpus_of
from hpcdist.load import load_experiment

FOLDER = pathlib.Path(__file__).parent / "azure"
NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.expected.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_an_experiment(name: str) -> None:
    document = source.parse((FOLDER / f"{name}.yml").read_text(), f"{name}.yml")
    expected = source.load(FOLDER / f"{name}.expected.yml").data
    assert IMPORTER.recognises(document.data)
    read = importers.read(document.data)
    assert read.data == expected["native"]
    told = [f"{problem.severity}: {document.locate(problem)}" for problem in read.remarks]
    assert told == expected["remarks"]


def test_every_file_has_its_expectation() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yml") if "expected" not in path.name) == NAMES


PARAMS = {"a": Param("a"), "b": Param("b", may_lack=True), "p": Param("p", is_path=True)}
OUTPUTS = {"o": Output("o"), "f": Output("f", is_file=True)}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("x ${{inputs.a}} ${{ inputs.a }} {inputs.a}", "x {{ a }} {{ a }} {{ a }}"),
        ("x $[[--b ${{inputs.b}} -c]] y", "x {% if b is not none %}--b {{ b }} -c{% endif %} y"),
        ("x [--b {inputs.b}] [ -f y ]", "x {% if b is not none %}--b {{ b }}{% endif %} [ -f y ]"),
        ("x $[[--a ${{inputs.a}}]]", "x --a {{ a }}"),
        ("[[ -n $x ]] && echo ${#a[@]}", "[[ -n $x ]] && echo ${#a[@]}"),
        ("{${{inputs.a}}}", '{{ "{" }}{{ a }}}'),
        ("{{x}} {% {{{", '{{ "{{" }}x}} {{ "{%" }} {{ "{{" }}{'),
        ("${{outputs.o}}/x", '"$HPCDIST_OUTPUTS/o"/x'),
        ('"${{outputs.o}}/x"', '"$HPCDIST_OUTPUTS/o/x"'),
        ("'${{outputs.o}}/x'", "''\"$HPCDIST_OUTPUTS/o\"'/x'"),
        ("${{inputs.p}}", '{% if (p|string)[:1] != "/" %}"$submitted_in/"{% endif %}{{ p }}'),
        ("python -c 'd = {inputs: 1}'", "python -c 'd = {inputs: 1}'"),
    ],
)
def test_commands_are_translated(command: str, text: str) -> None:
    found = Translation(command, PARAMS, OUTPUTS, legacy=False)
    assert (found.text, found.remarks) == (text, [])


@pytest.mark.parametrize("quoted", ["{}", '"{}"', "'{}'", r"it\'s{}", '"it\'s"{}', "'\"'{}"])
def test_outputs_are_expanded_within_any_quotes(quoted: str) -> None:
    text = Translation("printf %s " + quoted.replace("{}", "${{outputs.o}}"), {}, OUTPUTS, legacy=False).text
    assert printed(text) == printed("printf %s " + quoted.replace("{}", "/d/o"))


def printed(command: str) -> bytes:
    done = subprocess.run(
        ["bash", "-c", command], env={"HPCDIST_OUTPUTS": "/d"}, capture_output=True, check=True
    )
    return done.stdout


COMPONENT = FOLDER / "component_mpi.yml"


def command_of(**params: str) -> str:
    loaded = load_experiment(source.load(COMPONENT), params={"train": "/data"} | params)
    return loaded.experiment.run.command.splitlines()[-1]


def test_inputs_are_given_as_params() -> None:
    assert command_of(rounds="5", label="x") == (
        "python train.py --train /data --rounds 5 --rate 0.1 --lazy True --label x --loss l2"
        ' --out "$HPCDIST_OUTPUTS/model"'
    )
    assert command_of(train="d", lazy="false", loss="l1") == (
        'python train.py --train "$submitted_in/"d --rounds 100 --rate 0.1 --lazy False  --loss l1'
        ' --out "$HPCDIST_OUTPUTS/model"'
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"rounds": "many"},
            "-p rounds=many: params.rounds: expected a whole number (`type: int`), got 'many'",
        ),
        ({"rate": "x"}, "-p rate=x: params.rate: expected a number (`type: float`), got 'x'"),
        ({"lazy": "1"}, "-p lazy=1: params.lazy: expected true or false (`type: bool`), got 1"),
        ({"loss": "l3"}, "-p loss=l3: params.loss: 'l3' is not one of the options; known: l1, l2"),
        ({"train": "5"}, "-p train=5: params.train: expected text (`type: path`), got 5"),
        ({"trian": "/x"}, "-p trian=/x: params.trian: there is no param 'trian'; did you mean 'train'?"),
    ],
)
def test_params_are_checked_against_the_types(params: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        command_of(**params)
    assert str(caught.value.problems[0]) == message


def test_an_input_without_a_value_is_asked_for() -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(COMPONENT.read_text(), "c.yml"))
    errors = [str(problem) for problem in caught.value.problems if problem.severity == "error"]
    hint = "write it under `params`, or give `-p train=VALUE`"
    assert errors == [f"c.yml:10:3: inputs[0]: the input 'train' is required and has no param; {hint}"]


def test_run_settings_are_given_by_set() -> None:
    settings = [("environment.replicas.n_workers", "3"), ("environment.processes_per_replica", "8")]
    loaded = load_experiment(source.load(COMPONENT), params={"train": "/d"}, settings=settings)
    environment = loaded.experiment.environment
    assert environment.replicas is not None
    assert (environment.replicas.n_workers, environment.processes_per_replica) == (3, 8)


@pytest.mark.parametrize(
    ("size", "gpus"),
    [
        ("Standard_NC6", 1),
        ("Standard_NC12s_v3", 2),
        ("Standard_NC24rs_v3", 4),
        ("STANDARD_NC64AS_T4_V3", 4),
        ("Standard_NC24ads_A100_v4", 1),
        ("Standard_NC96ads_A100_v4", 4),
        ("Standard_NC80adis_H100_v5", 2),
        ("Standard_ND40rs_v2", 8),
        ("Singularity.ND40rs_v2", 8),
        ("Standard_ND96asr_v4", 8),
        ("Standard_ND96amsr_A100_v4", 8),
        ("Standard_ND96isr_H100_v5", 8),
        ("Standard_ND96isr_H200_v5", 8),
        ("Standard_ND96isr_MI300X_v5", 8),
        ("Standard_ND128isr_NDR_GB200_v6", 4),
        ("Standard_ND24rs", 4),
        ("Standard_NV12s_v3", 1),
        ("Standard_NV72ads_A10_v5", 2),
        ("Standard_D13_v2", 0),
        ("Standard_E4ds_v4", 0),
        ("STANDARD_DS3_V2", 0),
        ("Standard_HB120rs_v3", 0),
        ("Standard_F72s_v2", 0),
        ("Standard_NX1", None),
        ("gpu-cluster", None),
    ],
)
def test_gpus_of_a_size(size: str, gpus: int | None) -> None:
    assert gpus_of(size) == gpus
