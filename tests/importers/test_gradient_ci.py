# ruff: noqa: E501 - a message is compared as one line
"""Files of GradientCI, shaped like public ones; remarks have the paths of those files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.loading.load import load_experiment

FILES = Path(__file__).parent / "gradient"

EXPECTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "ci_mpi": (
        {
            "name": "two-nodes",
            "build": {"image": "horovod/horovod:0.18.1"},
            "framework": "horovod",
            "batch": {"nodes": 2},
            "environment": {
                "resources": {"gpu": {"requests": 1}},
                "node_selector": {"gpu_type": "V100"},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "V100"},
                    },
                },
                "env_vars": {"OMPI_MCA_btl": "^openib"},
            },
            "run": {"cmd": ["cd src", "SEED=$RANDOM_SEED python train.py"]},
        },
        [
            "ci_mpi:21:1: filters: filters has no effect on a batch machine: a job is submitted by you, and not by a commit",
            "ci_mpi:23:1: checks: checks has no effect on a batch machine: metrics are not checked",
            "ci_mpi:3:13: experiment: the job is named 'two-nodes': 'two nodes' is not a valid job name",
            "ci_mpi:19:17: worker.machine-type: of a p3.2xlarge machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "ci_mpi:15:17: master.machine-type: masterMachineType has no effect on a batch machine: mpirun runs on the node of the first worker",
            "ci_mpi:14:12: master.command: mpirun selects a network of Gradient's machines with OMPI_MCA_btl; remove that from `environment.env_vars`, and the site's own network is used",
            "ci_mpi:2:10: project: projectId has no effect on a batch machine: it belongs to an account of Paperspace",
            "ci_mpi:10:9: model.type: modelType has no effect on a batch machine: models are not stored; what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
            "ci_mpi:11:9: model.path: modelPath has no effect on a batch machine: models are not stored; what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
            "ci_mpi:8:14: paths.artifacts: artifactDirectory has no effect on a batch machine: what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
            "ci_mpi:5:8: ports: ports has no effect on a batch machine: the nodes of a job reach each other on all ports",
        ],
    ),
    "ci_single": (
        {
            "environment": {"resources": {"cpu": {"requests": 12}, "memory": {"requests": 30720}}},
            "build": {"image": "someone/own:1"},
            "run": {"cmd": "./run.sh"},
        },
        [
            "ci_single:6:10: worker.count: count has no effect on a batch machine: an experiment of one node has one",
            "ci_single:8:1: parameter_server: parameter_server has no effect on a batch machine: an experiment of one node has no such role",
        ],
    ),
    "ci_step": (
        {
            "name": "first-try",
            "environment": {
                "env_vars": {"LR": "1.0"},
                "resources": {"gpu": {"requests": 1}},
                "node_selector": {"gpu_type": "P5000"},
                "replicas": {
                    "default_worker": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "P5000"},
                    },
                    "default_ps": {"resources": {"cpu": {"requests": 4}, "memory": {"requests": 8192}}},
                    "n_workers": 1,
                    "n_ps": 1,
                },
            },
            "batch": {"nodes": 3},
            "framework": "tensorflow",
            "build": {"image": "tensorflow/tensorflow:2.4.1"},
            "tensorflow": {"version": "2.4.1"},
            "run": {
                "cmd": [
                    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"',
                    "python train.py",
                ]
            },
        },
        [
            "ci_step:19:5: workflows.train.triggers: triggers has no effect on a batch machine: a job is submitted by you, and not by a commit",
            "ci_step:17:9: workflows.train.steps[0].checks: checks has no effect on a batch machine: metrics are not checked",
            "ci_step:5:15: workflows.train.steps[0].name: the job is named 'first-try': 'first try' is not a valid job name",
            "ci_step:9:30: workflows.train.steps[0].params.workerMachineType: of a Free-P5000 machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "ci_step:11:24: workflows.train.steps[0].params.workerCount: the first of 2 workers is TF_CONFIG's master, and not worker 0 too as on Gradient; worker 0 is the second; WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same",
            "ci_step:16:23: workflows.train.steps[0].params.clusterId: clusterId has no effect on a batch machine: it belongs to an account of Paperspace",
        ],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_becomes_an_experiment(name: str) -> None:
    document = source.parse((FILES / f"{name}.yml").read_text(), name)
    assert importers.registry.get("gradient").recognises(document.data)
    imported = importers.read(document.data)
    remarks = [str(document.locate(problem)) for problem in imported.remarks]
    assert (imported.data, remarks) == EXPECTED[name]
    assert load_experiment(document).experiment.run.command


def test_origins_of_native_keys() -> None:
    origins = importers.read(source.load(FILES / "ci_step.yml").data).origins
    params = ("workflows", "train", "steps", 0, "params")
    assert origins["environment", "replicas", "n_workers"] == (*params, "workerCount")
    assert origins["environment", "env_vars", "LR"] == (*params, "experimentEnv", "LR")
    assert origins["framework",] == ("workflows", "train", "steps", 0, "command")
