"""``runPatch`` of an operation changes the run of its component, by the ``patchStrategy``."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.importers import polyaxon_v1
from hpcdist.importers.polyaxon_v1 import merged
from tests.importers.remarks import remarks_of

COMPONENT = "component: {tags: [a], run: {kind: job, container: {image: a, command: [x], args: [y]}}}\n"
HEAD = "version: 1.1\nkind: operation\n"


def native(text: str) -> object:
    return polyaxon_v1.IMPORTER.read(source.parse(text, "f.yml").data).data


@pytest.mark.parametrize(
    ("strategy", "result"),
    [
        ("post_merge", {"a": 2, "b": 1, "c": 3, "d": [1, 2, 3], "e": {"f": 2, "g": 1, "h": 1}}),
        ("pre_merge", {"a": 1, "b": 1, "c": 3, "d": [2, 3, 1], "e": {"f": 1, "g": 1, "h": 1}}),
        ("replace", {"a": 2, "b": 1, "c": 3, "d": [2, 3], "e": {"f": 2, "h": 1}}),
        ("isnull", {"a": 1, "b": 1, "c": 3, "d": [1, 2], "e": {"f": 1, "g": 1, "h": 1}}),
    ],
)
def test_the_strategies(strategy: str, result: dict[str, object]) -> None:
    text = "value: {a: 1, b: 1, c: null, d: [1, 2], e: {f: 1, g: 1}}\n"
    text += "patch: {a: 2, b: null, c: 3, d: [2, 3], e: {f: 2, h: 1}}\n"
    data = source.parse(text, "f.yml").data
    assert merged(data["value"], data["patch"], strategy) == result


def test_a_patch_changes_the_component_and_the_operation_wins() -> None:
    patch = "runPatch: {container: {image: b, resources: {limits: {nvidia.com/gpu: 2}}}}\n"
    own = "tags: [b]\ntermination: {timeout: 60}\n"
    text = HEAD + patch + own + COMPONENT.replace("tags: [a]", "tags: [a], termination: {timeout: 5}")
    assert native(text) == {
        "tags": ["a", "b"],
        "batch": {"walltime": "60s"},
        "run": {"cmd": "x y"},
        "build": {"image": "b"},
        "environment": {"resources": {"gpu": {"limits": 2}}},
    }
    assert remarks_of(text) == []


def test_words_are_added_with_a_warning() -> None:
    text = HEAD + "runPatch: {container: {args: [z]}}\n" + COMPONENT
    assert native(text) == {"tags": ["a"], "run": {"cmd": "x y z"}, "build": {"image": "a"}}
    why = "these words are added to the component's, as Polyaxon does"
    hint = "write `patchStrategy: replace` to replace them"
    assert remarks_of(text) == [f"warning: f.yml:3:24: runPatch.container.args: {why}; {hint}"]
    replaced = HEAD + "patchStrategy: replace\n" + text.removeprefix(HEAD)
    assert native(replaced) == {"tags": ["a"], "run": {"cmd": "x z"}, "build": {"image": "a"}}


def test_a_patch_of_a_replica_is_for_every_role() -> None:
    text = HEAD + (
        "runPatch: {container: {resources: {limits: {nvidia.com/gpu: 4}}}}\n"
        "component:\n  run:\n    kind: pytorchjob\n"
        "    master: {container: {command: [x]}}\n    worker: {replicas: 2, container: {command: [x]}}\n"
    )
    amounts = {"resources": {"gpu": {"limits": 4}}}
    assert native(text) == {
        "framework": "pytorch",
        "run": {"cmd": "x"},
        "environment": {**amounts, "replicas": {"n_workers": 2, "default_worker": amounts}},
    }
