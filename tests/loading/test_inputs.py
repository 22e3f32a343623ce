# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents.tree import Map, Seq
from hpcdist.loading import inputs


def resolve(declared: list[dict[str, Any]], **given: Any) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    values, shown, problems = inputs.resolve(Seq(map(Map, declared)), given)
    return values, shown, [str(problem) for problem in problems]


def test_without_inputs_every_param_is_accepted() -> None:
    assert inputs.resolve(None, {"a": [1], "b": None}) == ({"a": [1], "b": None}, {"a": [1], "b": None}, [])


def test_defaults_flags_and_optional_inputs() -> None:
    declared = [
        {"name": "lr", "type": "float", "is_optional": True, "default": 0.1},
        {"name": "fast", "type": "bool", "is_flag": True},
        {"name": "slow", "type": "bool", "is_flag": True, "is_optional": True, "default": False},
        {"name": "note", "is_optional": True},
        {"name": "sizes", "type": "int", "is_list": True, "options": [1, 2, 3]},
    ]
    assert resolve(declared, fast=True, sizes=[1, 2]) == (
        {"fast": True, "sizes": [1, 2], "lr": 0.1, "slow": False},
        {"fast": "--fast", "sizes": [1, 2], "lr": 0.1, "slow": "", "note": None},
        [],
    )


def test_missing_required_inputs() -> None:
    declared: list[dict[str, Any]] = [
        {"name": "a"}, {"name": "b"}, {"name": "c", "is_optional": True}, {"name": "d"}, {"type": 3},
    ]  # fmt: skip
    assert inputs.required(Seq(map(Map, declared)), {"a": 1, "d": None}) == ["b", "d"]
    assert inputs.required("text", {}) == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1), ("float", 1), ("float", 1.5), ("bool", False), ("str", "x"), ("dict", {}), ("list", [1]), ("path", "/x"),
        ("dict_of_dicts", {"a": {}}), ("uri", "a:b"), ("auth", {"user": "x"}), ("metric", 0.5), ("s3_path", "s3://x"),
    ],
)  # fmt: skip
def test_valid_values(kind: str, value: object) -> None:
    assert resolve([{"name": "x", "type": kind}], x=value)[2] == []


@pytest.mark.parametrize(
    ("declared", "given", "messages"),
    [
        ({"type": "int"}, {},
         ["inputs[0]: the input 'x' is required but has no param; write it under `params`, or use `-p x=VALUE`"]),
        ({"type": "float", "minimum": 1, "maximum": 2.5}, {"x": 0.5},
         ["params.x: 0.5 is less than the minimum; write 1 or more"]),
        ({"type": "int", "is_list": True, "maximum": 2.5}, {"x": [1, 3]},
         ["params.x: 3 is more than the maximum; write 2.5 or less"]),
        ({"maximum": 2.5}, {"x": "many"}, []),
        ({"type": "int"}, {"x": 1.5}, ["params.x: expected a whole number (`type: int`), got 1.5"]),
        ({"type": "int"}, {"x": True}, ["params.x: expected a whole number (`type: int`), got true"]),
        ({"type": "float"}, {"x": "a"}, ["params.x: expected a number (`type: float`), got 'a'"]),
        ({"type": "bool"}, {"x": 1}, ["params.x: expected true or false (`type: bool`), got 1"]),
        ({"type": "str"}, {"x": 1}, ["params.x: expected text (`type: str`), got 1"]),
        ({"type": "dict_of_dicts"}, {"x": {"a": 1}},
         ["params.x: expected keys and values (`type: dict_of_dicts`), got {'a': 1}"]),
        ({"type": "list"}, {"x": 1}, ["params.x: expected a list (`type: list`), got 1"]),
        ({"type": "int", "is_list": True}, {"x": 1}, ["params.x: expected a list, got 1; write it as [a, b]"]),
        ({"type": "int", "is_list": True}, {"x": [1, "a"]},
         ["params.x: expected a whole number (`type: int`), got 'a'"]),
        ({"options": ["a", "b"]}, {"x": "c"}, ["params.x: 'c' is not one of the options; known: a, b"]),
        ({"type": "flot"}, {"x": 1}, ["inputs[0].type: there is no type 'flot'; did you mean 'float'?"]),
        ({"type": "int", "is_flag": True}, {"x": 1}, ["inputs[0].is_flag: a flag must be a bool; write `type: bool`"]),
        ({"type": "int", "default": 1}, {},
         ["inputs[0].default: a default needs an optional input; add `is_optional: true`, as in Polyaxon"]),
        ({"type": "flot", "value": 0.1}, {},
         ["inputs[0].value: unknown key 'value'; write `default` and `is_optional: true`, or the value under `params`"]),
        ({"defalt": 0.1}, {}, ["inputs[0].defalt: unknown key 'defalt'; did you mean 'default'?"]),
        ({"type": "int", "default": "a", "is_optional": True}, {},
         ["inputs[0].default: expected a whole number (`type: int`), got 'a'"]),
        ({"is_optional": True}, {"y": 1}, ["params.y: there is no input 'y'; known: x"]),
        ({"nmae": 1, "is_optional": True}, {},
         ["inputs[0].nmae: unknown key 'nmae'; did you mean 'name'?"]),
    ],
)  # fmt: skip
def test_invalid_values(declared: dict[str, Any], given: dict[str, Any], messages: list[str]) -> None:
    assert resolve([{"name": "x", **declared}], **given)[2] == messages
