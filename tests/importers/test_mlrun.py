# ruff: noqa: E501 - a message is compared as one line
"""Files shaped like those of MLRun; what becomes of each stands beside it, as a whole."""

from __future__ import annotations

import json
import pathlib

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.documents.tree import Document
from hpcdist.errors import ConfigError, Path
from hpcdist.importers.mlrun import IMPORTER
from hpcdist.importers.mlrun.code import start_line
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import remarks_of

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
    ("text", "remarks"),
    [
        ("kind: mpijob\nmetadata: {}\nspec: {command: x.py, replicas: 2, mpi_args: [-np, '4', --bind-to, core, -H, 'a,b']}",
         ["error: f.yml:3:36: spec.mpi_args: mpirun starts 4 processes, and there are 2 replicas", "warning: f.yml:3:36: spec.mpi_args: --bind-to core has no effect: hpcdist starts the processes", "warning: f.yml:3:36: spec.mpi_args: -H a,b has no effect: hpcdist starts the processes"]),
        ("kind: mpijob\nmetadata: {}\nspec: {command: x.py, replicas: 0, mpi_args: [--frobnicate]}",
         ["error: f.yml:3:33: spec.replicas: 0 replicas cannot be started; write 1 or more"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, default_handler: train}",
         []),
        ("kind: mpijob\nspec: {command: s3://b/x.py, replicas: 1}",
         ["error: f.yml:2:17: spec.command: s3://b/x.py is not fetched; write the path of the program"]),
        ("kind: mpijob\nspec: {replicas: 1}",
         ["error: f.yml:2:1: spec.command: there is no command; write the program, such as train.py"]),
        ("kind: mpijob\nspec: {replicas: 1, command: x.ipynb}",
         ["error: f.yml:2:30: spec.command: a notebook is not a program; export it as a script (jupyter nbconvert)"]),
        ("kind: mpijob\nspec: {replicas: 1, build: {functionSourceCode: '***'}}",
         ["error: f.yml:2:49: spec.build.functionSourceCode: this is not a program in base64; name the program in `spec.command`", "error: f.yml:2:1: spec.command: there is no command; write the program, such as train.py"]),
        ("kind: mpijob\nspec: {replicas: 1, command: x.py, mode: other, hyperparams: {lr: [1, 2]}, state_thresholds: {executing: soon}}",
         ["error: f.yml:2:106: spec.state_thresholds.executing: 'soon' is not a time limit; write 90m, 1h30m or -1", "error: f.yml:2:42: spec.mode: unknown mode 'other'; write `pass`, or nothing"]),
        ("kind: dask\nmetadata: {name: a}\nspec: {image: x}",
         ["error: f.yml:1:7: kind: functions of kind 'dask' are not run; start its cluster from the command of a job of your own"]),
        ("kind: run\nmetadata: {name: a}\nspec: {parameters: {lr: 1}, hyperparams: {lr: [1, 2, 3, 4]}, hyper_param_options: {strategy: grid}, function: a/b}",
         ["error: f.yml:1:7: kind: a run of MLRun names its function, and does not contain it; give the file of its function, with the parameters in `spec.parameters`, and lists of them in `spec.hyperparams`"]),
        ("kind: project\nspec: {functions: [{name: a, kind: mpijob, spec: {kind: mpijob, spec: {command: a.py}}}, {name: b, url: b.py, kind: mpijob}]}",
         ["error: f.yml:2:8: spec.functions: this project has several functions: a, b; choose one: `--name a`"]),
        ("kind: project\nspec: {functions: [{name: a, url: 'hub://x'}, {url: b.yaml, name: b}]}",
         ["error: f.yml:2:8: spec.functions: no function in this file is a job; there are: a (hub://x), b (b.yaml)"]),
        ("kind: project\nspec: {functions: [{name: a, url: x.yaml, kind: mpijob}]}",
         ["error: f.yml:2:20: spec.functions[0]: the function is not in this file; give that file, or write the function here, with `kind`, `metadata` and `spec`"]),
        ("kind: project\nspec: {}",
         ["error: f.yml:2:1: spec.functions: no function in this file is a job; write one, or give the file of a function"]),
        ("kind: mpijob\nspec: {comand: x.py, replicas: 1, command: y.py, parameters: [1]}",
         ["error: f.yml:2:50: spec.parameters: expected keys and values; write `NAME: VALUE`", "error: f.yml:2:8: spec.comand: unknown key 'spec.comand'; remove it"]),
        ("kind: job\nmetadata: {name: a}\nspec: {build: {functionSourceCode: IiIiVHJhaW4uIiIiCmltcG9ydCB4CkEgPSAxCmNsYXNzIEI6IHBhc3MKZGVmIHRyYWluKGNvbnRleHQpOiByZXR1cm4gQgo=}}",
         ["warning: f.yml:3:36: spec.build.functionSourceCode: the code runs nothing by itself: its function 'train' is called"]),
        ("metadata: {name: a}\nspec: {command: x.py, build: {}}",
         ["error: f.yml:1:1: kind: it looks like a function of MLRun, without its `kind`; write `kind: mpijob`, or `kind: job` for one process"]),
        ("metadata: {name: a}\nspec: {handler: f, hyperparams: {lr: [1, 2], opt: [a b, c]}}",
         ["error: f.yml:1:1: kind: it looks like a task of MLRun, without its `kind`; give the file of its function, with the parameters in `spec.parameters`, and lists of them in `spec.hyperparams`"]),
        ("kind: run\nspec: {hyperparams: {lr: [1, 2], b: [3, 4]}, hyper_param_options: {strategy: list}, function: a}",
         ["error: f.yml:1:7: kind: a run of MLRun names its function, and does not contain it; give the file of its function, with the parameters in `spec.parameters`, and lists of them in `spec.hyperparams`"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, hyper_param_options: {strategy: random, param_file: p.csv}}",
         ["error: f.yml:2:88: spec.hyper_param_options.param_file: p.csv is not read here; write its values as `hyperparams`, or copy it beside this file and give that name"]),
        ("apiVersion: v1\nmlrunVersion: 1.2.0\nname: describe\nspec: {kind: job}",
         ["error: f.yml:2:15: mlrunVersion: this is an entry of MLRun's list of functions; give the function itself: function.yaml, beside it"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, args: ['-x A=b', 1]}",
         ["warning: f.yml:2:43: spec.args[0]: this option of mpirun is passed to the program: write it in `mpi_args`"]),
        ("kind: project\nmetadata: {name: p}\nspec: {functions: [{name: a, url: a.py}, {name: t, spec: {kind: mpijob, metadata: {name: train, project: q}, spec: {command: t.py, replicas: 1}}}]}",
         ["warning: f.yml:3:20: spec.functions[0]: the function a is not run: only t is", "warning: f.yml:3:49: spec.functions[1].name: the job is named 'train', as the function itself is", "warning: f.yml:3:106: spec.functions[1].spec.metadata.project: this project is used, not 'p', which is given outside the function"]),
        ("kind: project\nspec: {functions: [{name: a, url: a.py, kind: job, handler: f}]}",
         []),
        ("kind: project\nspec: {functions: [{name: a b, url: a.py}, {name: c, kind: job, spec: {}}, {name: d, url: d.py, kind: serving}]}",
         ["error: f.yml:2:8: spec.functions: this project has several functions: a b, c; choose one: `--name 'a b'`"]),
        ("kind: project\nspec: {functions: [{name: a, url: a.py, kind: serving}]}",
         ["error: f.yml:2:8: spec.functions: no function in this file is a job; there are: a (serving)"]),
        ("kind: job\nspec: {command: x.sh, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
         ["error: f.yml:2:17: spec.command: the file does not say how its code is run; write `mode: pass`, and {codefile} where the command names its file: `bash {codefile}`"]),
        ("kind: job\nspec: {command: bash x, mode: pass, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
         ["error: f.yml:2:17: spec.command: the file does not say how its code is run; write `mode: pass`, and {codefile} where the command names its file: `bash {codefile}`"]),
        ("kind: job\nspec: {mode: pass, build: {functionSourceCode: aW1wb3J0IHN5cwpwcmludChzeXMuYXJndikK}}",
         ["error: f.yml:2:20: spec.build: the file does not say how its code is run; write `mode: pass`, and {codefile} where the command names its file: `bash {codefile}`"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [--frobnicate]}",
         ["error: f.yml:2:36: spec.mpi_args: these options are of an mpirun whose option --frobnicate has no equivalent; remove that, or set it by `batch.launcher`"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [-v, nosuch, -q]}",
         ["error: f.yml:2:36: spec.mpi_args: these options are of an mpirun that starts 'nosuch -q', which is none of its options; remove that, or set it by `batch.launcher`"]),
        ("kind: mpijob\nspec: {command: x.py, replicas: 1, mpi_args: [-wdir, /x]}",
         ["error: f.yml:2:36: spec.mpi_args: these options are of an mpirun that works in /x; remove that, or set it by `batch.launcher`"]),
    ],
)  # fmt: skip
def test_refusals_and_warnings(text: str, remarks: list[str]) -> None:
    assert remarks_of(text) == remarks


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


def test_a_param_without_a_value_is_required() -> None:
    document = source.load(FOLDER / "pass.yml")
    with pytest.raises(ConfigError, match="the input 'rounds' is required but has no param"):
        load_experiment(document)
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
