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
from hpcdist.base import source
from hpcdist.base.resources import shipped
from hpcdist.importers.mlrun import IMPORTER, command
from hpcdist.loading.load import load_experiment
from hpcdist.loading.named_files import with_named_file
from tests.importers.remarks import remarks_of
from tests.wording import Wording

CODE: Final = """
import mlrun
from mlrun.execution import MLClientCtx

def _hidden(): pass

def train(context: MLClientCtx, data: mlrun.DataItem, path=None, lr: float = 0.1, *, tag="x{{y}}"):
    return path.url if path else 7
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


def test_the_program_is_one_file_for_python_3_8() -> None:
    tree = ast.parse(command.program_text("run_handler"), feature_version=(3, 8))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {module for module in modules if module.split(".")[0] not in sys.stdlib_module_names} == set()
    assert "{{" not in command.program_text("run_handler")


def test_a_handler_without_a_context_is_called_with_its_params(tmp_path: Path) -> None:
    code = "class Trainer:\n  def fit(self, rounds=1): print(rounds)\n"
    done = run(function({"default_handler": "Trainer::fit"}, code), tmp_path, {"rounds": 3})
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert tracked(tmp_path) == [{"params": {"rounds": 3}}]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (CODE, "No module named 'mlrun'; install mlrun in the environment of the job, or name an image that has it"),
        ("def train(context): pass", "train takes a context of MLRun; install mlrun in the environment of the job, or name an image that has it"),
        ("import mlrum\ndef train(): pass", "ModuleNotFoundError: No module named 'mlrum'"),
        ("def train(): raise ValueError('no')", "ValueError: no"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(tmp_path: Path, code: str, error: str) -> None:
    done = run(function({"default_handler": "train"}, code), tmp_path, {})
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, error)


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
    (tmp_path / "pack/train.py").write_text("def train(**more): print(more['x'][0])")
    spec = {"default_handler": handler}
    more = {"workdir": "pack", "command": "train.py"} if handler == "train" else {}
    done = run(json.dumps({"kind": "local", "metadata": {}, "spec": {**spec, **more}}), tmp_path, {"x": [1]})
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert tracked(tmp_path) == [{"params": {"x": [1]}}]


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
    assert importers.form_of(data).file_named_in(data) is None
    assert IMPORTER.with_named_file(data, data) == data
