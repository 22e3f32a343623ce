"""Keys without effect, and keys that are written outside their section."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import fields
from hpcdist.base.errors import Key, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.remarks import remarks, section_for, with_section
from tests.wording import Wording


def found(**data: object) -> list[str]:
    experiment, problems = fields.build(Experiment, {"run": {"cmd": "x"}, **data})
    assert problems == []
    assert experiment is not None
    said = list(remarks(experiment))
    assert {problem.severity for problem in said} <= {"warning"}
    return [str(problem) for problem in said]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {
            "backend": "mpi",
            "framework": "horovod",
            "logging": {"level": "INFO"},
            "tags": ["a"],
            "description": "b",
        },
        {"environment": {"max_restarts": 3, "tolerations": [], "affinity": {}, "node_selector": {"a": "b"}}},
        {"build": {"env_vars": [["A", 1]], "nocache": False}},
    ],
)
def test_keys_with_effect_do_not_warn(data: dict[str, object]) -> None:
    assert found(**data) == []


def test_every_key_without_effect_warns(wording: Wording) -> None:
    environment = {
        "labels": {"a": "b"},
        "service_account": "x",
        "cluster_uuid": "x",
        "secret_refs": ["x"],
        "persistence": {"data": ["x"]},
        "outputs": {"jobs": [1]},
        "replicas": {"default_worker": {"affinity": {"a": 1}}, "ps": [{"tolerations": [{}]}]},
    }
    build = {"image": "x", "build_steps": ["y"], "commit": "z", "nocache": True}
    said = found(
        project="p",
        outputs=[{"name": "x"}],
        logging={"formatter": "x"},
        backend="kubeflow",
        environment=environment,
        build=build,
    )
    wording(said)


def problem_of(data: dict[str, Any]) -> Problem:
    """Return the only problem of an experiment."""
    _, problems = fields.build(Experiment, {"run": {"cmd": "true"}} | data)
    (problem,) = problems
    return with_section(problem, data)


@pytest.mark.parametrize(
    "data",
    [
        {"build": {"image": "a.sif", "workdir": "/x"}},
        {"run": {"cmd": "true", "image": "a.sif"}},
        {"run": {"cmd": "true", "nodes": 2}},
        {"batch": {"workdir": "/x"}},
        {"build": {"image": "a.sif", "replicas": {"n_workers": 1}}},
        {"run": {"cmd": "x", "stage": [{"from": "a", "to": "x"}]}},
        {"batch": {"persistence": {"data": ["a"]}}},
        {"run": {"cmd": "true", "workdirr": "/x"}},
        {"batch": {"queue": "x"}},
    ],
    ids=str,
)
def test_a_key_of_another_section_or_spelling(data: dict[str, Any], wording: Wording) -> None:
    wording(str(problem_of(data)))


@pytest.mark.parametrize(
    "data",
    [
        {"run": {"cmd": "true", "seed": 1}},
        {"run": {"cmd": "true", "concurrency": 2}},
        {"build": {"image": "a", "nodes": "many"}},
        {"run": {"cmd": "true", 5: 1}},
        {"environment": {"replicas": {"worker": [{"unheard_of": 1}]}}},
    ],
)
def test_else_all_that_is_known_is_named(data: dict[str, Any]) -> None:
    """What is meant otherwise in an inner section, what does not fit there, and what nothing knows."""
    assert problem_of(data).hint.startswith("known: ")


def test_other_problems_are_left_alone() -> None:
    problem = Problem("x", ("run", Key("image")), "remove it")
    assert with_section(problem, {"run": {"image": "x"}}) == problem
    assert with_section(Problem("x"), {}) == Problem("x")


def test_the_section_for_a_key() -> None:
    assert section_for("stage", [{"from": "a", "to": "node_local"}]) == ()
    assert section_for("per_node", 2) == ("environment", "replicas")
    assert section_for("per_node", "two") is None
    assert section_for("unheard_of", 1) is None
