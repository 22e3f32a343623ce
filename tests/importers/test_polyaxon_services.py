# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.loading import load

PROGRAM = 'python3 "$HPCDIST_RUN_DIR/python/hpcdist_service.py"'


def read(text: str) -> tuple[object, list[str]]:
    document = source.parse(text, "p.yml")
    imported = importers.read(document.data)
    return imported.data, [str(document.locate(remark)) for remark in imported.remarks]


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("kind: notebook", {"kind": "job", "run": {"cmd": f"{PROGRAM} notebook lab"}}),
        ("version: 1\nkind: notebook\nbackend: notebook\nbuild: {image: a}\nparams: {folder: src, bind: node}",
         {"version": 1, "kind": "job", "build": {"image": "a"}, "params": {"folder": "src", "bind": "node"},
          "run": {"cmd": f"{PROGRAM} notebook notebook"}}),
        ("kind: tensorboard\nparams: {logdir: logs}\nbatch: {walltime: 1h}",
         {"kind": "job", "params": {"logdir": "logs"}, "batch": {"walltime": "1h"},
          "run": {"cmd": f"{PROGRAM} tensorboard"}}),
    ],
)  # fmt: skip
def test_they_are_jobs_of_one_task(text: str, native: object) -> None:
    assert read(text) == (native, [])


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("kind: notebook\nrun: {cmd: x}\nhptuning: {}",
         ["p.yml:2:1: run: a notebook has a command of its own and one task; remove it",
          "p.yml:3:1: hptuning: a notebook has a command of its own and one task; remove it"]),
        ("kind: tensorboard\nframework: mpi\nenvironment: {replicas: {n_workers: 1}}",
         ["p.yml:2:12: framework: a tensorboard has a command of its own and one task; remove it",
          "p.yml:3:15: environment.replicas: a tensorboard has one task; remove them"]),
        ("kind: notebook\nbackend: colab",
         ["p.yml:2:10: backend: there is no backend 'colab' of notebooks; write lab, notebook or server"]),
        ("kind: notebook\nparams: {bind: all, logdir: x}",
         ["p.yml:2:29: params.logdir: a notebook has no param 'logdir'; it has folder and bind",
          "p.yml:2:16: params.bind: a notebook listens on the loopback of its node, or on all addresses of it; write loopback or node"]),
        ("kind: notebook\nbatch: {array: 1-3}\nparams: {folder: [1]}",
         ["p.yml:2:16: batch.array: a notebook is one server, with one address; remove it",
          "p.yml:3:10: params.folder: folder is the path of a folder, used as it is written; write a path"]),
        ("kind: tensorboard\nbackend: lab\nparams: {logdir: '{{ x }}'}",
         ["p.yml:2:10: backend: a tensorboard has no backend; remove it",
          "p.yml:3:18: params.logdir: logdir is the path of a folder, used as it is written; write a path"]),
        ("kind: tensorboard\nparams: {bind: node}",
         ["p.yml:2:16: params.bind: a tensorboard has no param 'bind'; it has logdir"]),
    ],
)  # fmt: skip
def test_what_they_do_not_have(text: str, messages: list[str]) -> None:
    assert read(text)[1] == messages


def test_a_kind_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"there is no kind 'Notebook'; did you mean 'notebook'\?"):
        read("kind: Notebook\nrun: {cmd: x}")
    with pytest.raises(ConfigError, match="known: experiment, job, notebook, tens"):
        read("kind: zebra\nrun: {cmd: x}")


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("batch.array", "1-3", "batch.array: a notebook is one server, with one address; remove it"),
        ("framework", "mpi", "framework: a notebook has a command of its own and one task; remove it"),
        ("run.cmd", "ls", "run: a notebook has a command of its own and one task; remove it"),
        ("hptuning.matrix.x.values", "[1]",
         "hptuning: a notebook has a command of its own and one task; remove it"),
        ("environment.replicas.n_workers", "2", "environment.replicas: a notebook has one task; remove them"),
        ("backend", "colab",
         "backend: there is no backend 'colab' of notebooks; write lab, notebook or server"),
        ("params.folder", "1", "params.folder: folder is the path of a folder, used as it is written; write a path"),
    ],
)  # fmt: skip
def test_a_setting_is_checked_as_what_the_file_says(key: str, text: str, message: str) -> None:
    document = source.parse("kind: notebook", "p.yml")
    with pytest.raises(ConfigError) as raised:
        load.load_experiment(document, settings=[(key, text)])
    assert str(raised.value.problems[0]) == f"--set {key}={text}: {message}"


def test_a_setting_may_choose_what_is_served() -> None:
    settings = [("backend", "server"), ("environment.resources.cpu.requests", "2")]
    loaded = load.load_experiment(source.parse("kind: notebook", "p.yml"), settings=settings)
    assert loaded.experiment.run.cmd == f"{PROGRAM} notebook server"
    assert loaded.problems == ()
