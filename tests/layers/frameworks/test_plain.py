from __future__ import annotations

from hpcdist.base.errors import Problem
from hpcdist.base.fields import Model
from hpcdist.layers.frameworks import PLAIN, PlainFramework, problem_in_section, section_of
from hpcdist.layers.protocols import Topology
from tests.experiments import environment, experiment, resources
from tests.plans import TESTBED, WRAPPED, planned, words


class Speed(Model, frozen=True):
    fast: bool = False


class Rocket(PlainFramework):
    name = "rocket"
    section: type[Model] = Speed


def test_no_framework_adds_nothing() -> None:
    plan, exp = planned(), experiment()
    assert list(PLAIN.problems(exp)) == []
    assert PLAIN.topology(exp) == Topology()
    assert PLAIN.words(plan, exp, TESTBED) == ()
    assert PLAIN.variables(plan, exp, TESTBED) == ()
    assert PLAIN.task_variables(plan, exp, TESTBED) == ()
    assert tuple(PLAIN.advice(plan, exp, TESTBED)) == ()


def test_one_task_whatever_its_gpus() -> None:
    plan = planned(environment=environment(each=resources(cpu=4, gpu=4)))
    assert [task.gpus for task in plan.placement.tasks] == [(0, 1, 2, 3)]
    assert (words(plan)[-2:], plan.identity.framework) == (WRAPPED, None)


def test_a_framework_checks_its_section_by_its_model() -> None:
    problems = Rocket().problems(experiment(rocket={"fsat": True, "fast": 2}))
    assert [str(problem) for problem in problems] == [
        "rocket.fsat: unknown key 'fsat'; did you mean 'fast'?",
        "rocket.fast: expected true or false, got 2",
    ]


def test_the_section_or_an_empty_one() -> None:
    assert section_of(Speed, experiment(rocket={"fast": True}), "rocket") == Speed(fast=True)
    for exp in (experiment(), experiment(rocket=None), experiment(rocket={})):
        assert section_of(Speed, exp, "rocket") == Speed()
        assert list(Rocket().problems(exp)) == []


def test_a_problem_of_a_section_is_one_of_the_file() -> None:
    assert problem_in_section(Problem("wrong", ("b", 0)), "a") == Problem("wrong", ("a", "b", 0))
