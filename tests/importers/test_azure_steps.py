"""A step of a pipeline is a job, with its component, in the file or beside it, and the pipeline's values."""

from __future__ import annotations

import pathlib

import pytest

from hpcdist.base import source
from hpcdist.cli.experiment.import_ import origins
from hpcdist.loading.load import Native, to_native
from tests.wording import Wording

from .azure_commands import prepared

PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
display_name: All
settings: {default_compute: azureml:cpus, force_rerun: true}
inputs:
  data: {type: uri_folder, path: data}
  rate: 1.50
  nodes: {type: integer, default: 2}
outputs:
  clean: {type: uri_folder}
jobs:
  prepare:
    command: prepare ${{inputs.data}} ${{inputs.rate}} ${{outputs.out}}
    inputs: {data: {path: "${{parent.inputs.data}}", mode: ro_mount}, rate: "${{parent.inputs.rate}}"}
    outputs: {out: "${{parent.outputs.clean}}"}
  train:
    type: command
    component: parts/train.yml
    compute: azureml:gpus
    resources: {instance_count: "${{parent.inputs.nodes}}"}
    inputs: {clean: "${{parent.jobs.prepare.outputs.out}}", rate: "${{parent.inputs.rate}}"}
  other: {type: spark}
"""
COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: trainer
inputs:
  clean: {type: uri_folder}
  rate: {type: number, default: 1, optional: true, min: 0}
  rounds: {type: integer, default: 4}
code: ./src
environment: {image: i}
distribution: {type: mpi}
command: train ${{inputs.clean}} ${{inputs.rate}} ${{inputs.rounds}}
"""
RELATIVE = (
    """{% if (NAME|string)[:1] != "/" %}"$submitted_in/"{% endif %}'{{ (NAME)|replace("'", "'\\\\''") }}'"""
)


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "jobs/parts").mkdir(parents=True)
    (tmp_path / "jobs/parts/train.yml").write_text(COMPONENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def native(text: str, name: str = "", *settings: tuple[str, str]) -> Native:
    return to_native(source.parse(text, "jobs/p.yml"), job=name, settings=settings)


def remarks(found: Native) -> list[str]:
    return [str(problem) for problem in found.problems if "no effect" not in problem.message]


ONLY = "jobs/p.yml:1:1: only {!r} of this document is run"


def test_a_step_has_the_values_of_its_pipeline() -> None:
    found = native(PIPELINE, "prepare")
    command = f'prepare {RELATIVE.replace("NAME", "data")} {{{{ rate }}}} "$HPCDIST_OUTPUTS/out"'
    assert (found.document.data, remarks(found)) == (
        {
            "name": "prepare",
            "tags": ["display_name=All"],
            "inputs": [{"name": "data", "type": "path"}, {"name": "rate"}],
            "params": {"data": "jobs/data", "rate": 1.5},
            "run": {"cmd": prepared(command, "out", before=("submitted_in=$PWD",))},
        },
        [
            ONLY.format("prepare"),
            "jobs/p.yml:11:1: jobs: this step does not use inputs.nodes of its pipeline",
        ],
    )
    ignored = [problem.path for problem in found.problems if "no effect" in problem.message]
    mode = ("jobs", "prepare", "inputs", "data", "mode")
    assert ignored == [mode, ("settings", "default_compute"), ("settings",)]


def test_a_step_has_its_component_of_another_file(here: pathlib.Path) -> None:
    found = native(PIPELINE, "train")
    before = ("submitted_in=$PWD", "cd jobs/parts/src || exit")
    command = prepared(
        f"train {RELATIVE.replace('NAME', 'clean')} {{{{ rate }}}} {{{{ rounds }}}}", before=before
    )
    why = "${{parent.jobs.prepare.outputs.out}} is of another job"
    hint = "run that job before, and give what it wrote: `-p clean=PATH`"
    assert (found.document.data, remarks(found)) == (
        {
            "name": "trainer",
            "tags": ["display_name=All"],
            "framework": "mpi",
            "inputs": [
                {"name": "clean", "type": "path"},
                {"name": "rate", "type": "float", "default": 1.5, "is_optional": True, "minimum": 0},
                {"name": "rounds", "type": "int", "default": 4, "is_optional": True},
            ],
            "params": {"clean": None},
            "build": {"image": "i"},
            "environment": {"replicas": {"n_workers": 1}, "processes_per_replica": 1},
            "batch": {"nodes": 2},
            "run": {"cmd": command},
        },
        [
            ONLY.format("train"),
            f"jobs/p.yml:21:21: jobs.train.inputs.clean: {why}; {hint}",
            "jobs/p.yml:11:1: jobs: this step does not use inputs.data, outputs.clean of its pipeline",
        ],
    )
    origin = origins(found)
    assert origin(("batch", "nodes")) == "p.yml:8 inputs.nodes.default"
    assert origin(("run", "cmd")) == "train.yml:11 jobs.train.component.command"
    assert here.exists()


def test_a_setting_changes_a_step(here: pathlib.Path) -> None:
    found = native(PIPELINE, "train", ("jobs.train.resources.instance_count", "3"), ("code", "/src"))
    assert found.document.data["batch"] == {"nodes": 3}
    assert "\ncd /src || exit\n" in found.document.data["run"]["cmd"]
    assert here.exists()


@pytest.mark.parametrize(
    "line",
    [
        "  prepare:",
        "display_name: All",
    ],
)
def test_an_unknown_key_has_its_place_in_the_pipeline(line: str, wording: Wording) -> None:
    indent = "" if line[:1] != " " else "    "
    text = PIPELINE.replace(f"{line}\n", f"{line}\n{indent}colour: red\n")
    wording(text for text in remarks(native(text, "prepare")) if "colour" in text)


FIRST = """\
type: pipeline_job
defaults: {component_job: {compute: {target: azureml:cpus}}}
jobs:
  one:
    type: component_job
    component:
      type: command_component
      inputs: {a: {type: path}, b: {type: string, default: c}}
      command: x {inputs.a} ${{inputs.b}}
      distribution: {type: tensorflow}
    overrides: {resources: {instance_count: 2}}
    inputs: {a: "${{inputs.a}}", b: 1.0}
inputs: {a: {dataset: {local_path: ./d}}}
"""


def test_a_step_of_the_first_previews_is_a_job() -> None:
    found = native(FIRST)
    command = prepared(f"x {RELATIVE.replace('NAME', 'a')} {{{{ b }}}}", before=("submitted_in=$PWD",))
    assert (found.document.data, remarks(found)) == (
        {
            "name": "one",
            "framework": "tensorflow",
            "inputs": [
                {"name": "a", "type": "path"},
                {"name": "b", "type": "str", "default": "1.0", "is_optional": True},
            ],
            "params": {"a": "jobs/d"},
            "environment": {"replicas": {"n_workers": 1}},
            "batch": {"nodes": 2},
            "run": {"cmd": command},
        },
        [
            (
                "jobs/p.yml:10:7: jobs.one.component.distribution: no GPUs are requested: "
                "the file does not say which machine a node is; "
                "for G GPUs on each node write `--set environment.resources.gpu.requests=G "
                "--set environment.replicas.default_worker.resources.gpu.requests=G`"
            )
        ],
    )


@pytest.mark.parametrize("kind", ["command_component", "command_job"])
def test_types_of_the_first_previews_are_commands(kind: str) -> None:
    assert native(f"type: {kind}\ncommand: x\n").document.data == {"run": {"cmd": prepared("x")}}


def test_a_job_has_its_component_of_another_file(here: pathlib.Path) -> None:
    found = native(
        "type: command\ncomponent: file:./parts/train.yml\ninputs: {clean: {path: d}, rounds: 7}\n"
    )
    defaults = {item["name"]: item.get("default") for item in found.document.data["inputs"]}
    assert (defaults, found.document.data["params"]) == (
        {"rate": 1, "clean": None, "rounds": 7},
        {"clean": "jobs/d"},
    )
    assert here.exists()
