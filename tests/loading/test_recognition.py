"""What is reported of a file that is no experiment, or a part of one."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.errors import ConfigError
from hpcdist.loading import load, recognition

WRITE = "an experiment needs `run: {cmd: ...}`, and `hpcdist init` writes one"


def errors_of(folder: Path, text: str | bytes, name: str = "e.yml", form: str = "") -> list[str]:
    """Return what loading a file of this text reports."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(recognition.read(file), importer=form)
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("import os\nos.x()\n", "e.py", "this is a Python program, and not an experiment; write an experiment that starts it: `hpcdist init --command 'python {folder}/e.py'`"),
        ('{"cells": [], "nbformat": 4}', "e.ipynb", "this is a Jupyter notebook, and not an experiment; convert it by `jupyter nbconvert --to script {folder}/e.ipynb`, and write an experiment that starts that: `hpcdist init --command 'python {folder}/e.py'`"),
        ('{"cells": [' + "1, " * 400_000, "e.ipynb", "this is a Jupyter notebook, and not an experiment; convert it by `jupyter nbconvert --to script {folder}/e.ipynb`, and write an experiment that starts that: `hpcdist init --command 'python {folder}/e.py'`"),
        ("services: {a: {image: b}}\nversion: 2\n", "e.yml", "this is a Compose file of Docker, and not an experiment; name its image in `build.image` of an experiment, and its command in `run.cmd`"),
        ("a: {{ .Values.a }}\n", "e.yml", "this is a template of Helm, and not an experiment; give what `helm template` writes"),
    ],
)  # fmt: skip
def test_another_file_is_named(tmp_path: Path, text: str, name: str, message: str) -> None:
    assert errors_of(tmp_path, text, name) == [f"{name}: {message}".replace("{folder}/", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: 0.1\nepochs: 5\n", f"e.yml:1:1: this is not an experiment: `run` is missing, and `lr`, `epochs` are unknown; {WRITE}; if this file is for your program, name it in that command"),
        ("name: x\na: 1\nb: 2\nc: 3\nd: 4\ne: 5\nlogging: 7\n", f"e.yml:2:1: this is not an experiment: `run` is missing, and `a`, `b`, `c`, `d` and 1 more are unknown; {WRITE}; if this file is for your program, name it in that command"),
        ("version: 3\nlr: 0.1\n", f"e.yml:2:1: this is not an experiment: `run` is missing, and `lr` is unknown; {WRITE}; if this file is for your program, name it in that command"),
        ("linters: {enable: [a]}\nrun: {go: 1, tests: true}\n", f"e.yml:1:1: this is not an experiment: `run` has no `cmd`, and `linters` is unknown; {WRITE}; if this file is for your program, name it in that command"),
        ("cmd: python x.py\n", f"e.yml:1:1: cmd: this is a part of an experiment: `cmd` of `run`, without `run`; check the indentation; {WRITE}"),
        ("n_workers: 2\nworker_resources:\n- {index: 2, cpu: {requests: 1}}\nresources: {cpu: {limits: 2}}\n", f"e.yml:1:1: n_workers: this is a part of an experiment: `n_workers`, `worker_resources` of `environment.replicas` and `resources` of `environment`, without `run`; check the indentation; {WRITE}"),
        ("environment:\n  resources: {cpu: {requests: 1}}\n...\nrun:\n  cmd: x\n", "e.yml:3:1: the line `...` stands for something that was left out: this is a part of a file; write the whole file"),
        ("environment:\n  replicas: {n_workers: 2}\n  ...\n  resources: {cpu: {limits: 2}}\n", "e.yml:3:3: the line `...` stands for something that was left out: this is a part of a file; write the whole file"),
    ],
)  # fmt: skip
def test_a_file_without_anything_or_with_a_part_of_an_experiment_is_one_problem(
    tmp_path: Path, text: str, message: str
) -> None:
    assert errors_of(tmp_path, text) == [message]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        # a key is near to one of an experiment
        ("rnu: {cmd: x}\n", ["e.yml:1:1: 'run' is missing; write `run: {cmd: ...}`", "e.yml:1:1: rnu: unknown key 'rnu'; did you mean 'run'?"]),
        # there is a section that only experiments have
        ("framework: horovod\nlr: 1\n", ["e.yml:1:1: 'run' is missing; write `run: {cmd: ...}`", "e.yml:2:1: lr: unknown key 'lr'; known: accelerate, backend, batch, build, chainermn, deepspeed, description, environment, framework, horovod, hptuning, inputs, jax, kind, lightning, logging, mpi, mxnet, name, outputs, params, project, pytorch, ray, run, stage, tags, tensorflow, tracking, version"]),
        ("run: python x.py\n", ["e.yml:1:6: run: expected keys and values, got 'python x.py'; write `run: {cmd: 'python x.py'}`"]),
        ("run: {cmd: x}\nfoo: 1\n", ["e.yml:2:1: foo: unknown key 'foo'; known: accelerate, backend, batch, build, chainermn, deepspeed, description, environment, framework, horovod, hptuning, inputs, jax, kind, lightning, logging, mpi, mxnet, name, outputs, params, project, pytorch, ray, run, stage, tags, tensorflow, tracking, version"]),
        ("name: x\n", ["e.yml:1:1: 'run' is missing; write `run: {cmd: ...}`"]),
        # keys of the right form in the wrong place
        ("run: {cmd: x}\nresources: {cpu: {limits: 2}}\nwalltime: 1h\nnodes: 2\n", ["e.yml:2:1: resources: unknown key 'resources'; it belongs to `environment`: check the indentation", "e.yml:3:1: walltime: unknown key 'walltime'; it belongs to `batch`: check the indentation", "e.yml:4:1: nodes: unknown key 'nodes'; it belongs to `batch`: check the indentation"]),
        # a command of several documents may have such a line
        ("run:\n  cmd: |\n    cat <<X\n    ...\n    X\nbatch: {nodes: x}\n", ["e.yml:6:16: batch.nodes: expected a whole number, got 'x'"]),
        # a broken line elsewhere is reported as it is
        ("run:\n  cmd: |\n    ...\n\n\nbatch: [a\n", ["e.yml:6:8: this [ is never closed; write its ]"]),
    ],
)  # fmt: skip
def test_an_experiment_with_faults_keeps_its_problems(tmp_path: Path, text: str, messages: list[str]) -> None:
    assert errors_of(tmp_path, text) == messages


def test_a_form_that_is_named_is_no_reason_to_explain_less(tmp_path: Path) -> None:
    assert errors_of(tmp_path, "services: {a: {image: b}}\n", form="azure") == errors_of(
        tmp_path, "services: {a: {image: b}}\n"
    )


LOST = """\
framework: horovod
environment:
replicas:
n_workers: 4
default_worker:
resources:
gpu:
requests: 1
run:
cmd: python t.py
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOST, "3:1: replicas: the lines under `environment:` have lost their indentation; indent `replicas` by two spaces, and what belongs to it by two more"),
        ("run:\ncmd: x\n", "2:1: cmd: the lines under `run:` have lost their indentation; indent `cmd` by two spaces, and what belongs to it by two more"),
    ],
)  # fmt: skip
def test_lost_indentation_is_one_problem(tmp_path: Path, text: str, message: str) -> None:
    assert errors_of(tmp_path, text) == [f"e.yml:{message}"]
