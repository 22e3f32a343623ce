# ruff: noqa: E501 - a message is compared as one line
"""TFJobs, PyTorchJobs and MXJobs shaped like public ones; what comes out is compared as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.loading.load import load_experiment

FOLDER = Path(__file__).parent / "kubeflow"

NATIVE = {
    "tf_v1": {
        "name": "mnist",
        "framework": "tensorflow",
        "tensorflow": {"ends_with": "workers"},
        "environment": {
            "resources": {"cpu": {"requests": 0.5}, "memory": {"requests": 3815}, "gpu": {"limits": 1}},
            "replicas": {
                "default_worker": {
                    "resources": {
                        "cpu": {"requests": 0.5},
                        "memory": {"requests": 3815},
                        "gpu": {"limits": 1},
                    }
                },
                "n_workers": 3,
                "n_ps": 2,
                "evaluator": {},
            },
            "env_vars": {"EPOCHS": "3"},
        },
        "build": {"image": "mnist:2"},
        "run": {
            "cmd": "case $HPCDIST_ROLE in\n"
            "master | worker)\n"
            "cd /app && python train.py '--name=a b'\n"
            ";;\n"
            "ps)\n"
            "cd /app && { export KIND=server\n"
            "exec python ps.py\n"
            "}\n"
            ";;\n"
            "evaluator)\n"
            "python eval.py\n"
            ";;\n"
            "esac"
        },
    },
    "tf_v1alpha1": {
        "name": "cnn",
        "framework": "tensorflow",
        "tensorflow": {"version": "1", "ends_with": "master"},
        "environment": {"replicas": {"n_workers": 2, "n_ps": 1}},
        "build": {"image": "tf:1.4"},
        "run": {"cmd": "cd /opt/cnn && python cnn.py --gpus=0"},
    },
    "pytorch_ddp": {
        "name": "ddp",
        "framework": "pytorch",
        "environment": {
            "resources": {"gpu": {"limits": 1}},
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 1}}}, "n_workers": 3},
        },
        "build": {"image": "torch:2"},
        "run": {"cmd": "python3 /opt/mnist.py --epochs=1 --addr=\"$MASTER_ADDR\" '--cost=$5'"},
    },
    "pytorch_launch": {
        "name": "old-launch",
        "framework": "pytorch",
        "environment": {
            "resources": {"gpu": {"limits": 2}},
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 2}}}, "n_workers": 1},
        },
        "batch": {"nodes": 2},
        "build": {"image": "t"},
        "run": {
            "cmd": "case $HPCDIST_ROLE in\n"
            "master)\n"
            'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"\n'
            'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"\n'
            "export PET_NPROC_PER_NODE=auto\n"
            "python -m torch.distributed.launch --nproc_per_node=2 --nnodes=2 "
            "--node_rank=0 train.py\n"
            ";;\n"
            "worker)\n"
            'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"\n'
            'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"\n'
            "export PET_NPROC_PER_NODE=auto\n"
            "python -m torch.distributed.launch --nproc_per_node=2 --nnodes=2 "
            "--node_rank=1 train.py\n"
            ";;\n"
            "esac"
        },
    },
    "pytorch_torchrun": {
        "name": "elastic",
        "framework": "pytorch",
        "pytorch": {"launch": "torchrun", "max_restarts": 10},
        "run": {"cmd": "python -u -m imagenet --arch=resnet18"},
        "environment": {
            "resources": {"gpu": {"limits": 4}, "cpu": {"limits": 8}},
            "replicas": {
                "default_worker": {"resources": {"gpu": {"limits": 4}, "cpu": {"limits": 8}}},
                "n_workers": 1,
            },
        },
        "batch": {"nodes": 2},
        "build": {"image": "torch:2"},
    },
    "mx": {
        "name": "kv",
        "framework": "mxnet",
        "environment": {
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 1}}}, "n_workers": 2, "n_ps": 1}
        },
        "build": {"image": "mx"},
        "run": {"cmd": "python train.py --kv-store dist_sync"},
    },
}

REMARKS: dict[str, list[str]] = {
    "tf_v1": [
        "k.yml:3:25: metadata.labels: labels has no effect on a batch machine: they are for Kubernetes; the partition is `batch.partition`",
        "k.yml:8:22: spec.tfReplicaSpecs.chief.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:20:15: spec.tfReplicaSpecs.chief.template.spec.containers[0].ports: ports has no effect on a batch machine: the nodes of a job reach each other on all ports",
        "k.yml:19:19: spec.tfReplicaSpecs.chief.template.spec.containers[0].env[1].valueFrom: TOKEN comes from Kubernetes; export TOKEN in the shell that submits the job; the job inherits its variables",
        "k.yml:20:15: spec.tfReplicaSpecs.Worker.template.spec.containers[0].ports: ports has no effect on a batch machine: the nodes of a job reach each other on all ports",
        "k.yml:19:19: spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[1].valueFrom: TOKEN comes from Kubernetes; export TOKEN in the shell that submits the job; the job inherits its variables",
    ],
    "tf_v1alpha1": [
        "k.yml:5:3: spec.tensorboard: tensorboard has no effect on a batch machine: run tensorboard on the login node",
        "k.yml:8:15: spec.replicaSpecs[0].tfPort: tfPort has no effect on a batch machine: every task gets its port and its servers from the job",
        "k.yml:14:26: spec.replicaSpecs[0].template.spec.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:13:51: spec.replicaSpecs[0].template.spec.containers[0].args: the image's own entrypoint is not started: `args` is used as the whole command; write them as `command`",
        "k.yml:14:26: spec.replicaSpecs[1].template.spec.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:13:51: spec.replicaSpecs[1].template.spec.containers[0].args: the image's own entrypoint is not started: `args` is used as the whole command; write them as `command`",
        "k.yml:14:26: spec.replicaSpecs[2].template.spec.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:13:51: spec.replicaSpecs[2].template.spec.containers[0].args: the image's own entrypoint is not started: `args` is used as the whole command; write them as `command`",
    ],
    "pytorch_ddp": [
        "k.yml:8:22: spec.pytorchReplicaSpecs.Master.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:11:28: spec.pytorchReplicaSpecs.Master.template.spec.initContainers[0]: this init container has no effect: it waits for other replicas, and all start together",
        "k.yml:13:15: spec.pytorchReplicaSpecs.Master.template.spec.containers[0]: the container 'istio-proxy' is not started: only the program itself is",
        "k.yml:18:65: spec.pytorchReplicaSpecs.Master.template.spec.containers[1].resources.limits.rdma/hca: rdma/hca has no effect on a batch machine: the site file configures network and disks",
        "k.yml:19:42: spec.pytorchReplicaSpecs.Worker.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:11:28: spec.pytorchReplicaSpecs.Worker.template.spec.initContainers[0]: this init container has no effect: it waits for other replicas, and all start together",
        "k.yml:13:15: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]: the container 'istio-proxy' is not started: only the program itself is",
        "k.yml:18:65: spec.pytorchReplicaSpecs.Worker.template.spec.containers[1].resources.limits.rdma/hca: rdma/hca has no effect on a batch machine: the site file configures network and disks",
    ],
    "pytorch_launch": [],
    "pytorch_torchrun": [
        "k.yml:6:32: spec.elasticPolicy.rdzvBackend: rdzvBackend has no effect on a batch machine: hpcdist configures the rendezvous of torchrun",
        "k.yml:6:51: spec.elasticPolicy.minReplicas: minReplicas has no effect on a batch machine: the number of replicas of a job is fixed",
        "k.yml:6:67: spec.elasticPolicy.maxReplicas: maxReplicas has no effect on a batch machine: the number of replicas of a job is fixed",
        "k.yml:6:87: spec.elasticPolicy.metrics: metrics has no effect on a batch machine: the number of replicas of a job is fixed",
        "k.yml:16:15: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].command: --nnodes=1:3 has no effect: the number of replicas of a job is fixed",
    ],
    "mx": [
        "k.yml:7:5: spec.mxReplicaSpecs.Scheduler: it names no program, so the worker's program is started; MXNet selects its role",
        "k.yml:8:5: spec.mxReplicaSpecs.Server: it names no program, so the worker's program is started; MXNet selects its role",
    ],
}


@pytest.mark.parametrize("name", NATIVE)
def test_file(name: str) -> None:
    document = source.parse((FOLDER / f"{name}.yml").read_text(), "k.yml")
    before = repr(document.data)
    found = importers.read(document.data)
    assert repr(document.data) == before
    assert found.data == NATIVE[name]
    assert [str(problem) for problem in found.remarks] == REMARKS[name]
    assert load_experiment(document).experiment.run.command
