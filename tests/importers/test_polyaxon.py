# ruff: noqa: E501 - a message is compared as one line
"""The files are shaped like public ones of their generations; what comes out is compared as a whole."""

from __future__ import annotations

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import Place
from hpcdist.base.tree import Document

G0 = """
version: 1
project:
  name: user/cifar10
settings:
  logging: {level: INFO, path: /tmp/plx/logs}
declarations:
  lr: 0.001
environment:
  n_workers: 2
  n_ps: 1
  delay_workers_by_global_step: true
  master_resources: {cpu: {requests: 2, limits: 4}, memory: {requests: 512, limits: 1024}}
  default_worker_resources: {gpu: {requests: 1, limits: 1}}
  default_ps_resources: {cpu: {requests: 1, limits: 1}}
  worker_resources:
    - {index: 1, cpu: {requests: 3, limits: 3}, gpu: {requests: 2, limits: 2}}
run:
  image: tensorflow/tensorflow:1.4.1
  steps: [pip install -U polyaxon-helper]
  cmd: python3 model.py --lr={{ lr }}
"""

G1 = """
version: 1
kind: experiment
settings: {seed: 2}
environment:
  node_selectors: {polyaxon: experiment}
  tensorflow:
    n_workers: 1
    run_config: {save_summary_steps: 100}
    default_worker_node_selectors: {polyaxon: gpu}
    worker_node_selectors: [{index: 0, polyaxon: fast}]
    worker_configs: [{index: 0, log_device_placement: true}]
run:
  image: polyaxon/examples:1
  build_steps: [./setup.sh]
  env_vars: [[A, 1]]
  cmd: python run.py
"""

G2 = """
---
version: 1
kind: experiment
tags: [examples]
logging: {level: DEBUG}
build: {image: pytorch/pytorch:1.0, build_steps: [pip install x]}
environment:
  configmap_refs: [settings]
  resources: {gpu: {request: 1, limits: 2}}
  pytorch:
    n_workers: 1
    default_worker: {resources: {gpu: {request: 1}}}
    worker: [{index: 0, resources: {gpu: {limit: 1}}, config: {a: b}}]
run: {cmd: [python prepare.py, python train.py]}
"""

G3 = """
version: 1
kind: experiment
framework: horovod
backend: mpi
declarations: {batch_size: 128}
environment:
  resources: {gpu: {requests: 1, limits: 1}}
  replicas:
    n_workers: 3
    processes_per_replica: 2
    default_worker: {resources: {gpu: {requests: 1, limits: 1}}}
run: {cmd: "mpirun python train.py --batch={{ batch_size }}"}
"""

G4 = """
version: 1.0
kind: experiment
name: cnn
params: {lr: 0.01}
framework: tensorflow
environment: {replicas: null, node_selector: {a: b}, config_map_refs: [settings]}
build: {dockerfile: Dockerfile}
run: {cmd: python train.py}
batch: {walltime: 2:00:00}
"""


def read(text: str) -> tuple[object, list[str]]:
    document = source.parse(text, "p.yml")
    before = repr(document.data)
    imported = importers.read(document.data)
    assert repr(document.data) == before, "reading must not change the file's own data"
    return imported.data, [str(document.locate(remark)) for remark in imported.remarks]


THEN = (
    "a section from the time of TensorFlow 1: the cluster calls its chief `master`; "
    "for TensorFlow 2 add `tensorflow: {version: 2}` at the top level"
)
SESSION = "was for Polyaxon's own graphs and has no effect; set it in the program"


def test_generation_0() -> None:
    assert read(G0) == (
        {
            "version": 1,
            "project": "user/cifar10",
            "name": "cifar10",
            "logging": {"level": "INFO"},
            "params": {"lr": 0.001},
            "framework": "tensorflow",
            "tensorflow": {"version": "1"},
            "environment": {
                "resources": {
                    "cpu": {"requests": 2, "limits": 4},
                    "memory": {"requests": 512, "limits": 1024},
                },
                "replicas": {
                    "n_workers": 2,
                    "n_ps": 1,
                    "default_worker": {"resources": {"gpu": {"requests": 1, "limits": 1}}},
                    "default_ps": {"resources": {"cpu": {"requests": 1, "limits": 1}}},
                    "worker": [
                        {
                            "index": 1,
                            "resources": {
                                "cpu": {"requests": 3, "limits": 3},
                                "gpu": {"requests": 2, "limits": 2},
                            },
                        }
                    ],
                },
            },
            "run": {"cmd": "python3 model.py --lr={{ lr }}"},
            "build": {
                "image": "tensorflow/tensorflow:1.4.1",
                "build_steps": ["pip install -U polyaxon-helper"],
            },
        },
        [
            "p.yml:6:32: logging.path: 'path' has no effect; the output of the job is kept in its run directory",
            f"p.yml:12:33: environment.delay_workers_by_global_step: 'delay_workers_by_global_step' {SESSION}",
            "p.yml:10:14: environment.n_workers: replicas without a framework: tensorflow is assumed; write `framework:`",
            f"p.yml:10:14: tensorflow: {THEN}",
        ],
    )


