# ruff: noqa: E501 - a message is compared as one line
"""MPIJobs shaped like public ones; what comes out is compared as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.loading.load import load_experiment

FOLDER = Path(__file__).parent / "kubeflow"

NATIVE = {
    "mpi_deepspeed": {
        "name": "ds",
        "framework": "deepspeed",
        "backend": "mpi",
        "environment": {
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 8}}}, "n_workers": 2}
        },
        "run": {"cmd": 'deepspeed --hostfile="$HPCDIST_HOSTFILE" train.py --epochs 2'},
        "build": {"image": "ds"},
    },
    "mpi_fabric": {
        "name": "allreduce",
        "framework": "mpi",
        "environment": {
            "resources": {"gpu": {"limits": 4}},
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 4}}}, "n_workers": 1},
            "env_vars": {"LOGS": "/logs/allreduce-worker-logs"},
        },
        "run": {
            "cmd": 'export PATH="${PATH}:/opt/my tests/bin"\n'
            'export LD_LIBRARY_PATH="/opt/lib:${LD_LIBRARY_PATH}"\n'
            "all_reduce_perf -g 1"
        },
        "build": {"image": "tests"},
    },
    "mpi_horovodrun": {
        "name": "elastic",
        "framework": "horovod",
        "horovod": {"elastic": {"min_np": 1, "max_np": 2}, "fusion_threshold_mb": 32, "stall_check": False},
        "environment": {
            "resources": {"cpu": {"limits": 2}},
            "replicas": {"default_worker": {"resources": {"cpu": {"limits": 2}}}, "n_workers": 1},
        },
        "run": {"cmd": "python elastic.py"},
        "build": {"image": "hvd"},
    },
    "mpi_launcher_as_worker": {
        "name": "pi",
        "framework": "mpi",
        "environment": {
            "resources": {"cpu": {"requests": 0.5}},
            "replicas": {
                "default_worker": {"resources": {"cpu": {"requests": 1}, "memory": {"requests": 512}}},
                "n_workers": 2,
            },
        },
        "run": {"cmd": "/home/mpiuser/pi"},
        "build": {"image": "pi"},
    },
    "mpi_v1": {
        "name": "resnet-horovod",
        "batch": {"walltime": "02:00:00"},
        "environment": {
            "max_restarts": 2,
            "resources": {"cpu": {"limits": 16}, "memory": {"limits": 65536}, "gpu": {"limits": 4}},
            "node_selector": {"pool": "gpu"},
            "replicas": {
                "default_worker": {
                    "resources": {"cpu": {"limits": 16}, "memory": {"limits": 65536}, "gpu": {"limits": 4}},
                    "node_selector": {"pool": "gpu"},
                },
                "n_workers": 1,
            },
            "env_vars": {"DATA": "/data/imagenet", "NCCL_DEBUG": "INFO", "OMPI_MCA_pml": "ob1"},
        },
        "framework": "mpi",
        "run": {
            "cmd": "{% raw %}python train.py '--title={{ two words }}' --data=/data/imagenet{% endraw %}"
        },
        "build": {"image": "registry.example.org/horovod:0.28"},
    },
    "mpi_v1alpha1": {
        "name": "old",
        "framework": "mpi",
        "environment": {
            "resources": {"gpu": {"limits": 8}},
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 8}}}, "n_workers": 1},
        },
        "run": {"cmd": "python bench.py --model resnet50"},
        "build": {"image": "bench:1"},
    },
    "mpi_v2beta1_script": {
        "name": "nccl-test",
        "framework": "mpi",
        "backend": "mpi",
        "environment": {
            "replicas": {"default_worker": {"resources": {"gpu": {"limits": 8}}}, "n_workers": 2},
            "env_vars": {"NP": "16"},
        },
        "run": {
            "cmd": 'export OMPI_MCA_orte_default_hostfile="$HPCDIST_HOSTFILE"\n'
            "set -xe\n"
            'wc -l "$HPCDIST_HOSTFILE"\n'
            "mpirun -np ${NP} -bind-to none all_reduce_perf -b 8 -e 16G"
        },
        "build": {"image": "nccl-tests"},
    },
}

REMARKS: dict[str, list[str]] = {
    "mpi_deepspeed": [
        "k.yml:8:59: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: this command runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`",
    ],
    "mpi_fabric": [
        "k.yml:9:24: spec.mpiReplicaSpecs.Launcher.imagePullPolicy: imagePullPolicy has no effect on a batch machine: the site's container runtime gets images",
        "k.yml:12:28: spec.mpiReplicaSpecs.Launcher.template.spec.imagePullPolicy: imagePullPolicy has no effect on a batch machine: the site's container runtime gets images",
        "k.yml:14:15: spec.mpiReplicaSpecs.Launcher.template.spec.initContainers[0]: this init container has no effect: it waits for other replicas, and all start together",
        "k.yml:37:19: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests.cpu: no amount is given, so none is requested; write a number",
        "k.yml:34:42: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits.openshift.io/mlnxnics: openshift.io/mlnxnics has no effect on a batch machine: the site file configures network and disks",
        "k.yml:35:54: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits.networking.gke.io.networks/rdma-0: networking.gke.io.networks/rdma-0 has no effect on a batch machine: the site file configures network and disks",
        "k.yml:6:19: spec.slotsPerWorker: slotsPerWorker has no effect: mpirun starts 4 on each of the workers",
        "k.yml:20:39: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value: PATH in it is expanded in the job; Kubernetes would pass '$PATH:/opt/my tests/bin' on unchanged",
        "k.yml:21:50: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[1].value: LD_LIBRARY_PATH in it is expanded in the job; Kubernetes would pass '/opt/lib:${LD_LIBRARY_PATH}' on unchanged",
        "k.yml:19:15: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env: OMPI_MCA_plm_rsh_agent=/usr/bin/ssh has no effect: the batch system starts the processes",
    ],
    "mpi_horovodrun": [
        "k.yml:8:60: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: max-np 3 has no effect: the job has 2 processes, and gets no more",
    ],
    "mpi_launcher_as_worker": [
        "k.yml:6:22: spec.mpiImplementation: mpiImplementation has no effect on a batch machine: the site's launcher brings its own MPI",
        "k.yml:10:59: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].args: the image's own entrypoint is not started: `args` is used as the whole command; write them as `command`",
        "k.yml:13:59: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].args: 'args' of a worker has no effect: the batch system starts the tasks on its nodes",
    ],
    "mpi_v1": [
        "k.yml:6:14: metadata.namespace: namespace has no effect on a batch machine: a batch machine has no namespaces",
        "k.yml:10:21: spec.runPolicy.cleanPodPolicy: cleanPodPolicy has no effect on a batch machine: all tasks end with the job",
        "k.yml:55:11: spec.mpiReplicaSpecs.Worker.template.spec.tolerations: tolerations has no effect on a batch machine: the batch system chooses the nodes; select them with `batch.partition` and `batch.constraint`",
        "k.yml:66:15: spec.mpiReplicaSpecs.Worker.template.spec.volumes[0]: the volume 'data' is not mounted at /data; put its files where the nodes can read them, and write that path in the command",
        "k.yml:68:15: spec.mpiReplicaSpecs.Worker.template.spec.volumes[1]: the volume 'shm' has no effect: each node has its own /dev/shm",
        "k.yml:59:15: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].command: 'command' of a worker has no effect: the batch system starts the tasks on its nodes",
        "k.yml:48:15: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].resources: what the Launcher needs has no effect: it is started on the first worker's node",
        "k.yml:21:15: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: hpcdist starts the processes itself, so these words have no effect: --allow-run-as-root, -bind-to none",
        "k.yml:46:15: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env: OMPI_MCA_btl_tcp_if_include=eth0 has no effect: it names an interface of pods, and the site file names the site's",
    ],
    "mpi_v1alpha1": [
        "k.yml:13:11: spec.template.spec.containers[0].command: hpcdist starts the processes itself, so these words have no effect: --tag-output",
    ],
    "mpi_v2beta1_script": [
        "k.yml:8:22: spec.mpiImplementation: mpiImplementation has no effect on a batch machine: the site's launcher brings its own MPI",
        "k.yml:7:21: spec.sshAuthMountPath: sshAuthMountPath has no effect on a batch machine: the batch system starts the tasks on all nodes",
        "k.yml:14:31: spec.mpiReplicaSpecs.Launcher.template.spec.enableServiceLinks: enableServiceLinks has no effect on a batch machine: a job's nodes reach each other by their own names",
        "k.yml:13:26: spec.mpiReplicaSpecs.Launcher.template.spec.restartPolicy: restartPolicy has no effect on a batch machine: a task that fails ends the job; `environment: {max_restarts: 3}` restarts the whole job",
        "k.yml:29:9: spec.mpiReplicaSpecs.Worker.template.metadata: metadata has no effect on a batch machine: labels and annotations of pods are for Kubernetes",
        "k.yml:20:15: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: this command, which does more than start processes, runs once, on the first node; its hosts are in `$HPCDIST_HOSTFILE`",
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
