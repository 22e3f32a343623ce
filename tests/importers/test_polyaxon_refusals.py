# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError


def read(text: str) -> tuple[object, list[str]]:
    document = source.parse(text, "p.yml")
    imported = importers.read(document.data, "polyaxon")
    return imported.data, [str(document.locate(remark)) for remark in imported.remarks]


NEWER = "write 1; files of Polyaxon 1 and 2 have `run.kind` instead of `run.cmd`"
REWRITE = "it is a file of Polyaxon 1 or 2, whose form is polyaxon_v1"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("version: 1.1\nkind: component\nrun: {kind: job}",
         [f"p.yml:1:10: version: files of version 1.1 are not read; {NEWER}",
          f"p.yml:2:7: kind: files of kind 'component' are not run; {REWRITE}"]),
        ("version: '1.1'\nrun: {cmd: x}", [f"p.yml:1:10: version: files of version 1.1 are not read; {NEWER}"]),
        ("version: 2\nrun: {cmd: x}", ["p.yml:1:10: version: files of version 2 are not read; write 1"]),
        ("version: true\nrun: {cmd: x}", ["p.yml:1:10: version: files of version True are not read; write 1"]),
        ("version: [1]\nrun: {cmd: x}", ["p.yml:1:1: version: files of version [1] are not read; write 1"]),
        ("kind: build", ["p.yml:1:7: kind: files of kind 'build' are not run; hpcdist builds no images: build it beforehand, and name it in `build.image`"]),
        ("kind: pipeline", ["p.yml:1:7: kind: a pipeline is several runs, not one; `submit`, `check`, `plan` and `render` take one, and in Python `hpcdist.load_pipeline`"]),
    ],
)  # fmt: skip
def test_files_that_are_not_run(text: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert [str(problem) for problem in caught.value.problems] == messages


@pytest.mark.parametrize(
    ("text", "data", "messages"),
    [
        ("settings: {odd: 1}", {}, ["p.yml:1:12: settings.odd: 'odd' has no effect"]),
        ("model: {}\ntrain: {}\neval:", {},
         [f"p.yml:{line}:1: {key}: Polyaxon's own graphs ended with Polyaxon 0.4; start the program that trains from `run.cmd`" for line, key in ((1, "model"), (2, "train"), (3, "eval"))]),
        ("timeout: 60", {}, ["p.yml:1:10: timeout: the time of a batch job is its walltime; write `batch: {walltime: HH:MM:SS}`"]),
        ("params: {a: 1}\ndeclarations: {a: 2}", {"params": {"a": 1}},
         ["p.yml:2:1: declarations: `params` and `declarations` are the same; keep `params`"]),
        ("environment: {pytorch: {n_workers: 1}, mxnet: {n_workers: 2}}",
         {"framework": "pytorch", "environment": {"replicas": {"n_workers": 1}}},
         ["p.yml:1:40: environment.mxnet: 'pytorch' and 'mxnet': an experiment has one framework; remove one of the sections"]),
        ("framework: mxnet\nenvironment: {pytorch: {n_workers: 1}}",
         {"framework": "mxnet", "environment": {"replicas": {"n_workers": 1}}},
         ["p.yml:2:15: environment.pytorch: the framework is 'mxnet', but this section is for 'pytorch'; write it as `replicas`"]),
        ("environment: {replicas: {n_workers: 2}, horovod: {n_workers: 1}}",
         {"framework": "horovod", "environment": {"replicas": {"n_workers": 2}}},
         ["p.yml:1:41: environment.horovod: `replicas` and `horovod` are the same; keep `replicas`"]),
        ("environment: {pytorch: }", {"framework": "pytorch", "environment": {}}, []),
        ("environment: {processes_per_replica: 1, replicas: {processes_per_replica: 2}}",
         {"environment": {"processes_per_replica": 1, "replicas": {}}},
         ["p.yml:1:38: environment.processes_per_replica: 'processes_per_replica' is given here and in `replicas`; keep one"]),
        ("run: {cmd: x, image: a}\nbuild: {image: b}", {"run": {"cmd": "x"}, "build": {"image": "b"}},
         ["p.yml:1:22: run.image: `run.image` and `build.image` are the same; keep `build.image`"]),
        ("run: {cmd: x, image: a}\nbuild: {commit: b}", {"run": {"cmd": "x"}, "build": {"commit": "b", "image": "a"}}, []),
        ("environment: {replicas: {worker: [{index: 0, affinity: {}}], worker_resources: [{index: 0, cpu: {}}, 3]}}",
         {"environment": {"replicas": {"worker": [{"index": 0, "affinity": {}, "resources": {"cpu": {}}}, 3]}}}, []),
        ("project: cifar\nname: x", {"project": "cifar", "name": "x"}, []),
        ("wokers: 1\nenvironment: {gpus: 2}", {"wokers": 1, "environment": {"gpus": 2}}, []),
        ("environment: [a]\nrun: b\nlogging: c\nsettings: d\nproject: [e]", None, []),
        ("environment: {resources: 1, replicas: 2, tensorflow: 3}", None,
         [("p.yml:1:42: tensorflow: a section from the time of TensorFlow 1: the cluster calls its chief `master`; "
          "for TensorFlow 2 add `tensorflow: {version: 2}` at the top level"),
          "p.yml:1:54: environment.tensorflow: `replicas` and `tensorflow` are the same; keep `replicas`"]),
    ],
)  # fmt: skip
def test_moved_keys_and_remarks(text: str, data: object, messages: list[str]) -> None:
    found, remarks = read(text)
    assert remarks == messages
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
