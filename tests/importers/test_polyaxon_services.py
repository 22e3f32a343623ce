# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading import load
from tests.importers.remarks import cases
from tests.wording import Wording

PROGRAM = 'python3 "$HPCDIST_RUN_DIR/runtime/python/hpcdist_service.py"'


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
    "text",
    [
        "kind: notebook\nrun: {cmd: x}\nhptuning: {}",
        "kind: tensorboard\nframework: mpi\nenvironment: {replicas: {n_workers: 1}}",
        "kind: notebook\nbackend: colab",
        "kind: notebook\nparams: {bind: all, logdir: x}",
        "kind: notebook\nbatch: {array: 1-3}\nparams: {folder: [1]}",
        "kind: tensorboard\nbackend: lab\nparams: {logdir: '{{ x }}'}",
        "kind: tensorboard\nparams: {bind: node}",
    ],
    ids=cases(),
)
def test_what_they_do_not_have(text: str, wording: Wording) -> None:
    wording(read(text)[1])


@pytest.mark.parametrize("kind", ["Notebook", "zebra"])
def test_a_kind_that_is_none_is_named(kind: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"kind: {kind}\nrun: {{cmd: x}}")
    wording(str(caught.value))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("batch.array", "1-3"),
        ("framework", "mpi"),
        ("run.cmd", "ls"),
        ("hptuning.matrix.x.values", "[1]"),
        ("environment.replicas.n_workers", "2"),
        ("backend", "colab"),
        ("params.folder", "1"),
    ],
)
def test_a_setting_is_checked_as_what_the_file_says(key: str, text: str, wording: Wording) -> None:
    document = source.parse("kind: notebook", "p.yml")
    with pytest.raises(ConfigError) as raised:
        load.load_experiment(document, settings=[(key, text)])
    wording(map(str, raised.value.problems))


def test_a_setting_may_choose_what_is_served() -> None:
    settings = [("backend", "server"), ("environment.resources.cpu.requests", "2")]
    loaded = load.load_experiment(source.parse("kind: notebook", "p.yml"), settings=settings)
    assert loaded.experiment.run.cmd == f"{PROGRAM} notebook server"
    assert loaded.problems == ()
