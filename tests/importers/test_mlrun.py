# ruff: noqa: E501 - a file is written as one line
"""Files shaped like those of MLRun; what becomes of each stands beside it, as a whole."""

from __future__ import annotations

import json
import pathlib

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Path
from hpcdist.base.tree import Document
from hpcdist.importers.mlrun import IMPORTER
from hpcdist.importers.mlrun.command import start_line
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import cases, remarks_of
from tests.wording import Wording

FOLDER = pathlib.Path(__file__).parent / "mlrun"
NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.expected.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_an_experiment(name: str) -> None:
    document = source.parse((FOLDER / f"{name}.yml").read_text(), f"{name}.yml")
    expected = source.load(FOLDER / f"{name}.expected.yml").data
    assert IMPORTER.recognises(document.data)
    read = importers.read(document.data)
    remarks = [f"{problem.severity}: {document.locate(problem)}" for problem in read.remarks]
    assert (read.data, remarks) == (expected["native"], expected["remarks"])


def test_every_file_has_its_expectation() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yml") if "expected" not in path.name) == NAMES


@pytest.mark.parametrize(
    "text",
    [
        "kind: mpijob\nspec: {command: x.py, replicas: 1, default_handler: train}",
        "kind: project\nspec: {functions: [{name: a, url: a.py, kind: job, handler: f}]}",
    ],
    ids=cases(),
)
def test_what_is_accepted(text: str) -> None:
    assert remarks_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "kind: mpijob\nmetadata: {}\nspec: {command: x.py, replicas: 2, mpi_args: [-np, '4', --bind-to, core, -H, 'a,b']}",
        "kind: mpijob\nmetadata: {}\nspec: {command: x.py, replicas: 0, mpi_args: [--frobnicate]}",
        "kind: mpijob\nspec: {command: s3://b/x.py, replicas: 1}",
        "kind: mpijob\nspec: {replicas: 1}",
        "kind: mpijob\nspec: {replicas: 1, command: x.ipynb}",
        "kind: mpijob\nspec: {replicas: 1, build: {functionSourceCode: '***'}}",
        "kind: mpijob\nspec: {replicas: 1, command: x.py, mode: other, hyperparams: {lr: [1, 2]}, state_thresholds: {executing: soon}}",
        "kind: job\nspec: {command: x.py, image: .mlrun/func-a-b}",
        "kind: dask\nmetadata: {name: a}\nspec: {image: x}",
        "kind: run\nmetadata: {name: a}\nspec: {parameters: {lr: 1}, hyperparams: {lr: [1, 2, 3, 4]}, hyper_param_options: {strategy: grid}, function: a/b}",
        "kind: project\nspec: {functions: [{name: a, kind: mpijob, spec: {kind: mpijob, spec: {command: a.py}}}, {name: b, url: b.py, kind: mpijob}]}",
        "kind: project\nspec: {functions: [{name: a, url: 'hub://x'}, {url: b.yaml, name: b}]}",
        "kind: project\nspec: {functions: [{name: a, url: x.yaml, kind: mpijob}]}",
        "kind: project\nspec: {}",
        "kind: mpijob\nspec: {comand: x.py, replicas: 1, command: y.py, parameters: [1]}",
        "kind: job\nmetadata: {name: a}\nspec: {build: {functionSourceCode: IiIiVHJhaW4uIiIiCmltcG9ydCB4CkEgPSAxCmNsYXNzIEI6IHBhc3MKZGVmIHRyYWluKGNvbnRleHQpOiByZXR1cm4gQgo=}}",
        "metadata: {name: a}\nspec: {command: x.py, build: {}}",
        "metadata: {name: a}\nspec: {handler: f, hyperparams: {lr: [1, 2], opt: [a b, c]}}",
        "kind: run\nspec: {hyperparams: {lr: [1, 2], b: [3, 4]}, hyper_param_options: {strategy: list}, function: a}",
        "kind: mpijob\nspec: {command: x.py, replicas: 1, hyper_param_options: {strategy: random, param_file: p.csv}}",
        "apiVersion: v1\nmlrunVersion: 1.2.0\nname: describe\nspec: {kind: job}",
        "kind: mpijob\nspec: {command: x.py, replicas: 1, args: ['-x A=b', 1]}",
        "kind: project\nmetadata: {name: p}\nspec: {functions: [{name: a, url: a.py}, {name: t, spec: {kind: mpijob, metadata: {name: train, project: q}, spec: {command: t.py, replicas: 1}}}]}",
        "kind: project\nspec: {functions: [{name: a b, url: a.py}, {name: c, kind: job, spec: {}}, {name: d, url: d.py, kind: serving}]}",
        "kind: project\nspec: {functions: [{name: a, url: a.py, kind: serving}]}",
        "kind: job\nspec: {command: x.sh, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
        "kind: job\nspec: {command: bash x, mode: pass, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
        "kind: job\nspec: {mode: pass, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
        "kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [--frobnicate]}",
        "kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [-v, nosuch, -q]}",
        "kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [-wdir, /x]}",
    ],
    ids=cases(),
)
def test_refusals_and_warnings(text: str, wording: Wording) -> None:
    wording(remarks_of(text))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("kind: mpijob\nspec: {}", True),
        ("kind: job\nmetadata: {}\nspec: {}", True),
        ("kind: project\nspec: {}", True),
        ("functions: []\nworkflows: []", True),
        ("kind: job\nrun: {cmd: x}", False),
        ("kind: job\nspec: {}\nrun: {cmd: x}", False),
        ("apiVersion: kubeflow.org/v1\nkind: MPIJob\nspec: {}", False),
        ("kind: MPIJob\nspec: {}", False),
        ("metadata: {}\nspec: {build: {}}", True),
        ("metadata: {}\nspec: {containers: []}", False),
        ("apiVersion: v1\nmlrunVersion: 1.2.0", True),
        ("kind: project\nmetadata: {}\n$schema: x", False),
    ],
)
def test_the_form_is_recognised_by_its_kind_and_sections(text: str, *, own: bool) -> None:
    assert IMPORTER.recognises(source.parse(text, "f.yml").data) is own


