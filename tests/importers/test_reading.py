"""Keys that an importer neither reads nor reports are errors at any depth."""

from __future__ import annotations

import pytest

from hpcdist.base.errors import Path
from hpcdist.base.source import parse
from hpcdist.importers.reading import Reading, one_of

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


def test_a_file_of_unread_keys_reports_all() -> None:
    assert [str(problem) for problem in reading().finish().remarks] == [
        "job.yml:1:1: name: unknown key 'name'; remove it",
        "job.yml:2:1: spec: unknown key 'spec'; remove it",
    ]


def test_an_unread_section_is_reported_at_its_highest_key() -> None:
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


def test_origins_of_native_keys() -> None:
    read = reading()
    read.move("name", "name")
    read.put("environment.env_vars", {"A": "1"}, "spec", "env", 0)
    found = read.finish()
    assert found.data == {"name": "a", "environment": {"env_vars": {"A": "1"}}}
    assert found.origins == {("name",): ("name",), ("environment", "env_vars"): ("spec", "env", 0)}
    place = found.data["environment"]["env_vars"].value_places["A"]
    assert (place.file, place.line) == ("job.yml", 5)


def test_a_refused_value_is_an_error() -> None:
    read = reading()
    read.refuse("spec", "deep", why="it is deep", hint="write it flat")
    assert "job.yml:8:3: spec.deep: it is deep; write it flat" in map(str, read.finish().remarks)


def test_single_jobs_keep_their_paths() -> None:
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


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (
            "spec:\n  template:\n  count: 2",
            (
                "f.yml:3:3: spec.count: the lines under `template:` have lost their indentation; "
                "indent `count` by two spaces, and what belongs to it by two more"
            ),
        ),
        ("spec:\n  template: 1\n  count: 2", "f.yml:3:3: spec.count: unknown key 'spec.count'; remove it"),
        (
            "spec:\n  template: 1\n  count: 2\n  rest:",
            "f.yml:3:3: spec.count: unknown key 'spec.count'; remove it",
        ),
        (
            "spec:\n  template:\n  deep: {count: 2}",
            "f.yml:3:10: spec.deep.count: unknown key 'spec.deep.count'; remove it",
        ),
    ],
)
def test_a_section_whose_lines_lost_their_indentation(text: str, remark: str) -> None:
    read = Reading(parse(text, "f.yml").data)
    for path in (("spec", "template"), ("spec", "rest"), ("spec", "deep", "other")):
        read.get(*path)
    assert [str(problem) for problem in read.finish().remarks] == [remark]
