"""What is reported of a file that is no experiment, or a part of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.loading import load, recognition
from tests.wording import Wording


def errors_of(folder: Path, text: str | bytes, name: str = "e.yml", form: str = "") -> list[str]:
    """Return what loading a file of this text reports."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(recognition.read(file), importer=form)
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import os\nos.x()\n", "e.py"),
        ('{"cells": [], "nbformat": 4}', "e.ipynb"),
        pytest.param('{"cells": [' + "1, " * 400_000, "e.ipynb", id="a large notebook"),
        ("services: {a: {image: b}}\nversion: 2\n", "e.yml"),
        ("a: {{ .Values.a }}\n", "e.yml"),
    ],
)
def test_another_file_is_named(tmp_path: Path, text: str, name: str, wording: Wording) -> None:
    wording(errors_of(tmp_path, text, name))


@pytest.mark.parametrize(
    "text",
    [
        "lr: 0.1\nepochs: 5\n",
        "name: x\na: 1\nb: 2\nc: 3\nd: 4\ne: 5\nlogging: 7\n",
        "version: 3\nlr: 0.1\n",
        "linters: {enable: [a]}\nrun: {go: 1, tests: true}\n",
        "cmd: python x.py\n",
        "n_workers: 2\nworker_resources:\n- {index: 2, cpu: {requests: 1}}\nresources: {cpu: {limits: 2}}\n",
        "environment:\n  resources: {cpu: {requests: 1}}\n...\nrun:\n  cmd: x\n",
        "environment:\n  replicas: {n_workers: 2}\n  ...\n  resources: {cpu: {limits: 2}}\n",
    ],
)
def test_a_file_without_anything_or_with_a_part_of_an_experiment_is_one_problem(
    tmp_path: Path, text: str, wording: Wording
) -> None:
    wording(errors_of(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        # a key is near to one of an experiment
        "rnu: {cmd: x}\n",
        # there is a section that only experiments have
        "framework: horovod\nlr: 1\n",
        "run: python x.py\n",
        "run: {cmd: x}\nfoo: 1\n",
        "name: x\n",
        # keys of the right form in the wrong place
        "run: {cmd: x}\nresources: {cpu: {limits: 2}}\nwalltime: 1h\nnodes: 2\n",
        # a command of several documents may have such a line
        "run:\n  cmd: |\n    cat <<X\n    ...\n    X\nbatch: {nodes: x}\n",
        # a broken line elsewhere is reported as it is
        "run:\n  cmd: |\n    ...\n\n\nbatch: [a\n",
    ],
)
def test_an_experiment_with_faults_keeps_its_problems(tmp_path: Path, text: str, wording: Wording) -> None:
    wording(errors_of(tmp_path, text))


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
    "text",
    [
        LOST,
        "run:\ncmd: x\n",
    ],
    ids=["of all sections", "of one"],
)
def test_lost_indentation_is_one_problem(tmp_path: Path, text: str, wording: Wording) -> None:
    wording(errors_of(tmp_path, text))
