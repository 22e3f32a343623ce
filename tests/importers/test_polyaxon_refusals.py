# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from tests.importers.remarks import cases
from tests.wording import Wording


def read(text: str) -> tuple[object, list[str]]:
    document = source.parse(text, "p.yml")
    imported = importers.read(document.data, "polyaxon")
    return imported.data, [str(document.locate(remark)) for remark in imported.remarks]


@pytest.mark.parametrize(
    "text",
    [
        "version: 1.1\nkind: component\nrun: {kind: job}",
        "version: '1.1'\nrun: {cmd: x}",
        "version: 2\nrun: {cmd: x}",
        "version: true\nrun: {cmd: x}",
        "version: [1]\nrun: {cmd: x}",
        "kind: build",
        "kind: pipeline",
    ],
    ids=cases(),
)
def test_files_that_are_not_run(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    wording(map(str, caught.value.problems))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("settings: {odd: 1}", {}),
        ("model: {}\ntrain: {}\neval:", {}),
        ("timeout: 60", {}),
        ("params: {a: 1}\ndeclarations: {a: 2}", {"params": {"a": 1}}),
        (
            "environment: {pytorch: {n_workers: 1}, mxnet: {n_workers: 2}}",
            {"framework": "pytorch", "environment": {"replicas": {"n_workers": 1}}},
        ),
        (
            "framework: mxnet\nenvironment: {pytorch: {n_workers: 1}}",
            {"framework": "mxnet", "environment": {"replicas": {"n_workers": 1}}},
        ),
        (
            "environment: {replicas: {n_workers: 2}, horovod: {n_workers: 1}}",
            {"framework": "horovod", "environment": {"replicas": {"n_workers": 2}}},
        ),
        ("environment: {pytorch: }", {"framework": "pytorch", "environment": {}}),
        (
            "environment: {processes_per_replica: 1, replicas: {processes_per_replica: 2}}",
            {"environment": {"processes_per_replica": 1, "replicas": {}}},
        ),
        ("run: {cmd: x, image: a}\nbuild: {image: b}", {"run": {"cmd": "x"}, "build": {"image": "b"}}),
        (
            "run: {cmd: x, image: a}\nbuild: {commit: b}",
            {"run": {"cmd": "x"}, "build": {"commit": "b", "image": "a"}},
        ),
        (
            "environment: {replicas: {worker: [{index: 0, affinity: {}}], worker_resources: [{index: 0, cpu: {}}, 3]}}",
            {
                "environment": {
                    "replicas": {"worker": [{"index": 0, "affinity": {}, "resources": {"cpu": {}}}, 3]}
                }
            },
        ),
        ("project: cifar\nname: x", {"project": "cifar", "name": "x"}),
        ("wokers: 1\nenvironment: {gpus: 2}", {"wokers": 1, "environment": {"gpus": 2}}),
        ("environment: [a]\nrun: b\nlogging: c\nsettings: d\nproject: [e]", None),
        ("environment: {resources: 1, replicas: 2, tensorflow: 3}", None),
    ],
    ids=cases(),
)
def test_moved_keys_and_remarks(text: str, data: object, wording: Wording) -> None:
    found, remarks = read(text)
    wording(remarks)
    assert data is None or found == data


def test_the_form_is_recognised_or_named() -> None:
    data = source.parse("apiVersion: kubeflow.org/v1\nrun: {}", "p.yml").data
    assert not importers.registry.get("polyaxon").recognises(data)
    assert importers.read(data, "polyaxon").data == data
    with pytest.raises(ConfigError, match="there is no importer 'polyaxn'; did you mean 'polyaxon'"):
        importers.read(data, "polyaxn")


def test_old_and_new_names_of_a_key_are_reported_by_the_model() -> None:
    text = """
environment:
  node_selector: {a: b}
  node_selectors: {c: d}
  replicas:
    default_worker: {resources: {}}
    default_worker_resources: {gpu: {limits: 1}}
    worker: [{index: 0, resources: {}}]
    worker_resources: [{index: 0, gpu: {limits: 1}}]
"""
    environment = {
        "node_selector": {"a": "b"},
        "node_selectors": {"c": "d"},
        "replicas": {
            "default_worker": {"resources": {}},
            "default_worker_resources": {"gpu": {"limits": 1}},
            "worker": [{"index": 0, "resources": {}}, {"index": 0, "resources": {"gpu": {"limits": 1}}}],
        },
    }
    assert read(text) == ({"environment": environment}, [])
