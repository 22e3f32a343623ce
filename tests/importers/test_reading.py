"""What an importer neither takes nor speaks of is told, wherever it stands."""

from __future__ import annotations

import re

import pytest

from hpcdist.documents.source import parse
from hpcdist.errors import Path
from hpcdist.importers.reading import Reading, filled, one_of

TEXT = """\
name: a
spec:
  count: 1.10
  env:
    - {name: A, value: "1"}
    - {name: B, value: "2", from: x}
  tolerations: []
  deep: {one: 1, two: {three: 3}}
"""


def reading() -> Reading:
    return Reading(parse(TEXT, "job.yml").data)


def test_nothing_taken_is_all_told() -> None:
    assert [str(problem) for problem in reading().finish().remarks] == [
        "job.yml:1:1: name: unknown key 'name'; remove it",
        "job.yml:2:1: spec: unknown key 'spec'; remove it",
    ]


def test_what_is_left_is_told_at_its_highest_key() -> None:
    read = reading()
    assert read.get("name") == "a"
    assert read.text("spec", "count") == "1.10"
    assert [read.get("spec", "env", at, "value") for at, _ in read.items("spec", "env")] == ["1", "2"]
    assert [read.get("spec", "env", at, "name") for at, _ in read.items("spec", "env")] == ["A", "B"]
    read.ignore_all({"tolerations": "no taints", "deep.*.three": "no reason"}, "spec")
    assert [(str(problem), problem.severity) for problem in read.finish().remarks] == [
        (
            "job.yml:7:3: spec.tolerations: tolerations has no effect on a batch machine: no taints",
            "warning",
        ),
        ("job.yml:8:31: spec.deep.two.three: three has no effect on a batch machine: no reason", "warning"),
        ("job.yml:6:29: spec.env[1].from: unknown key 'spec.env[1].from'; remove it", "error"),
        ("job.yml:8:10: spec.deep.one: unknown key 'spec.deep.one'; remove it", "error"),
    ]


def test_native_keys_know_where_they_come_from() -> None:
    read = reading()
    read.move("name", "name")
    read.put("environment.env_vars", {"A": "1"}, "spec", "env", 0)
    found = read.finish()
    assert found.data == {"name": "a", "environment": {"env_vars": {"A": "1"}}}
    assert found.origins == {("name",): ("name",), ("environment", "env_vars"): ("spec", "env", 0)}
    place = found.data["environment"]["env_vars"].value_places["A"]
    assert (place.file, place.line) == ("job.yml", 5)


def test_a_meaning_that_cannot_be_kept_is_an_error() -> None:
    read = reading()
    read.refuse("spec", "deep", why="it is deep", hint="write it flat")
    assert "job.yml:8:3: spec.deep: it is deep; write it flat" in map(str, read.finish().remarks)


@pytest.mark.parametrize(
    ("text", "result"), [("a {x} {y}", ("a 1 {y}", ["y"])), ("{{x}}", ("{1}", [])), ("", ("", []))]
)
def test_placeholders(text: str, result: tuple[str, list[str]]) -> None:
    assert filled(text, re.compile(r"\{(\w+)\}"), {"x": "1"}) == result


def test_one_of_several_jobs_keeps_its_path() -> None:
    data = parse("a: {x: 1, y: 2, z: 3}\nb: [p, q]", "f.yml").data
    items: dict[Path, str] = {
        ("a", "x"): "first",
        ("a", "y"): "",
        ("a", "z"): "twice",
        ("b", 0): "twice",
        ("b", 1): "last",
    }
    assert one_of(items, data) == {
        "first": {"a": {"x": 1}, "b": [None, None]},
        "last": {"a": {}, "b": [None, "q"]},
    }
    assert data == {"a": {"x": 1, "y": 2, "z": 3}, "b": ["p", "q"]}