def test_generation_1() -> None:
    assert read(G1) == (
        {
            "version": 1,
            "kind": "experiment",
            "framework": "tensorflow",
            "tensorflow": {"version": "1"},
            "environment": {
                "node_selector": {"polyaxon": "experiment"},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": {"node_selector": {"polyaxon": "gpu"}},
                    "worker": [{"index": 0, "node_selector": {"polyaxon": "fast"}}],
                },
            },
            "run": {"cmd": "python run.py"},
            "build": {"image": "polyaxon/examples:1", "build_steps": ["./setup.sh"], "env_vars": [["A", 1]]},
        },
        [
            "p.yml:4:12: settings.seed: 'seed' has no effect; pass it to the program in `run.cmd`",
            f"p.yml:7:3: tensorflow: {THEN}",
            f"p.yml:9:5: environment.replicas.run_config: 'run_config' {SESSION}",
            f"p.yml:12:5: environment.replicas.worker_configs: 'worker_configs' {SESSION}",
        ],
    )


def test_generation_2() -> None:
    gpu = "resources.gpu.request: 'request' is read as 'requests'; write `requests`"
    worker = "environment.replicas.worker[0]"
    assert read(G2) == (
        {
            "version": 1,
            "kind": "experiment",
            "tags": ["examples"],
            "logging": {"level": "DEBUG"},
            "build": {"image": "pytorch/pytorch:1.0", "build_steps": ["pip install x"]},
            "framework": "pytorch",
            "environment": {
                "config_map_refs": ["settings"],
                "resources": {"gpu": {"requests": 1, "limits": 2}},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": {"resources": {"gpu": {"requests": 1}}},
                    "worker": [{"index": 0, "resources": {"gpu": {"limits": 1}}}],
                },
            },
            "run": {"cmd": ["python prepare.py", "python train.py"]},
        },
        [
            f"p.yml:10:30: environment.{gpu}",
            f"p.yml:13:49: environment.replicas.default_worker.{gpu}",
            f"p.yml:14:55: {worker}.config: 'config' {SESSION}",
            f"p.yml:14:50: {worker}.resources.gpu.limit: 'limit' is read as 'limits'; write `limits`",
        ],
    )


def test_generation_3() -> None:
    one = {"gpu": {"requests": 1, "limits": 1}}
    assert read(G3) == (
        {
            "version": 1,
            "kind": "experiment",
            "framework": "horovod",
            "backend": "mpi",
            "params": {"batch_size": 128},
            "environment": {
                "resources": one,
                "replicas": {"n_workers": 3, "default_worker": {"resources": one}},
                "processes_per_replica": 2,
            },
            "run": {"cmd": "mpirun python train.py --batch={{ batch_size }}"},
        },
        [],
    )


def test_an_mpi_section_becomes_a_framework() -> None:
    text = "environment: {mpi: {n_workers: 2}}\nrun: {cmd: x}"
    environment = {"replicas": {"n_workers": 2}}
    assert read(text) == ({"framework": "mpi", "environment": environment, "run": {"cmd": "x"}}, [])


def test_generation_4_is_unchanged() -> None:
    assert read(G4) == (source.parse(G4, "p.yml").data, [])


def test_moved_values_keep_their_places() -> None:
    document = source.parse(G1, "p.yml")
    data = importers.read(document.data).data
    native = Document(data, "p.yml")
    places = {
        ("framework",): (7, 3),
        ("environment", "replicas", "n_workers"): (8, 16),
        ("environment", "replicas", "default_worker", "node_selector", "polyaxon"): (10, 47),
        ("environment", "replicas", "worker", 0, "node_selector", "polyaxon"): (11, 50),
        ("build", "image"): (14, 10),
        ("build", "env_vars", 0, 1): (16, 18),
    }
    assert {path: native.place(path) for path in places} == {
        path: Place("p.yml", *place) for path, place in places.items()
    }