def test_keys_missing_in_an_export_are_set_on_the_command_line() -> None:
    document = source.load(FOLDER / "code.yml")
    loaded = load_experiment(document, settings=[("environment.replicas.n_workers", "3")])
    replicas = loaded.experiment.environment.replicas
    assert replicas is not None
    assert replicas.n_workers == 3


@pytest.mark.parametrize("value", ["a b", 'a"b', "back\\slash", "it's"])
def test_the_program_reads_its_params_as_json(value: str) -> None:
    document = source.load(FOLDER / "function.yml")
    loaded = load_experiment(document, params={"opt": value, "lr": "0.2"})
    remarks = json.loads(str(loaded.experiment.environment.env_vars["MLRUN_EXEC_CONFIG"]))
    assert remarks == {"spec": {"parameters": {"lr": 0.2, "opt": value}}}


def test_a_list_of_the_command_line_reaches_the_program() -> None:
    document = source.parse("kind: job\nspec: {command: x.py, parameters: {sizes: [1, 2]}}", "f.yml")
    loaded = load_experiment(document, params={"sizes": "[3]"})
    config = json.loads(str(loaded.experiment.environment.env_vars["MLRUN_EXEC_CONFIG"]))
    assert config == {"spec": {"parameters": {"sizes": [3]}}}


def test_code_in_the_file_is_run() -> None:
    loaded = load_experiment(source.load(FOLDER / "code.yml"))
    code = loaded.experiment.run.command.split("\n", 2)[2].rsplit("\nEND_OF_CODE", 1)[0]
    assert code == 'import horovod.torch as hvd\nhvd.init()\nprint("{{x}}", hvd.rank())'


def test_a_param_without_a_value_is_required(wording: Wording) -> None:
    document = source.load(FOLDER / "pass.yml")
    with pytest.raises(ConfigError) as caught:
        load_experiment(document)
    wording(str(caught.value).replace(f"{FOLDER}/", ""))
    loaded = load_experiment(document, params={"rounds": "5; x"})
    assert loaded.experiment.run.command == """./osu_bw -i '5; x' 'it'"'"'s'"""


def test_origins_of_native_keys() -> None:
    found = importers.read(source.load(FOLDER / "code_arguments.yml").data)
    asked: list[Path] = [
        ("environment", "env_vars", name) for name in ("A", "MLRUN_EXEC_CONFIG", "B", "C", "PYTHONPATH")
    ]
    asked += [("inputs", 0), ("inputs", 1)]
    document = Document(found.data, "")
    remarks = [(found.origins[path], place.line if (place := document.place(path)) else 0) for path in asked]
    assert remarks == [
        (("spec", "env", 0), 10),
        (("spec", "parameters"), 9),
        (("spec", "mpi_args"), 12),
        (("spec", "mpi_args"), 12),
        (("spec", "pythonpath"), 11),
        (("spec", "parameters", "lr"), 9),
        (("spec", "args", 1), 5),
    ]


@pytest.mark.parametrize(
    ("command", "origin", "whole", "run"),
    [
        ("", "", False, ('"$code"/main.py', 'py "$code"/main.py')),
        ("* --a  1", "b.sh", False, ('"$code"/b.py', 'py "$code"/b.py --a 1')),
        ("{codefile}", "/x/b", False, ('"$code"/b.py', 'py "$code"/b.py')),
        ("x.sh", "b.py", False, ("", "")),
        ("python -O {codefile} a", "", True, ('"$code"/codefile', 'python -O "$code"/codefile a')),
        ("x.sh a  b", "", True, ('"$code"/codefile.sh', 'bash "$code"/codefile.sh a  b')),
        ("x a", "y.sh", True, ('"$code"/y.sh', 'bash "$code"/y.sh a')),
        ("", "y.sh", True, ('"$code"/y.sh', 'bash "$code"/y.sh')),
        ("x.py", "y.py", True, ("", "")),
    ],
)
def test_code_is_run_as_mlrun_runs_it(
    command: str, origin: str, run: tuple[str, str], *, whole: bool
) -> None:
    assert start_line(command, origin, "py", whole=whole) == run
