# ruff: noqa: E501 - a file is written as one line
"""Handlers of MLRun: the command that calls one, and what the called code gets."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.host.resources import shipped
from hpcdist.importers.mlrun import IMPORTER, command
from hpcdist.loading.load import load_experiment
from hpcdist.loading.named_files import with_named_file
from tests.importers.remarks import remarks_of
from tests.wording import Wording

CODE: Final = """
import mlrun
import mlrun.frameworks.pytorch as frameworks
from mlrun.artifacts import PlotArtifact
from mlrun.execution import MLClientCtx

class Trainer:
    def fit(self, context, rounds=1):
        context.log_result("rounds", rounds)
        context.log_artifact("kept", body=str(rounds))

def _hidden(): pass

def train(context: MLClientCtx, data: mlrun.DataItem, path=None, lr: float = 0.1, *, tag="x{{y}}"):
    context.logger.info("read %s", "all", text=data.get(encoding="utf-8"))
    context.log_results({"lr": lr, "tag": tag})
    context.log_artifact("note", body={"a": 1}, local_path="deep/note.json")
    context.log_artifact(PlotArtifact("plot", body=Figure()), artifact_path="plots")
    context.log_artifact("copy", local_path=data.local(), format="txt")
    context.log_artifact("text", body="t", format="txt")
    context.log_artifact("folder", target_path=".")
    context.log_model("model", body=b"w", model_file="m.bin", metrics={"a": 1}, extra_data={"more": b"m"})
    context.set_label("by", mlrun.get_or_create_ctx("x").get_param("lr"))
    context.commit("done")
    return path.url if path else 7

class Figure:
    def savefig(self, path):
        open(path, "w").write("figure")
"""


def function(spec: dict[str, Any], code: str = CODE, kind: str = "job") -> str:
    """Return the text of a function with that code."""
    build = {"functionSourceCode": base64.b64encode(code.encode()).decode(), "origin_filename": "/x/train.py"}
    return json.dumps({"kind": kind, "metadata": {"name": "t"}, "spec": {**spec, "build": build}})


def run(
    text: str, folder: Path, params: dict[str, object], rank: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command of an imported function as a task of a job does; other modules are in the folder."""
    command = str(importers.read(source.parse(text, "f.yml").data).data["run"]["cmd"])
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HPCDIST_OUTPUTS": str(folder / "outputs"),
        "HPCDIST_RUN_DIR": "/runs/My_run.1",
        "HPCDIST_RANK": str(rank),
        "HPCDIST_TRACKING": str(folder / "tracking"),
        "PYTHONPATH": f"{folder}:{shipped('templates') / 'python'}",
        "POLYAXON_PARAMS": json.dumps(params),
        **more,
    }
    command = command.replace("{% raw %}", "").replace("{% endraw %}", "")
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def tracked(folder: Path) -> list[dict[str, Any]]:
    """Return what was recorded, without times, sizes and hashes."""
    (file,) = (folder / "tracking").iterdir()
    lines = list(map(json.loads, file.read_text().splitlines()))
    for line in lines:
        del line["at"]
        for name in ("sha256", "bytes"):
            line.get("artifact", {}).pop(name, None)
    return lines


@pytest.mark.parametrize("name", ["run_handler", "stand_in", "script"])
def test_a_program_is_one_file_for_python_3_8(name: str) -> None:
    tree = ast.parse(command.program_text(name), feature_version=(3, 8))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names} == set()
    assert "{{" not in command.program_text(name)


