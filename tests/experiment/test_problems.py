"""Problems of an experiment: what is refused or warned of before anything runs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hpcdist.base import fields
from hpcdist.experiment.model import Experiment, Tracking
from hpcdist.experiment.problems import problems_of, search_problems, tracking_problems
from hpcdist.experiment.search import Bayes, Count, Hyperband, Metric, Resource, Search, Space
from tests.wording import Wording


def built(**data: Any) -> Experiment:
    experiment, problems = fields.build(Experiment, {"run": {"cmd": "true"}, **data})
    assert problems == []
    assert experiment is not None
    return experiment


def found(**data: Any) -> list[str]:
    return [str(problem) for problem in problems_of(built(**data))]


def gpus(count: float) -> dict[str, object]:
    return {"gpu": {"limits": count}}


@pytest.mark.parametrize(
    "environment",
    [
        {"resources": gpus(-1)},
        {"resources": gpus(0.5)},
        {"resources": {"cpu": {"requests": 3, "limits": 2}}},
        {"resources": {"memory": {"requests": "2G", "limits": "1G"}}},
        {"resources": {"memory": {"requests": 16}}},
        {"resources": {"cpu": {"requests": float("inf")}}},
        {"resources": {"tpu": {"limits": 8}}},
        {"replicas": {"n_workers": -1}},
        {"replicas": {"n_workers": 2, "worker": [{}]}},
        {"replicas": {"n_workers": 1, "worker": [{}]}},
        {"replicas": {"n_workers": 2, "worker": [{"index": 2}]}},
        {"replicas": {"ps": [{"index": 0}]}},
        {"replicas": {"n_ps": 1, "ps": [{"index": 0}, {"index": 0, "resources": gpus(-2)}]}},
        {"replicas": {"default_worker": {"resources": gpus(1.5)}, "n_workers": 0}},
        pytest.param(
            {
                "node_selector": {"partition": ""},
                "replicas": {
                    "n_ps": 1,
                    "default_ps": {"node_selector": {"x": ""}},
                    "ps": [{"index": 0, "node_selector": {"y": ""}}],
                },
            },
            id="empty values of node selectors",
        ),
        {"env_vars": {"A-B": 1}},
        {"env_vars": {"HPCDIST_RANK": 1}},
        {"env_vars": {"UID": 1}},
        pytest.param({"env_vars": {"A": "x" * 200_000}}, id="a variable of 195 KiB"),
        {"processes_per_replica": 0},
        {"max_restarts": -1},
        {"replicas": {"n_workers": 10**11}},
    ],
    ids=str,
)
def test_problems_that_types_do_not_exclude(environment: dict[str, object], wording: Wording) -> None:
    wording(found(environment=environment))


@pytest.mark.parametrize(
    "data",
    [
        {"run": {"cmd": ["cd x", "python t.py -n 3", "7z x.7z", "./a"]}},
        {"logging": {"level": "warning"}},
        {"build": {"image": "x:1"}, "run": {"entrypoint": "image", "args": "", "workdir": "/w"}},
    ],
)
def test_what_is_right(data: dict[str, object]) -> None:
    assert found(**data) == []


@pytest.mark.parametrize(
    "cmd",
    [
        "",
        " \n",
        ["python", "t.py", "--lr", "0.1"],
        ["python", "t.py", "--n=a b"],
        ["python t.py --betas 0.9", "0.99"],
        ["python3", "./train.py"],
        ["/usr/bin/python3.11", "train.py"],
        ["cd x", "bash", "run.sh"],
        ["mpirun", "./a"],
    ],
    ids=str,
)
def test_empty_commands_and_lists_that_hold_or_may_hold_one(cmd: object, wording: Wording) -> None:
    wording(found(run={"cmd": cmd}))


@pytest.mark.parametrize(
    "cmd",
    [["make", "./run"], ["python a.py", "python b.py"], ["./a", "python3"], ["module load python", "./a"]],
)
def test_list_of_several_commands_does_not_warn(cmd: list[str]) -> None:
    assert found(run={"cmd": cmd}) == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"run": {"cmd": "x" * 200_000}}, id="a command of 195 KiB"),
        pytest.param({"params": {"a": "x" * 200_000}}, id="params of 195 KiB"),
        {"build": {"env_vars": [["PPID", 1], ["A"]]}},
        {"logging": {"level": "INFOO"}},
        {"batch": {"array": "x y"}},
        {"batch": {"signal": "B:BOGUS", "dependency": ["after all"]}},
        {"batch": {"mail": {"user": "me", "events": ["end", "finish"]}}},
    ],
    ids=str,
)
def test_invalid_texts(data: dict[str, object], wording: Wording) -> None:
    wording(found(**data))


IMAGE = {"build": {"image": "x:1"}}


@pytest.mark.parametrize(
    "data",
    [
        IMAGE | {"run": {"entrypoint": "image", "args": {"master": "x", "workers": ""}}},
        IMAGE | {"run": {}},
        {"run": {"args": "x"}},
        {"run": {"entrypoint": "image"}},
        {"run": {"cmd": "x", "workdir": "/w"}},
        {"stage": [{"from": "$X/a", "to": "tmp", "unpack": True}]},
        {"stage": [{"from": ".", "to": "/d"}, {"from": "/", "to": "/"}, {"from": "a/..", "to": "/a/../b"}]},
        pytest.param(
            {
                "stage": [
                    {"from": "/a/x"},
                    {"from": "/b/x/"},
                    {"from": "/c/x.tar.gz", "unpack": True},
                    {"from": "/c/x", "to": "/d"},
                ]
            },
            id="copies of one name",
        ),
        {"build": {"binds": ["/data"]}},
        {"build": {"image": "x", "binds": ["/a b", "/a:/b:ro:x"]}},
        {"build": {"image": "x", "binds": ["/a:/b:zz", "/a:/c", "/d:/c:ro", "/c", "/a:/c"]}},
        pytest.param(
            {
                "run": {
                    "cmd": "x",
                    "prepare": {"cmd": ""},
                    "finish": {"cmd": " # nothing"},
                    "beside": [{"cmd": "y"}, {"cmd": ""}],
                }
            },
            id="steps without a command",
        ),
        IMAGE | {"run": {"entrypoint": "image", "workdir": "w"}},
        IMAGE | {"run": {"entrypoint": "image", "cmd": "x", "args": "y"}},
    ],
    ids=str,
)
def test_the_program(data: dict[str, Any], wording: Wording) -> None:
    wording(found(**data))


@pytest.mark.parametrize(
    "keys", [{}, {"metrics": {"loss": r"loss[ =](\S+)"}, "step": r"(?:epoch|step) (\d+)"}]
)
def test_expressions_with_one_group(keys: dict[str, Any]) -> None:
    assert [*tracking_problems(Tracking(**keys), ("t",))] == []


@pytest.mark.parametrize(
    "keys",
    [{"metrics": {"a": "a", "b": "(b)(c)"}}, {"metrics": {"a": "[("}, "step": "*"}, {"step": "(a)"}],
    ids=str,
)
def test_problems(keys: dict[str, Any], wording: Wording) -> None:
    found = [*tracking_problems(Tracking(**keys), ("t",))]
    assert {problem.severity for problem in found} == {"error"}
    wording(map(str, found))


LIST = {"lr": Space(values=(0.1, 0.2))}
ANY = {"a": Space(uniform=(0, 1))}
RIGHT: Final = {
    "a matrix": Search(matrix=LIST),
    "a list": Search(mapping=({"lr": 0.1},)),
    "the largest seed": Search(matrix=LIST, seed=2**32 - 1),
    "a distribution under bo": Search(matrix=ANY, bo=Bayes(2, 3, Metric("loss"))),
}
WRONG: Final = {
    "nothing": Search(),
    "two algorithms": Search(matrix=LIST, grid_search=Count(), random_search=Count(2)),
    "a seed below 0": Search(matrix=LIST, seed=-1),
    "too large a seed": Search(matrix=LIST, seed=2**32),
    "a list with an algorithm": Search(mapping=({"lr": 1},), random_search=Count(2)),
    "numbers out of range": Search(matrix=LIST, concurrency=0, grid_search=Count(0)),
    "names and values": Search(matrix={"l r": Space(uniform=(2, 1)), "b": Space()}, random_search=Count(2)),
    "a grid of a distribution": Search(matrix=ANY),
    "hyperband with values of its resource": Search(
        matrix={"epochs": Space(values=(1,))},
        hyperband=Hyperband(0, Resource("epochs"), Metric("loss"), 1.0),
    ),
    "too much of a resource": Search(
        matrix=ANY, hyperband=Hyperband(10**400, Resource("epochs"), Metric("loss"), 3)
    ),
    "too many trials of hyperband": Search(
        matrix=ANY, hyperband=Hyperband(10**9, Resource("epochs"), Metric("loss"), 3)
    ),
    "hyperband over too few values": Search(
        matrix={"a": Space(quniform=(0, 2, 1))},
        hyperband=Hyperband(27, Resource("epochs"), Metric("loss"), 3),
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_searches_without_problems(case: str) -> None:
    assert [*search_problems(RIGHT[case], ("hptuning",))] == []


@pytest.mark.parametrize("case", WRONG)
def test_problems_have_their_place(case: str, wording: Wording) -> None:
    found = [*search_problems(WRONG[case], ("hptuning",))]
    assert {problem.severity for problem in found} == {"error"}
    wording(map(str, found))


def test_fewer_combinations_than_trials_are_a_warning(wording: Wording) -> None:
    [problem] = search_problems(Search(matrix=LIST, random_search=Count(3)), ("hptuning",))
    assert problem.severity == "warning"
    wording(str(problem))


def problems(tracking: dict[str, Any] | None = None, **policy: Any) -> list[str]:
    search = {
        "matrix": {"lr": {"values": [1, 2]}},
        "early_stopping": [{"metric": "loss", "policy": policy}],
    }
    data = {"run": {"cmd": "x {{ lr }}"}, "hptuning": search, "tracking": tracking or {}}
    built, found = fields.build(Experiment, data)
    return [str(problem) for problem in (problems_of(built) if built else found)]


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "median"},
        {"kind": "average", "evaluation_interval": 5, "min_interval": 10, "min_samples": 1},
        {"kind": "truncation", "percent": 20},
        {"kind": "difference", "percent": 150.5},
        {"kind": "difference", "amount": 0},
    ],
)
def test_what_policies_have(policy: dict[str, Any]) -> None:
    assert problems(**policy) == []


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "median", "percent": 20},
        {"kind": "truncation"},
        {"kind": "difference"},
        {"kind": "difference", "percent": 1, "amount": 1},
        {"kind": "truncation", "percent": 100},
        {"kind": "difference", "amount": -1},
        {"kind": "median", "evaluation_interval": 0},
        {"kind": "median", "min_samples": 0},
    ],
    ids=str,
)
def test_what_would_end_no_trial_or_all_of_them(policy: dict[str, Any], wording: Wording) -> None:
    wording(problems(**policy))


def test_a_metric_in_the_output_ends_no_trial(wording: Wording) -> None:
    wording(problems({"metrics": {"loss": r"loss (\S+)"}}, kind="median"))
