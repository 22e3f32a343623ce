"""Which document of a file is the job."""
# ruff: noqa: E501 - a message is compared as one line

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents.source import parse
from hpcdist.errors import ConfigError, errors_in
from hpcdist.importers.choosing import choose

PROJECT = (
    "kind: project\nmetadata: {name: p}\nspec:\n  functions:\n"
    "  - {name: gen, url: gen.py}\n  - {name: train, url: train.py}\n  - {name: train, url: again.py}\n"
)
STEPS = (
    "workflows:\n  a:\n    steps:\n"
    "    - {command: experiment.run_single_node, name: x, params: {container: i, machineType: C5, command: b}}\n"
    "    - {command: experiment.run_single_node, name: y, params: {container: i, machineType: C5, command: c}}\n"
)
WORKFLOW = (
    "jobs:\n  a: {uses: script@v1, with: {image: i, script: b}, resources: {instance-type: C5}}\n"
    "  c: {uses: script@v1, with: {image: i, script: d}, resources: {instance-type: C5}}\n"
)
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
JOB = "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: train}\nspec: {}\n"
OTHER = JOB.replace("train", "test")
NATIVE = "name: own\nrun: {cmd: x}\n"
ONLY = "only MPIJob 'train' is run"


def result_of(*texts: str, form: str = "", name: str = "") -> tuple[int, list[str]]:
    """Return the line where the job begins, and the warnings."""
    document, remarks = choose(parse("---\n".join(texts), "e.yml", several=True), form, name)
    assert document.others == ()
    assert {problem.severity for problem in remarks} <= {"warning"}
    return document.data.place.line if document.data.place else 0, [*map(str, remarks)]


@pytest.mark.parametrize("text", [JOB, NATIVE, CLAIM, "a: 1"])
def test_the_only_document_is_always_the_job(text: str) -> None:
    assert result_of(text) == result_of(text, form="kubeflow") == (1, [])


def test_the_only_job_is_the_job() -> None:
    place, remarks = result_of(CLAIM, JOB, "a: 1\n")
    assert place == 5
    assert remarks == [
        f"e.yml:2:7: kind: this PersistentVolumeClaim 'data' has no effect on a batch machine: {ONLY}",
        f"e.yml:10:1: this document has no effect on a batch machine: {ONLY}",
    ]


@pytest.mark.parametrize(("form", "name"), [("polyaxon", ""), ("", "own"), ("polyaxon", "own")])
def test_a_job_is_chosen_by_form_or_name(form: str, name: str) -> None:
    place, remarks = result_of(JOB, NATIVE, form=form, name=name)
    assert place == 6
    assert remarks == [
        "e.yml:2:7: kind: this MPIJob 'train' has no effect on a batch machine: only experiment 'own' is run"
    ]


@pytest.mark.parametrize(
    ("texts", "name", "jobs", "first"),
    [
        (
            [JOB, OTHER, NATIVE],
            "",
            "this file contains 3 jobs: MPIJob 'train' (line 1), MPIJob 'test' (line 6), experiment 'own' (line 11)",
            "",
        ),
        (
            [JOB, JOB],
            "train",
            "this file contains 2 jobs: MPIJob 'train' (line 1), MPIJob 'train' (line 6)",
            "give each a unique name and ",
        ),
        (
            ["\n\n\nrun: {cmd: x}\n", "run: {cmd: x}\n"],
            "",
            "this file contains 2 jobs: experiment (line 4), experiment (line 6)",
            "give each a unique name and ",
        ),
        (
            ["\n\n\n" + NATIVE.removeprefix("name: own\n"), NATIVE],
            "",
            "this file contains 2 jobs: experiment (line 4), experiment 'own' (line 6)",
            "",
        ),
    ],
)
def test_several_jobs(texts: list[str], name: str, jobs: str, first: str) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(*texts, name=name)
    chosen = "NAME" if first else "own" if NATIVE in texts and JOB not in texts else "train"
    hint = f"keep one, or {first}choose one with `--name {chosen}`"
    assert str(caught.value) == f"e.yml:6:1: {jobs}; {hint}"


@pytest.mark.parametrize(
    ("texts", "form", "name", "message"),
    [
        (
            [CLAIM, "a: 1"],
            "",
            "",
            "e.yml:5:1: this file contains no job of a known form: PersistentVolumeClaim 'data' (line 1), document (line 5); give the file of the job itself; docs/how-to/foreign-files.md lists the forms",
        ),
        (
            [JOB, CLAIM],
            "polyaxon",
            "",
            "e.yml:6:1: this file contains no job of the form polyaxon: MPIJob 'train' (line 1), PersistentVolumeClaim 'data' (line 6); give the file of the job itself; docs/how-to/foreign-files.md lists the forms",
        ),
        ([JOB, NATIVE], "", "tran", "e.yml:1:1: there is no job 'tran' in this file; did you mean 'train'?"),
        ([NATIVE], "", "x", "e.yml:1:1: there is no job 'x' in this file; known: own"),
        (["metadata: {}"], "", "x", "e.yml:1:1: there is no job 'x' in this file"),
        ([JOB, CLAIM], "kubefow", "", "there is no importer 'kubefow'; did you mean 'kubeflow'?"),
    ],
)
def test_no_job(texts: list[str], form: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(*texts, form=form, name=name)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("texts", "name", "command", "left_out"),
    [
        ([PROJECT], "gen", "python -u gen.py", ["e.yml:1:7: kind: only 'gen' of this project 'p' is run"]),
        ([STEPS], "y", "c", ["e.yml:1:1: only 'y' of this document is run"]),
        ([WORKFLOW], "a", "b", ["e.yml:1:1: only 'a' of this document is run"]),
        ([CLAIM, WORKFLOW], "c", "d",
         ["e.yml:5:1: only 'c' of this document is run",
          "e.yml:2:7: kind: this PersistentVolumeClaim 'data' has no effect on a batch machine: only document is run"]),
    ],
)  # fmt: skip
def test_a_job_inside_a_document_is_chosen_by_name(
    texts: list[str], name: str, command: str, left_out: list[str]
) -> None:
    document, remarks = choose(parse("---\n".join(texts), "e.yml", several=True), "", name)
    imported = importers.read(document.data)
    assert imported.data["run"] == {"cmd": command}
    assert errors_in(imported.remarks) == ()
    assert [*map(str, remarks)] == left_out


@pytest.mark.parametrize(
    ("name", "known"),
    [("gne", "; did you mean 'gen'?"), ("train", "; known: gen, p"), ("zzz", "; known: gen, p")],
)
def test_an_unknown_or_ambiguous_name_is_refused(name: str, known: str) -> None:
    with pytest.raises(ConfigError) as caught:
        result_of(PROJECT, name=name)
    assert str(caught.value) == f"e.yml:1:1: there is no job {name!r} in this file{known}"


def test_the_chosen_part_of_a_document_keeps_its_paths() -> None:
    document, _ = choose(parse(STEPS.replace(", command: c", ""), "e.yml"), "", "y")
    with pytest.raises(ConfigError) as caught:
        importers.read(document.data)
    assert str(caught.value).partition(";")[0] == (
        "e.yml:5:54: workflows.a.steps[1].params.command: command is missing"
    )