def test_a_handler_is_called_with_its_context_and_params(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("some")
    outputs = tmp_path / "outputs"
    done = run(
        function({"default_handler": "train"}), tmp_path,
        {"data": "d.txt", "path": "d.txt", "lr": 0.5, "old": 1},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition("[")[2] for line in done.stdout.splitlines()] == [
        "warning] train takes no old",
        'info] read all: {"text": "some"}',
        "info] result tag: x{{y}}",
        "info] the artifact folder is ., and not copied",
        "info] message: done",
        "info] result return: d.txt",
    ]
    assert tracked(tmp_path) == [
        {"params": {"data": "d.txt", "path": "d.txt", "lr": 0.5, "old": 1}},
        {"metrics": {"lr": 0.5}},
        {"artifact": {"kind": "artifact", "path": "deep/note.json"}},
        {"artifact": {"kind": "artifact", "path": "plots/plot.png"}},
        {"artifact": {"kind": "artifact", "path": "d.txt"}},
        {"artifact": {"kind": "artifact", "path": "text.txt"}},
        {"artifact": {"kind": "model", "metrics": {"a": 1}, "path": "model"}},
        {"artifact": {"kind": "artifact", "path": "model/more"}},
        {"tags": ["by=0.5"]},
    ]
    files = {
        str(path.relative_to(outputs)): path.read_text() for path in outputs.rglob("*") if path.is_file()
    }
    assert files == {
        "deep/note.json": '{"a": 1}', "plots/plot.png": "figure", "d.txt": "some",
        "text.txt": "t", "model/m.bin": "w", "model/more": "m",
    }  # fmt: skip


def test_other_ranks_and_methods_of_classes(tmp_path: Path) -> None:
    done = run(function({"default_handler": "Trainer::fit"}, kind="mpijob"), tmp_path, {"rounds": 3}, rank=2)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "tracking").exists()
    assert (tmp_path / "outputs/rank-2/kept").read_text() == "3"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("context.get_project_object()", "MLClientCtx.get_project_object needs MLRun itself: install mlrun in the environment of the job"),
        ("frameworks.apply_mlrun(1)", "mlrun.frameworks.pytorch.apply_mlrun needs MLRun itself: install mlrun in the environment of the job"),
        ("mlrun.mlconf.dbpath", "mlrun.mlconf.dbpath needs MLRun itself: install mlrun in the environment of the job"),
        ("mlrun.get_dataitem('store://x').get()", "store://x is not fetched: copy it to this machine, and give its path"),
        ("mlrun.get_dataitem('x.bin').as_df()", "x.bin is no CSV, JSON or Parquet file, by its name"),
        ("context.log_artifact('a')", "the artifact a has neither a body nor a local_path"),
        ("context.set_state(error='too bad')", "the handler set an error: too bad"),
        ("return fail()\nasync def fail(): raise ValueError('in a coroutine')", "ValueError: in a coroutine"),
        ("raise mlrun.errors.MLRunInvalidArgumentError('no')", "Exception: no"),
    ],
)  # fmt: skip
def test_what_is_not_here_is_named(tmp_path: Path, body: str, error: str) -> None:
    code = f"import mlrun\nimport mlrun.frameworks.pytorch as frameworks\ndef f(context): {body}\n"
    done = run(function({"default_handler": "f"}, code), tmp_path, {})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(error)


REAL: Final = """
import os
from types import SimpleNamespace as Some
def new_function(name):
    def run(task, handler):
        state = "completed"
        os.makedirs(task["spec"]["output_path"] + "/my-run-1/0")
        try:
            handler(Some(**task), **task["spec"]["inputs"])
        except ValueError:
            state = "created"
        return Some(status=Some(results={"a": 1}, state=state))
    return Some(run=run)
"""
"""What MLRun 1.10 does without a server: it reports no error of a handler, only a state."""


@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("raise ValueError", 1)])
def test_mlrun_makes_the_call_where_it_is_installed(tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "mlrun.py").write_text(REAL)
    text = function(
        {"default_handler": "f"}, f"def f(context, data: 'DataItem'):\n  print(context)\n  {body}\n"
    )
    done = run(text, tmp_path, {"data": "d.txt", "lr": 1})
    assert done.returncode == code
    assert done.stdout == (
        "namespace(metadata={'name': 'my-run-1', 'project': 'hpcdist'}, spec={'parameters': {'lr': 1}, "
        f"'inputs': {{'data': 'd.txt'}}, 'output_path': '{tmp_path}/outputs'}})\n"
    )
    assert tracked(tmp_path) == [
        {"params": {"data": "d.txt", "lr": 1}},
        {"metrics": {"a": 1}},
        {"artifact": {"kind": "artifact", "path": "my-run-1"}},
    ]
    assert done.stderr == ("the handler failed; MLRun's state is created\n" if code else "")


