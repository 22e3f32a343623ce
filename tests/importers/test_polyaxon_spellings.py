# ruff: noqa: E501 - a message is compared as one line
"""Other spellings in files of Polyaxon 0.x: pairs of variables, named steps, workers beside their section."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import Place

PAIRS = "[[A, b], [N, 1.10], {name: C, value: 2}]"
SPELT = {"A": "b", "N": 1.1, "C": 2}
RUN = "run: {cmd: x}\n"


def read(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the native form of a file and its remarks."""
    document = source.parse(text, "p.yml")
    imported = importers.read(document.data)
    return imported.data, [str(document.locate(problem)) for problem in imported.remarks]


def test_pairs_of_variables_are_keys_of_the_environment_with_their_spelling() -> None:
    data, remarks = read(f"environment: {{env_vars: {PAIRS}}}\n" + RUN)
    assert (data["environment"], remarks) == ({"env_vars": SPELT}, [])
    assert data["environment"]["env_vars"].texts == {"N": "1.10", "C": "2"}
    assert data["environment"]["env_vars"].place_of("N") == Place("p.yml", 1, 38)


@pytest.mark.parametrize("section", ["build: {env_vars: %s}\nrun: {cmd: x}", "run: {cmd: x, env_vars: %s}"])
@pytest.mark.parametrize("variables", [PAIRS, "{A: b, N: 1.10, C: 2}"])
def test_variables_of_a_build_are_pairs(section: str, variables: str) -> None:
    data, remarks = read(section % variables)
    assert (data["build"], remarks) == ({"env_vars": [["A", "b"], ["N", 1.1], ["C", 2]]}, [])
    assert data["build"]["env_vars"][1].texts == {1: "1.10"}


def test_what_is_no_pair_is_reported() -> None:
    data, remarks = read("environment:\n  env_vars:\n  - [A]\n  - [B, [c]]\n  - [D, 1]\n  - [D, 2]\n" + RUN)
    assert (data["environment"]["env_vars"], remarks) == (
        {"D": 1},
        [
            "p.yml:3:5: environment.env_vars[0]: ['A'] is not a variable; write `NAME: value`",
            "p.yml:4:5: environment.env_vars[1]: ['B', ['c']] is not a variable; write `NAME: value`",
            "p.yml:6:5: environment.env_vars[3]: D is set twice; write `NAME: value`",
        ],
    )


@pytest.mark.parametrize(
    "text",
    ["run: {cmd: x, steps: {first: a, second: b}}", "build: {steps: [a, b]}\nrun: {cmd: x}",
     "build: {build_steps: {first: a, second: b}}\nrun: {cmd: x}"],
)  # fmt: skip
def test_named_steps_are_steps(text: str) -> None:
    assert read(text) == ({"build": {"build_steps": ["a", "b"]}, "run": {"cmd": "x"}}, [])


def test_workers_beside_the_section_of_the_framework_are_its_workers() -> None:
    """In the documentation of 0.1.2 to 0.2.0."""
    text = (
        "environment:\n  tensorflow: {n_workers: 2, n_ps: 1, ps: []}\n"
        "  worker: [{index: 1, node_selector: {polyaxon: gpu}}]\n  ps: [{index: 0}]\n" + RUN
    )
    data, remarks = read(text)
    assert data["environment"] == {
        "replicas": {
            "n_workers": 2, "n_ps": 1, "ps": [], "worker": [{"index": 1, "node_selector": {"polyaxon": "gpu"}}],
        }
    }  # fmt: skip
    assert remarks == [
        "p.yml:2:3: tensorflow: a section from the time of TensorFlow 1: the cluster calls its chief `master`; for TensorFlow 2 add `tensorflow: {version: 2}` at the top level",
        "p.yml:4:3: environment.ps: 'ps' is given here and in `replicas`; keep the one in `replicas`",
    ]


def test_what_polyaxon_ignores_in_an_entry_has_no_effect() -> None:
    text = "framework: pytorch\nenvironment: {replicas: {n_workers: 1, default_worker: {secret_refs: [a], labels: {b: c}}}}\n"
    data, remarks = read(text + RUN)
    assert data["environment"]["replicas"] == {"n_workers": 1, "default_worker": {"labels": {"b": "c"}}}
    assert remarks == [
        "p.yml:2:57: environment.replicas.default_worker.secret_refs: 'secret_refs' of a replica has no effect, as in Polyaxon; write it in `environment`"
    ]


def test_one_value_is_a_list() -> None:
    one = "{tolerations: {key: a}, data_refs: b}"
    text = f"tags: one\nenvironment: {one}\n"
    environment = {"tolerations": [{"key": "a"}], "data_refs": ["b"]}
    assert read(text + RUN) == ({"tags": ["one"], "environment": environment, "run": {"cmd": "x"}}, [])
    document = source.parse(text + RUN, "p.yml")
    data = importers.read(document.data).data
    assert data["tags"].place_of(0) == Place("p.yml", 1, 7)


def test_a_backend_in_the_environment_is_that_of_the_experiment() -> None:
    assert read("environment: {backend: mpi}\n" + RUN) == (
        {"backend": "mpi", "environment": {}, "run": {"cmd": "x"}},
        [],
    )
    _, remarks = read("backend: native\nenvironment: {backend: mpi}\n" + RUN)
    assert remarks == [
        "p.yml:2:24: environment.backend: `environment.backend` and `backend` are the same; keep `backend`"
    ]


def test_what_a_build_installs_has_no_effect() -> None:
    assert read("build: {image: a, install: [pip install b]}\n" + RUN) == (
        {"build": {"image": "a"}, "run": {"cmd": "x"}},
        ["p.yml:1:19: build.install: 'install' is for building the image, and hpcdist builds none"],
    )
