# ruff: noqa: E501 - a message is compared as one line
"""What Kubeflow's jobs say that cannot be kept, and files that are nearly such jobs: each has its sentence."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.importers.kubeflow import IMPORTER
from tests.importers.remarks import errors_of

HEAD = "apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n"
MPI = (
    HEAD.format(kind="MPIJob")
    + """\
  slotsPerWorker: 4
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{image: i, command: COMMAND}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}}}
"""
)
TORCH = (
    HEAD.format(kind="PyTorchJob")
    + """\
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, command: [python, t.py]}]MORE}}}
"""
)
TF = (
    HEAD.format(kind="TFJob")
    + """\
  tfReplicaSpecs:
    ROLE: {replicas: COUNT, template: {spec: {containers: [{name: tensorflow, image: i, args: [--lr, "1"]}]}}}
"""
)
C = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command"
POD = "spec.pytorchReplicaSpecs.Master.template.spec"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            MPI.replace("COMMAND", "[mpirun, -np, '6', python, t.py]"),
            [
                "f.yml:7:58: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: mpirun is to start 6 processes; 2 workers with 4 each are 8; write -np 8, or other `replicas` or `slotsPerWorker`"
            ],
        ),
        (
            MPI.replace("COMMAND", "[mpirun, -N, '3', -np, '8', python, t.py]"),
            [
                "f.yml:7:58: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: mpirun is to start 8 processes; 2 workers with 3 each are 6; write -np 6, or other `replicas` or `slotsPerWorker`"
            ],
        ),
        (
            MPI.replace("COMMAND", "[]"),
            [
                "f.yml:7:48: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].image: the program is in the image, and this file does not name it; write it as `command: [python, ...]`"
            ],
        ),
        (
            MPI.replace("COMMAND", "[sh, -c, 'mpirun -H a-worker-0:4 x; y']"),
            [
                "f.yml:7:58: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: a-worker-0 is the name of a pod, and a batch job has none; the first node is `$HPCDIST_HEAD_ADDRESS` in the command, and all are in `$HPCDIST_HOSTFILE`"
            ],
        ),
        (
            MPI.replace("COMMAND", "[sh, -c, 'for h in $(/etc/mpi/discover_hosts.sh); do ssh $h x; done']"),
            [
                "f.yml:7:58: spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command: there is no /etc/mpi/discover_hosts.sh; read the hosts from `$HPCDIST_HOSTFILE`"
            ],
        ),
        (
            MPI.replace("Launcher", "Launch"),
            [
                "f.yml:7:5: spec.mpiReplicaSpecs.Launch: unknown replica type 'Launch'; did you mean 'launcher'?",
                "f.yml:6:3: spec.mpiReplicaSpecs: Launcher is missing, so the file does not say what to run; write `Launcher: {template: ...}` with the mpirun",
            ],
        ),
        (
            MPI.replace("slotsPerWorker: 4", "slotsPerWorker: many").replace("COMMAND", "[mpirun, a.out]"),
            ["f.yml:5:19: spec.slotsPerWorker: expected a whole number, got 'many'; write one such as 2"],
        ),
        (
            MPI.replace("nvidia.com/gpu", "google.com/tpu").replace("COMMAND", "[mpirun, -np, '8', a.out]"),
            [
                "f.yml:8:106: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits.google.com/tpu: batch systems have no resource 'google.com/tpu'; remove it, or request nvidia.com/gpu"
            ],
        ),
        (
            TORCH.replace("MORE", ", initContainers: [{name: fetch, image: i, command: [git, clone, x]}]"),
            [
                "f.yml:6:105: spec.pytorchReplicaSpecs.Master.template.spec.initContainers[0]: what this init container prepares would be missing; do it beforehand, or in front of the command, and remove it here"
            ],
        ),
        (
            TORCH.replace("MORE", ", activeDeadlineSeconds: 60"),
            [
                "f.yml:6:111: spec.pytorchReplicaSpecs.Master.template.spec.activeDeadlineSeconds: a job has one time limit; write it under `runPolicy`, or `batch: {walltime: ...}`"
            ],
        ),
        (
            TORCH.replace("[{name", "[{name: db, image: redis}, {name").replace("MORE", ""),
            [
                "f.yml:6:45: spec.pytorchReplicaSpecs.Master.template.spec.containers[0]: the container 'db' cannot run beside the program; remove it, or start what it does in the command of the main container"
            ],
        ),
        (
            TORCH.replace("MORE", "").replace(
                "t.py]", "t.py], lifecycle: {postStart: {exec: {command: [x]}}}"
            ),
            [
                "f.yml:6:86: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].lifecycle: lifecycle hooks are not run; write it in the command"
            ],
        ),
        (
            TORCH.replace("MORE", "").replace(
                "t.py]", "t.py], env: [{name: IP, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]"
            ),
            [
                "f.yml:6:103: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env[0].valueFrom: IP would be set by the pod; write its `value`"
            ],
        ),
        (
            TORCH.replace("MORE", "").replace("t.py]", "t.py], comand: [x]"),
            [
                "f.yml:6:86: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].comand: unknown key 'spec.pytorchReplicaSpecs.Master.template.spec.containers[0].comand'; remove it"
            ],
        ),
        (
            TORCH.replace("MORE", "").replace("Master: {", "Master: {replicas: 2, "),
            ["f.yml:6:24: spec.pytorchReplicaSpecs.Master.replicas: there can be one Master, not 2; write 1"],
        ),
        (
            TORCH.replace("MORE", "").replace("t.py]", "'{{ x }} {% endraw %}']"),
            [
                "f.yml:6:61: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].command: a text with both {{ and endraw cannot be converted; write it in a file"
            ],
        ),
        (
            TF.replace("ROLE", "Boss").replace("COUNT", "1"),
            [
                "f.yml:6:5: spec.tfReplicaSpecs.Boss: unknown replica type 'Boss'; known: chief, evaluator, master, ps, worker"
            ],
        ),
        (
            TF.replace("ROLE", "Worker").replace("COUNT", "0"),
            ["f.yml:5:3: spec.tfReplicaSpecs: all replica counts are 0; write `replicas: 1` or more"],
        ),
        (
            TF.replace("ROLE", "Worker").replace("COUNT", "-1"),
            [
                "f.yml:6:24: spec.tfReplicaSpecs.Worker.replicas: expected a whole number, got -1; write one such as 2",
            ],
        ),
        (
            HEAD.format(kind="JAXJob") + "  a: 1\n",
            ["f.yml:4:1: spec: the job has no replicas; write `jaxReplicaSpecs: {Worker: ...}`"],
        ),
        (
            HEAD.format(kind="MPIjob") + "  a: 1\n",
            ["f.yml:2:7: kind: jobs of kind 'MPIjob' are not run; did you mean 'MPIJob'?"],
        ),
        (
            HEAD.format(kind="TFJob") + "  a: 1\n",
            ["f.yml:4:1: spec: the job has no replicas; write `tfReplicaSpecs: {Chief: ...}`"],
        ),
        (
            HEAD.format(kind="MXJob") + "  jobMode: MXTune\n  mxReplicaSpecs: {Tuner: {replicas: 1}}\n",
            [
                "f.yml:5:12: spec.jobMode: jobs of the mode 'MXTune' are not run; start the tuner's own tracker and servers from `run.cmd` of a native experiment",
                "f.yml:6:20: spec.mxReplicaSpecs.Tuner: unknown replica type 'Tuner'; known: scheduler, server, worker",
            ],
        ),
        (
            HEAD.format(kind="MPIJob").replace("spec:\n", ""),
            [
                "f.yml:1:1: spec: the file does not say what to run; write `spec`, with a container and its command"
            ],
        ),
        (
            "kind: TFJob\nspec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{command: [a]}]}}}}}\n",
            [
                "f.yml:1:1: apiVersion: it looks like Kubeflow's TFJob, without its `apiVersion`; write `apiVersion: kubeflow.org/v1`"
            ],
        ),
        (
            "apiVersion: kubeflow.org/v1\nspec: {a: 1}\n",
            [
                "f.yml:1:1: kind: it looks like a job of Kubeflow, without its `kind`; known: JAXJob, MPIJob, MXJob, PyTorchJob, TFJob, TfJob, TrainJob, XGBoostJob"
            ],
        ),
    ],
)
def test_errors(text: str, messages: list[str]) -> None:
    assert errors_of(text) == messages


@pytest.mark.parametrize(
    ("head", "its"),
    [
        ("apiVersion: kubeflow.org/v2beta1", True),
        ("apiVersion: trainer.kubeflow.org/v1alpha1", True),
        ("apiVersion: mlkube.io/v1beta1", True),
        ("kind: MPIJob", True),
        ("kind: mpijob", False),
        ("apiVersion: batch/v1", False),
        ("apiVersion: kubeflow.organic/v1", False),
        ("apiVersion: {kubeflow.org: 1}", False),
        ("run: {cmd: a}", False),
    ],
)
def test_files_of_kubeflow_are_recognised(head: str, its: bool) -> None:  # noqa: FBT001
    assert IMPORTER.recognises(source.parse(head, "f.yml").data) is its


def test_dots_in_a_name_are_replaced() -> None:
    text = TORCH.replace("MORE", "").replace("name: a}", "name: a.b}")
    found = importers.read(source.parse(text, "f.yml").data)
    assert found.data["name"] == "a-b"
    assert [str(problem) for problem in found.remarks] == [
        "f.yml:3:18: metadata.name: the job is named 'a-b': a job name has no dots"
    ]
