# ruff: noqa: E501 - a message is compared as one line
"""Slips of public manifests, what they say of pods that are not there, and objects that are no such job."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from tests.importers.remarks import errors_of

MPI = """\
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: a}
spec:
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{image: i, command: COMMAND}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{image: i}]}}}
"""
TORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: t}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, command: COMMAND}]}}}
"""
MX = """\
apiVersion: kubeflow.org/v1
kind: MXJob
metadata: {name: m}
spec:
  mxReplicaSpecs:
    Scheduler: {replicas: 2, template: {spec: {containers: [{name: mxnet}]}}}
    Worker: {template: {spec: {containers: [{name: mxnet, command: [t]}]}}}
"""
TF = """\
apiVersion: kubeflow.org/v1
kind: TFJob
spec:
  tfReplicaSpecs:
    PS: {template: {spec: {containers: [{command: [t]}]}}}
    Worker: {template: {spec: {containers: [{command: [t]}]}}}
"""
NODES = "the first node is `$HPCDIST_HEAD_ADDRESS` in the command, and all are in `$HPCDIST_HOSTFILE`"
LAUNCHER = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"
WORKER = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (MPI.replace("COMMAND", "[horovodrun, -np, '2', min-np, '1', python, t.py]"),
         f"f.yml:6:58: {LAUNCHER}.command: min-np has no dashes, so horovodrun would start it as the program; write --min-np"),
        (MPI.replace("COMMAND", "[mpirun, a.out]").replace("Launcher: {", "Launcher: {replicas: 2, "),
         "f.yml:6:26: spec.mpiReplicaSpecs.Launcher.replicas: a job has one Launcher, not 2; write 1, or nothing"),
        (MPI.replace("COMMAND", "[mpirun, t, --master=a-worker-0.a-worker]"),
         f"f.yml:6:58: {LAUNCHER}.command: a-worker-0.a-worker is the name of a pod, and a batch job has none; {NODES}"),
        (MPI.replace("COMMAND", "[mpirun, t], env: [{name: X, value: y}, {name: MASTER_ADDR, value: a-worker-0}]"),
         f"f.yml:6:134: {LAUNCHER}.env[1].value: a-worker-0 is the name of a pod, and a batch job has none; {NODES}"),
        (MPI.replace("COMMAND", "[mpirun, t], env: [{name: PATH, value: '$PATH:a-worker-0'}]"),
         f"f.yml:6:106: {LAUNCHER}.env[0].value: a-worker-0 is the name of a pod, and a batch job has none; {NODES}"),
        (TORCH.replace("COMMAND", "[sh, -c, composer --master_addr t-worker-0 t.py]"),
         f"f.yml:6:74: {WORKER}.command: t-worker-0 is the name of a pod, and a batch job has none; {NODES}"),
        (TORCH.replace("COMMAND", "[torchrun, t.py, 'tcp://t-worker-0:1']"),
         f"f.yml:6:74: {WORKER}.command: t-worker-0 is the name of a pod, and a batch job has none; {NODES}"),
        (TORCH.replace("COMMAND", "[torchrun, --nnodes=3:4, t.py]"),
         f"f.yml:6:74: {WORKER}.command: torchrun waits for 3:4 replicas, but the job has 2; write --nnodes=2, or other `replicas`"),
        (TORCH.replace("COMMAND", "[torchrun, --max-restarts, two, t.py]"),
         f"f.yml:6:74: {WORKER}.command: 'two' is not a number of restarts; write --max-restarts=3"),
        (TORCH.replace("COMMAND", "[torchrun, --nnodes=all, t.py]"),
         f"f.yml:6:74: {WORKER}.command: 'all' is not a number of replicas; write --nnodes=2"),
        (MPI.replace("COMMAND", "[mpirun, -N, all, t]"),
         f"f.yml:6:58: {LAUNCHER}.command: 'all' is not a number of processes for each worker; write one such as 4"),
        (TORCH.replace("COMMAND", "[t]").replace("replicas: 2", "replicas: $NODES"),
         "f.yml:6:24: spec.pytorchReplicaSpecs.Worker.replicas: expected a whole number, got '$NODES'; fill it in first: `NODES=... envsubst < f.yml > filled.yml`"),
        (TORCH.replace("COMMAND", "[t], resources: {limits: {nvidia.com/gpu: '${GPUS}'}}"),
         f"f.yml:6:125: {WORKER}.resources.limits.nvidia.com/gpu: '${{GPUS}}' is not an amount; fill it in first: `GPUS=... envsubst < f.yml > filled.yml`"),
        (TORCH.replace("COMMAND", "[t], resources: {claims: [{name: imex-channel}, {name: gpus}]}"),
         f"f.yml:6:131: {WORKER}.resources.claims[1]: the file does not say what this claim requests; request nvidia.com/gpu and remove the claim"),
        (TORCH.replace("[{name: pytorch, command: COMMAND}]", "{name: pytorch, command: [t]}"),
         "f.yml:6:45: spec.pytorchReplicaSpecs.Worker.template.spec.containers: expected a list; write `containers: [{image: ..., command: [...]}]`"),
        (TORCH.replace("[{name: pytorch, command: COMMAND}]", "[]"),
         "f.yml:6:45: spec.pytorchReplicaSpecs.Worker.template.spec.containers: the pod has no container; write `template: {spec: {containers: [{image: ..., command: [...]}]}}`"),
        (MX, "f.yml:6:27: spec.mxReplicaSpecs.Scheduler.replicas: there can be one Scheduler, not 2; write 1"),
        ("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {trainer: {numNodes: 2}}\n",
         "f.yml:3:1: spec.runtimeRef: the runtime '' names the program, and is another object; write `trainer.command`"),
        ("apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nspec: {components: []}\n",
         "f.yml:2:7: kind: this is `kind: AppWrapper` of Kubernetes (workload.codeflare.dev), which is not run; write the job inside it to a separate file"),
        ("apiVersion: apps.kubedl.io/v1alpha1\nkind: Cron\nspec: {schedule: x}\n",
         "f.yml:2:7: kind: this is `kind: Cron` of Kubernetes (apps.kubedl.io), which is not run; write the job inside it to a separate file"),
        ("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: []}\n",
         "f.yml:2:7: kind: this is `kind: Job` of Kubernetes (batch.volcano.sh), which is not run; start it from `run.cmd` of a native experiment"),
        ("apiVersion: hpc.example.org/v1\nkind: MPIJob\nspec: {nodes: 1}\n",
         "f.yml:2:7: kind: this is hpc.example.org's MPIJob, not Kubeflow's; write `apiVersion: kubeflow.org/v1`"),
        ("apiVersion: v1\nspec: {image: x}\n",
         "f.yml:1:1: kind: it looks like an object of Kubernetes, without its `kind`; known: JAXJob, MPIJob, MXJob, PyTorchJob, TFJob, TfJob, TrainJob, XGBoostJob"),
    ],
)  # fmt: skip
def test_slips_are_refused(text: str, messages: str) -> None:
    assert errors_of(text) == [messages]


@pytest.mark.parametrize(
    "command",
    ["[cp, /data/t-worker-0/x, y]", "[echo, not-t-worker-0]", "[echo, t-workers]"],
)
def test_names_that_are_not_pods_are_accepted(command: str) -> None:
    assert errors_of(TORCH.replace("COMMAND", command)) == []


@pytest.mark.parametrize("command", ["true", "4", "[{a: 1}]", "{a: 1}"])
def test_a_command_of_a_worker_of_any_type_is_a_warning(command: str) -> None:
    text = MPI.replace("COMMAND", "[mpirun, t]").replace(
        "[{image: i}]", f"[{{image: i, command: {command}}}]"
    )
    remarks = importers.read(source.parse(text, "f.yml").data).remarks
    assert "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].command" in "".join(map(str, remarks))
