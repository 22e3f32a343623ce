"""An operation of Polyaxon whose component is in another file, read from the same tree of folders only."""

from __future__ import annotations

import os
import pathlib

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading.load import load_experiment
from tests.wording import Wording

COMPONENT = """\
version: 1.1
kind: component
inputs: [{name: lr, type: float}]
run: {kind: job, container: {image: a, command: [train, '{{ params.lr.as_arg }}']}}
"""
OPERATION = "version: 1.1\nkind: operation\npathRef: %s\nparams: {lr: {value: 0.1}}\n"


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return a folder ``jobs`` beside ``parts``, in which there is a component; it is where the tests run."""
    for name in ("project/jobs", "project/parts", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("project/parts/c.yml", "project/jobs/c.yml", "elsewhere/c.yml"):
        (tmp_path / name).write_text(COMPONENT)
    monkeypatch.chdir(tmp_path / "project" / "jobs")
    return tmp_path / "project"


def command_of(text: str, file: str = "job.yml") -> object:
    """Return the command of an operation of this file; an error as its text."""
    try:
        return load_experiment(source.parse(text, file)).experiment.run.cmd
    except ConfigError as error:
        return "\n".join(map(str, error.problems))


@pytest.mark.parametrize("name", ["c.yml", "./c.yml", "../jobs/c.yml"])
def test_a_file_beside_the_operation_is_its_component(tree: pathlib.Path, name: str) -> None:
    loaded = load_experiment(source.parse(OPERATION % name, "job.yml"))
    assert loaded.experiment.run.cmd == "train --lr=0.1"
    comments = [f"# {line}" for line in (f"{os.path.normpath(name)}:", *COMPONENT.splitlines())]
    assert loaded.document.text == OPERATION % name + "\n".join(comments) + "\n"
    assert tree.exists()


def test_problems_of_the_component_have_the_place_in_its_file(tree: pathlib.Path, wording: Wording) -> None:
    for text in (COMPONENT.replace("image: a", "imag: a"), "a: ["):
        (tree / "jobs" / "c.yml").write_text(text)
        wording(str(command_of(OPERATION % "c.yml")))


def test_the_tree_is_the_git_work_tree_or_the_working_directory(
    tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    wording(str(command_of(OPERATION % "../parts/c.yml")).replace(str(tree), "TREE"))
    monkeypatch.chdir(tree)
    assert command_of(OPERATION % "../parts/c.yml", "jobs/job.yml") == "train --lr=0.1"
    monkeypatch.chdir(tree / "jobs")
    (tree / ".git").mkdir()
    assert command_of(OPERATION % "../parts/c.yml") == "train --lr=0.1"
    wording(str(command_of(OPERATION % "../../elsewhere/c.yml")).replace(str(tree), "TREE"))


@pytest.mark.parametrize("linked", ["jobs/c2.yml", "jobs/folder"])
def test_no_link_leads_out_of_the_tree(tree: pathlib.Path, linked: str, wording: Wording) -> None:
    out = tree.parent / "elsewhere"
    (tree / linked).symlink_to(out / "c.yml" if linked.endswith(".yml") else out)
    name = "c2.yml" if linked.endswith(".yml") else "folder/c.yml"
    wording(str(command_of(OPERATION % name)).replace(str(tree), "TREE"))


def test_what_is_no_regular_file_is_refused(tree: pathlib.Path, wording: Wording) -> None:
    os.mkfifo(tree / "jobs" / "pipe")
    (tree / "jobs" / "circle").symlink_to("circle")
    (tree / "jobs" / "big.yml").write_text("#" * (source.MAX_BYTES + 1))
    for name in ("pipe", ".", "missing.yml", "big.yml", "/dev/zero", "circle"):
        wording(str(command_of(OPERATION % name)).replace(str(tree), "TREE"))


def test_an_operation_from_standard_input_names_files_of_the_working_directory(tree: pathlib.Path) -> None:
    assert command_of(OPERATION % "c.yml", "<stdin>") == "train --lr=0.1"
    assert tree.exists()


def test_a_name_may_begin_at_the_root_of_the_repository(tree: pathlib.Path, wording: Wording) -> None:
    (tree / ".git").mkdir()
    (tree / "parts" / "own.yml").write_text(COMPONENT)
    assert command_of(OPERATION % "parts/own.yml") == "train --lr=0.1"
    wording(str(command_of(OPERATION % "elsewhere/own.yml")))
