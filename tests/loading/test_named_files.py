"""An operation of Polyaxon whose component is in another file, read from the same tree of folders only."""

from __future__ import annotations

import os
import pathlib

import pytest

from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.loading.load import load_experiment

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


def test_problems_of_the_component_have_the_place_in_its_file(tree: pathlib.Path) -> None:
    (tree / "jobs" / "c.yml").write_text(COMPONENT.replace("image: a", "imag: a"))
    assert command_of(OPERATION % "c.yml") == (
        "c.yml:4:30: component.run.container.imag: unknown key 'component.run.container.imag'; remove it"
    )
    (tree / "jobs" / "c.yml").write_text("a: [")
    assert str(command_of(OPERATION % "c.yml")).startswith("c.yml:")


def test_the_tree_is_the_git_work_tree_or_the_working_directory(
    tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = (
        f"job.yml:3:10: pathRef: '../parts/c.yml' cannot be read: it is not in {tree}/jobs; "
        "copy it there, or submit from a directory that contains both"
    )
    assert command_of(OPERATION % "../parts/c.yml") == refused
    monkeypatch.chdir(tree)
    assert command_of(OPERATION % "../parts/c.yml", "jobs/job.yml") == "train --lr=0.1"
    monkeypatch.chdir(tree / "jobs")
    (tree / ".git").mkdir()
    assert command_of(OPERATION % "../parts/c.yml") == "train --lr=0.1"
    assert "it is not in" in str(command_of(OPERATION % "../../elsewhere/c.yml"))


@pytest.mark.parametrize("linked", ["jobs/c2.yml", "jobs/folder"])
def test_no_link_leads_out_of_the_tree(tree: pathlib.Path, linked: str) -> None:
    out = tree.parent / "elsewhere"
    (tree / linked).symlink_to(out / "c.yml" if linked.endswith(".yml") else out)
    name = "c2.yml" if linked.endswith(".yml") else "folder/c.yml"
    assert f"'{name}' cannot be read: it is not in {tree}/jobs" in str(command_of(OPERATION % name))


def test_what_is_no_regular_file_is_refused(tree: pathlib.Path) -> None:
    os.mkfifo(tree / "jobs" / "pipe")
    (tree / "jobs" / "circle").symlink_to("circle")
    (tree / "jobs" / "big.yml").write_text("#" * (source.MAX_BYTES + 1))
    reasons = {
        "pipe": "it is a FIFO, not a regular file",
        ".": "Is a directory",
        "missing.yml": "there is no such file; "
        "write its path, beginning at the folder of this file or of its repository",
        "big.yml": "it is larger than 1 MiB",
        "/dev/zero": f"it is not in {tree}/jobs; "
        "copy it there, or submit from a directory that contains both",
    }
    for name, reason in reasons.items():
        said = f"job.yml:3:10: pathRef: {name!r} cannot be read: {reason}"
        assert command_of(OPERATION % name) == said
    assert "'circle' cannot be read" in str(command_of(OPERATION % "circle"))


def test_an_operation_from_standard_input_names_files_of_the_working_directory(tree: pathlib.Path) -> None:
    assert command_of(OPERATION % "c.yml", "<stdin>") == "train --lr=0.1"
    assert tree.exists()


def test_a_name_may_begin_at_the_root_of_the_repository(tree: pathlib.Path) -> None:
    (tree / ".git").mkdir()
    (tree / "parts" / "own.yml").write_text(COMPONENT)
    assert command_of(OPERATION % "parts/own.yml") == "train --lr=0.1"
    assert "cannot be read: there is no such file" in str(command_of(OPERATION % "elsewhere/own.yml"))
