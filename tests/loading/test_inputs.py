# ruff: noqa: E501 - a table
from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.tree import Map, Seq
from hpcdist.loading import inputs
from tests.wording import Wording


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


def test_a_maximum_is_for_numbers() -> None:
    assert resolve([{"name": "x", "maximum": 2.5}], x="many")[2] == []


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ({"type": "int"}, {}),
        ({"type": "float", "minimum": 1, "maximum": 2.5}, {"x": 0.5}),
        ({"type": "int", "is_list": True, "maximum": 2.5}, {"x": [1, 3]}),
        ({"type": "int"}, {"x": 1.5}),
        ({"type": "int"}, {"x": True}),
        ({"type": "float"}, {"x": "a"}),
        ({"type": "bool"}, {"x": 1}),
        ({"type": "str"}, {"x": 1}),
        ({"type": "dict_of_dicts"}, {"x": {"a": 1}}),
        ({"type": "list"}, {"x": 1}),
        ({"type": "int", "is_list": True}, {"x": 1}),
        ({"type": "int", "is_list": True}, {"x": [1, "a"]}),
        ({"options": ["a", "b"]}, {"x": "c"}),
        ({"type": "flot"}, {"x": 1}),
        ({"type": "int", "is_flag": True}, {"x": 1}),
        ({"type": "int", "default": 1}, {}),
        ({"type": "flot", "value": 0.1}, {}),
        ({"defalt": 0.1}, {}),
        ({"type": "int", "default": "a", "is_optional": True}, {}),
        ({"is_optional": True}, {"y": 1}),
        ({"nmae": 1, "is_optional": True}, {}),
    ],
    ids=str,
)
def test_invalid_values(declared: dict[str, Any], given: dict[str, Any], wording: Wording) -> None:
    wording(resolve([{"name": "x", **declared}], **given)[2])
