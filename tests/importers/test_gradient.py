# ruff: noqa: E501 - a message is compared as one line
"""Options files of Gradient, shaped like public ones; the native form and what is said are compared as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.loading.load import load_experiment

FILES = Path(__file__).parent / "gradient"

EXPECTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "horovod": (
        {
            "name": "digits-on-two",
            "tags": ["horovod", "nightly", "mnist"],
            "build": {
                "git": "https://github.com/someone/digits.git",
                "commit": "v1.2",
                "image": "horovod/horovod:0.18.1-tf1.14.0-py3.6",
            },
            "environment": {
                "env_vars": {
                    "EPOCHS": "5",
                    "LR": "1.0e-3",
                    "NCCL_DEBUG": "INFO",
                    "OMPI_MCA_pml": "ob1",
                    "OMPI_MCA_btl": "^openib",
                },
                "resources": {"gpu": {"requests": 1}},
                "node_selector": {"gpu_type": "V100"},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "V100"},
                    },
                },
            },
            "batch": {"nodes": 2},
            "framework": "horovod",
            "run": {"cmd": "python train.py --lr=$LR"},
        },
        [
            "horovod:17:7: name: the job is named 'digits-on-two': 'digits on two' is not a valid job name",
            "horovod:8:10: experimentEnv.TOKEN: TOKEN is a secret of Gradient's; export TOKEN in the shell that submits the job; the job inherits its variables",
            "horovod:23:16: workerCommand: workerCommand has no effect on a batch machine: the nodes of a job need no command that waits for mpirun",
            "horovod:26:20: workerMachineType: of a p3.2xlarge machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "horovod:16:20: masterMachineType: masterMachineType has no effect on a batch machine: mpirun runs on the node of the first worker",
            "horovod:11:16: masterCommand: hpcdist starts the processes itself, so these words have no effect: --allow-run-as-root, -bind-to none",
            "horovod:11:16: masterCommand: mpirun selects a network of Gradient's machines with OMPI_MCA_pml and OMPI_MCA_btl; remove that from `environment.env_vars`, and the site's own network is used",
            "horovod:19:12: projectId: projectId has no effect on a batch machine: it belongs to an account of Paperspace",
            "horovod:4:12: clusterId: clusterId has no effect on a batch machine: it belongs to an account of Paperspace",
            "horovod:18:8: ports: ports has no effect on a batch machine: the nodes of a job reach each other on all ports",
        ],
    ),
    "grpc": (
        {
            "name": "mnist-ps",
            "environment": {
                "env_vars": {"EPOCHS_EVAL": "5", "MAX_STEPS": "1000"},
                "resources": {"gpu": {"requests": 1}},
                "node_selector": {"gpu_type": "K80"},
                "replicas": {
                    "default_worker": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "K80"},
                    },
                    "default_ps": {"resources": {"cpu": {"requests": 12}, "memory": {"requests": 30720}}},
                    "n_workers": 2,
                    "n_ps": 1,
                },
            },
            "batch": {"nodes": 4},
            "framework": "tensorflow",
            "build": {"image": "tensorflow/tensorflow:1.13.1-gpu-py3"},
            "tensorflow": {"version": "1.13.1"},
            "run": {
                "cmd": [
                    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"',
                    "pip install -r requirements.txt && python mnist.py",
                ]
            },
        },
        [
            "grpc:6:20: workerMachineType: of a K80 machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "grpc:8:14: workerCount: the first of 3 workers is TF_CONFIG's master, and not worker 0 too as on Gradient; worker 0 is the second; WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same",
            "grpc:9:27: parameterServerContainer: an experiment has one image: tensorflow/tensorflow:1.13.1-gpu-py3 is used here too",
            "grpc:2:12: projectId: projectId has no effect on a batch machine: it belongs to an account of Paperspace",
            "grpc:13:12: modelType: modelType has no effect on a batch machine: models are not stored; what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
            "grpc:14:12: modelPath: modelPath has no effect on a batch machine: models are not stored; what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
        ],
    ),
    "roles": (
        {
            "name": "two-programs",
            "environment": {
                "data_refs": ["coco"],
                "resources": {"gpu": {"requests": 1}},
                "node_selector": {"gpu_type": "V100"},
                "replicas": {
                    "default_worker": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "V100"},
                    },
                    "default_ps": {
                        "resources": {"gpu": {"requests": 1}},
                        "node_selector": {"gpu_type": "V100"},
                    },
                    "n_workers": 1,
                    "n_ps": 2,
                },
            },
            "batch": {"nodes": 4},
            "framework": "tensorflow",
            "build": {"image": "someone/own:latest"},
            "tensorflow": {"version": "1"},
            "run": {
                "cmd": [
                    'export PS_CONFIG="$(printf %s "$TF_CONFIG" | base64 | tr -d "\\n" | tr +/ -_)" TYPE="$HPCDIST_ROLE" INDEX="$HPCDIST_INDEX"',
                    "cd src",
                    "case \"$HPCDIST_ROLE\" in\nps) exec bash -c '# it serves for ever\npython serve.py' ;;\n*) exec bash -c 'python train.py --label='\"'\"'{% raw %}{{{% endraw %} run }}'\"'\"' > \"log $INDEX.txt\"' ;;\nesac",
                ]
            },
        },
        [
            "roles:14:1: datasets: no dataset is fetched or mounted, and no key is kept; put the files on the machine; the site's `volumes` say where",
            "roles:4:20: workerMachineType: of a V100 machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "roles:6:14: workerCount: the first of 2 workers is TF_CONFIG's master, and not worker 0 too as on Gradient; worker 0 is the second; WORKER_HOSTS and PS_HOSTS are not set, TF_CONFIG says the same",
            "roles:3:18: workerContainer: its TensorFlow version is unknown, so TF_CONFIG has the form of version 1, as on Gradient; for TensorFlow 2 add `--set tensorflow.version=2`",
        ],
    ),
    "single": (
        {
            "name": "mnist",
            "environment": {"resources": {"gpu": {"requests": 8}}, "node_selector": {"gpu_type": "GV100"}},
            "build": {"image": "tensorflow/tensorflow:1.13.1-gpu-py3"},
            "run": {"cmd": ["cd /home/playground", "python mnist.py --out /artifacts/model"]},
        },
        [
            "single:4:14: machineType: of a GV100x8 machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "single:5:10: command: /artifacts is a directory of Gradient's machines; write $POLYAXON_RUN_OUTPUTS_PATH, or a path of the machine, instead",
            "single:7:19: workingDirectory: /home/playground is a directory of the image; write one that is relative to where the job is submitted",
            "single:2:12: projectId: projectId has no effect on a batch machine: it belongs to an account of Paperspace",
        ],
    ),
    "as_it_stands": (
        {
            "name": "horovodrun",
            "build": {"image": "someone/own:1"},
            "batch": {"nodes": 4},
            "framework": "mpi",
            "backend": "mpi",
            "environment": {
                "replicas": {
                    "n_workers": 4,
                    "default_worker": {"resources": {"cpu": {"requests": 12}, "memory": {"requests": 30720}}},
                }
            },
            "run": {
                "cmd": 'pip install -r requirements.txt && horovodrun -np 4 --hostfile "$HPCDIST_HOSTFILE" python train.py'
            },
        },
        [
            "as_it_stands:7:20: masterMachineType: masterMachineType has no effect on a batch machine: mpirun runs on the node of the first worker",
            "as_it_stands:8:16: masterCommand: this command, which does more than start processes, runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`",
        ],
    ),
    "script": (
        {
            "name": "script",
            "environment": {
                "data_refs": ["flowers"],
                "replicas": {
                    "n_workers": 2,
                    "default_worker": {
                        "resources": {"gpu": {"requests": 4}},
                        "node_selector": {"gpu_type": "A100"},
                    },
                },
            },
            "build": {"image": "someone/own:1"},
            "batch": {"nodes": 2},
            "framework": "mpi",
            "backend": "mpi",
            "run": {"cmd": './start.sh "$HPCDIST_HOSTFILE"'},
        },
        [
            "script:8:1: datasetName: no dataset is fetched or mounted, and no key is kept; put the files on the machine; the site's `volumes` say where",
            "script:9:1: datasetUri: datasetUri has no effect on a batch machine: no dataset is fetched or mounted",
            "script:7:16: workerCommand: workerCommand has no effect on a batch machine: the nodes of a job need no command that waits for mpirun",
            "script:4:20: workerMachineType: of a A100x4 machine the GPUs are requested; CPUs and memory are the site's share of them; for others write `resources` into the imported file",
            "script:6:16: masterCommand: this command, which does not begin with mpirun, runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`",
        ],
    ),
    "own_launch": (
        {
            "name": "cpus",
            "build": {"image": "someone/own:1"},
            "batch": {"nodes": 2},
            "framework": "mpi",
            "environment": {
                "resources": {"cpu": {"requests": 4}, "memory": {"requests": 8192}},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": {"resources": {"cpu": {"requests": 4}, "memory": {"requests": 8192}}},
                },
                "processes_per_replica": 4,
                "env_vars": {"OMP_NUM_THREADS": "1"},
            },
            "run": {
                "cmd": 'cd src && DATA="$HOME/data" python train.py --hosts "$HPCDIST_HOSTFILE" --title \'a "b" {% raw %}{{{% endraw %} c }}\''
            },
        },
        [
            "own_launch:6:20: masterMachineType: masterMachineType has no effect on a batch machine: mpirun runs on the node of the first worker",
            "own_launch:7:16: masterCommand: hpcdist starts the processes itself, so these words have no effect: --bind-to core, --tag-output",
            "own_launch:12:19: workingDirectory: workingDirectory has no effect on a batch machine: the job starts in the submit directory",
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
    assert {problem.severity for problem in imported.remarks} <= {"warning"}
    assert load_experiment(document).experiment.name == EXPECTED[name][0]["name"]


def test_origins_are_options() -> None:
    document = source.load(FILES / "horovod.yml")
    origins = importers.read(document.data).origins
    assert origins["environment", "replicas", "n_workers"] == ("workerCount",)
    assert origins["environment", "resources"] == ("workerMachineType",)
    assert origins["environment", "env_vars", "LR"] == ("experimentEnv", "LR")
    assert origins["run", "cmd"] == ("masterCommand",)


def test_braces_in_a_command_are_kept() -> None:
    loaded = load_experiment(source.load(FILES / "own_launch.yml"))
    assert loaded.experiment.run.command == (
        'cd src && DATA="$HOME/data" python train.py --hosts "$HPCDIST_HOSTFILE" --title \'a "b" {{ c }}\''
    )


@pytest.mark.parametrize(
    "text",
    [
        "run: {cmd: a}",
        "kind: MPIJob\napiVersion: kubeflow.org/v1",
        "kind: mpijob\nspec: {command: a}",
        "type: command\ncommand: a",
        "machineType: P4000",
        "jobs: {a: {uses: script@v1}}",
        "workflows: [a]",
        "worker: 1",
        "functions: []\nworkflows: {a: {steps: []}}",
    ],
)
def test_files_of_other_forms_are_not_recognised(text: str) -> None:
    assert not importers.registry.get("gradient").recognises(source.parse(text, "f.yml").data)


@pytest.mark.parametrize(
    ("text", "settings", "name", "command"),
    [
        ("machineType: C5\ncontainer: i\n", {"command": "sh x.sh && python y.py"}, "experiment", "sh x.sh && python y.py"),
        ("machineType: C5\ncontainer: i\nname: a\ncommand: null", {"command": "x", "workingDirectory": "d", "name": "b"}, "b", "cd d && x"),
        ("machineType: C5\ncontainer: i\ncommand: old", {"command": "new", "tags": "[t]"}, "experiment", "new"),
        ("type: single\nworker: {machine-type: C5, container: i}", {"worker.command": "x"}, "experiment", "x"),
    ],
)  # fmt: skip
def test_options_missing_in_the_file_are_set_on_the_command_line(
    text: str, settings: dict[str, str], name: str, command: str
) -> None:
    experiment = load_experiment(source.parse(text, "f.yml"), settings=list(settings.items())).experiment
    assert (experiment.name, experiment.run.command) == (name, command)
