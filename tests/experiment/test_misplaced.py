from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.errors import Key, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.remarks import section_for, with_section
from tests.wording import Wording


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
