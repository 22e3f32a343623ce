"""What is wrong with an experiment though each of its values has the right type."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
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