@pytest.mark.parametrize("handler", ["train", "pack.train.train"])
def test_a_handler_in_a_file_or_a_module(tmp_path: Path, handler: str) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/train.py").write_text(
        "def train(context, **more): context.log_result('got', more['x'][0])"
    )
    spec = (
        {"default_handler": handler, "workdir": "pack"}
        if handler == "train"
        else {"default_handler": handler}
    )
    command = {"command": "train.py"} if handler == "train" else {}
    done = run(
        json.dumps({"kind": "local", "metadata": {}, "spec": {**spec, **command}}), tmp_path, {"x": [1]}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert tracked(tmp_path) == [{"params": {"x": [1]}}, {"metrics": {"got": 1}}]


def test_the_params_of_a_handler_are_declared() -> None:
    text = function({"default_handler": "train", "parameters": {"lr": 0.5, "old": 1}})
    found = importers.read(source.parse(text, "f.yml").data)
    assert found.data["inputs"] == [
        {"name": "data"},
        *({"name": name, "is_optional": True} for name in ("path", "lr", "tag", "old")),
    ]
    assert [remark.message for remark in found.remarks] == [
        "'train' does not take it, and MLRun would not pass it"
    ]
    loaded = load_experiment(source.parse(text, "f.yml"), params={"data": "d.csv"})
    assert loaded.experiment.params == {"lr": 0.5, "old": 1, "data": "d.csv"}
    assert 'tag="x{{y}}"' in loaded.experiment.run.command


TWO: Final = "def a(context): pass\ndef b(context, **more): pass\n"


@pytest.mark.parametrize(
    "text",
    [
        function({}, TWO),
        function({"default_handler": "c"}, TWO),
        function({"default_handler": "c"}, "x = 1"),
        "kind: job\nspec: {default_handler: c}",
        function({"default_handler": "b", "args": ["-x"]}, TWO),
        function({"default_handler": "b"}, "def b(:"),
        "kind: job\nspec: {command: x.py, retry: {count: 2}, notifications: [a], returns: [x], inputs: {d: 'store://a/b', e: e.csv}, outputs: []}",
        "kind: dataset\nspec: {target_path: /x, producer: {}, db_key: x}",
    ],
    ids=[
        "several handlers",
        "a handler that is missing",
        "code without a function",
        "a handler without code",
        "arguments of a handler",
        "code of another Python",
        "keys without effect",
        "an artifact",
    ],
)
def test_refusals_and_warnings(text: str, wording: Wording) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    wording(line.replace(f"Python {version}:", "Python VERSION:") for line in remarks_of(text))


def test_a_handler_is_chosen_on_the_command_line() -> None:
    document = source.parse(function({}, TWO), "f.yml")
    loaded = load_experiment(document, settings=[("handler", "b")])
    assert loaded.experiment.run.command.splitlines()[-1] == (
        'python -u "$code"/call/run_handler.py b "$code"/train.py'
    )


PROJECT: Final = (
    "kind: project\nspec:\n  functions:\n  - {url: sub/f.yaml, name: f, handler: b, image: other}\n"
)


def test_the_function_of_a_project_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/f.yaml").write_text(function({"image": "own", "replicas": 2}, TWO, "mpijob"))
    (tmp_path / "project.yaml").write_text(f"{PROJECT}  - {{url: 'hub://x', name: x}}\n")
    loaded = load_experiment(with_named_file(source.load(tmp_path / "project.yaml")))
    replicas = loaded.experiment.environment.replicas
    assert replicas is not None
    assert (loaded.experiment.build and loaded.experiment.build.image, replicas.n_workers) == ("other", 1)
    assert loaded.experiment.run.command.splitlines()[-1].endswith('run_handler.py b "$code"/train.py')


@pytest.mark.parametrize(
    "text",
    ["kind: job\nspec: {}", "kind: project\nspec: {functions: []}", f"{PROJECT}  - {{url: g.yml}}\n", f"{PROJECT}  - {{url: g.py}}\n"],
)  # fmt: skip
def test_a_project_names_a_file_if_it_is_its_only_choice(text: str) -> None:
    data = source.parse(text, "f.yml").data
    assert importers.file_named_in(data) is None
    assert IMPORTER.with_named_file(data, data) == data


SCRIPT: Final = """
import sys
from mlrun import get_or_create_ctx
import mlrun.artifacts
context = get_or_create_ctx("horovod-trainer")
lr = context.get_param("lr", 0.5)
assert get_or_create_ctx("again") is context
with context:
    for epoch in range(2):
        context.log_result("loss", lr / (epoch + 1))
    context.log_model("model", body=b"w", model_file="m.bin", metrics={"a": 1})
print(context.get_param("rounds", 7), sys.argv[1:])
"""


def script(folder: Path, code: str = SCRIPT, rank: int = 0) -> subprocess.CompletedProcess[str]:
    text = function({"args": ["--x", "1"], "parameters": {"lr": 0.25}}, code)
    data = importers.read(source.parse(text, "f.yml").data).data
    config = data["environment"]["env_vars"]["MLRUN_EXEC_CONFIG"].replace("{{ lr|tojson }}", "0.25")
    return run(text, folder, {}, rank, MLRUN_EXEC_CONFIG=config)


def test_a_program_that_is_no_handler_gets_its_context(tmp_path: Path) -> None:
    done = script(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 ['--x', '1']\n", "")
    assert tracked(tmp_path) == [
        {"params": {"lr": 0.25}},
        {"metrics": {"loss": 0.25}},
        {"metrics": {"loss": 0.125}},
        {"artifact": {"kind": "model", "metrics": {"a": 1}, "path": "model"}},
    ]
    assert (tmp_path / "outputs/model/m.bin").read_text() == "w"


def test_a_program_gets_mlrun_where_that_is_installed(tmp_path: Path) -> None:
    (tmp_path / "mlrun" / "execution").mkdir(parents=True)
    (tmp_path / "mlrun" / "__init__.py").write_text("own = 'of MLRun'")
    (tmp_path / "mlrun" / "execution" / "__init__.py").write_text("")
    done = script(tmp_path, "import mlrun, mlrun.execution as e; print(mlrun.own, e.__file__)")
    assert (done.stdout, done.stderr) == (f"of MLRun {tmp_path}/mlrun/execution/__init__.py\n", "")


def test_a_program_without_mlrun_is_alone() -> None:
    text = function({}, "print(1)")
    assert "stand_in" not in importers.read(source.parse(text, "f.yml").data).data["run"]["cmd"]
