"""Which document of a file is the job."""
# ruff: noqa: E501 - a file is written as one line

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base.errors import ConfigError, errors_in
from hpcdist.base.source import parse
from hpcdist.importers import choose
from tests.importers.remarks import cases
from tests.wording import Wording

PROJECT = (
    "kind: project\nmetadata: {name: p}\nspec:\n  functions:\n"
    "  - {name: gen, url: gen.py}\n  - {name: train, url: train.py}\n  - {name: train, url: again.py}\n"
)
STEPS = (
    "workflows:\n  a:\n    steps:\n"
    "    - {command: experiment.run_single_node, name: x, params: {container: i, machineType: C5, command: b}}\n"
    "    - {command: experiment.run_single_node, name: y, params: {container: i, machineType: C5, command: c}}\n"
)
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
JOB = "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: train}\nspec: {}\n"
OTHER = JOB.replace("train", "test")
NATIVE = "name: own\nrun: {cmd: x}\n"


def result_of(*texts: str, form: str = "", name: str = "") -> tuple[int, list[str]]:
    """Return the line where the job begins, and the warnings."""
    document, remarks = choose(parse("---\n".join(texts), "e.yml", several=True), form, name)
    assert document.others == ()
    assert {problem.severity for problem in remarks} <= {"warning"}
    return document.data.place.line if document.data.place else 0, [*map(str, remarks)]


@pytest.mark.parametrize("text", [JOB, NATIVE, CLAIM, "a: 1"])
def test_the_only_document_is_always_the_job(text: str) -> None:
    assert result_of(text) == result_of(text, form="kubeflow") == (1, [])


def test_the_only_job_is_the_job(wording: Wording) -> None:
    place, remarks = result_of(CLAIM, JOB, "a: 1\n")
    assert place == 5
    wording(remarks)


@pytest.mark.parametrize(("form", "name"), [("polyaxon", ""), ("", "own"), ("polyaxon", "own")])
def test_a_job_is_chosen_by_form_or_name(form: str, name: str, wording: Wording) -> None:
    place, remarks = result_of(JOB, NATIVE, form=form, name=name)
    assert place == 6
    wording(remarks)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ([JOB, OTHER, NATIVE], ""),
        ([JOB, JOB], "train"),
        (["\n\n\nrun: {cmd: x}\n", "run: {cmd: x}\n"], ""),
        (["\n\n\n" + NATIVE.removeprefix("name: own\n"), NATIVE], ""),
    ],
    ids=cases(),
)
def test_several_jobs(texts: list[str], name: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(*texts, name=name)
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("texts", "form", "name"),
    [
        ([CLAIM, "a: 1"], "", ""),
        ([JOB, CLAIM], "polyaxon", ""),
        ([JOB, NATIVE], "", "tran"),
        ([NATIVE], "", "x"),
        (["metadata: {}"], "", "x"),
        ([JOB, CLAIM], "kubefow", ""),
    ],
    ids=cases(),
)
def test_no_job(texts: list[str], form: str, name: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(*texts, form=form, name=name)
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("texts", "name", "command"),
    [
        ([PROJECT], "gen", "python -u gen.py"),
        ([STEPS], "y", "c"),
        ([CLAIM, STEPS], "y", "c"),
    ],
    ids=cases(),
)
def test_a_job_inside_a_document_is_chosen_by_name(
    texts: list[str], name: str, command: str, wording: Wording
) -> None:
    document, remarks = choose(parse("---\n".join(texts), "e.yml", several=True), "", name)
    imported = importers.read(document.data)
    assert imported.data["run"] == {"cmd": command}
    assert errors_in(imported.remarks) == ()
    wording(map(str, remarks))


@pytest.mark.parametrize(
    "name",
    [
        "gne",
        "train",
        "zzz",
    ],
)
def test_an_unknown_or_ambiguous_name_is_refused(name: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(PROJECT, name=name)
    wording(str(caught.value))


def test_the_chosen_part_of_a_document_keeps_its_paths(wording: Wording) -> None:
    document, _ = choose(parse(STEPS.replace(", command: c", ""), "e.yml"), "", "y")
    with pytest.raises(ConfigError) as caught:
        importers.read(document.data)
    wording(str(caught.value))
