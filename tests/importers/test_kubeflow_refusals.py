# ruff: noqa: E501 - a file is written as one line
"""What Kubeflow's jobs say that cannot be kept, and files that are nearly such jobs: each has its sentence."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.kubeflow import IMPORTER
from tests.importers.remarks import cases, errors_of
from tests.wording import Wording

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


@pytest.mark.parametrize(
    "text",
    [
        MPI.replace("COMMAND", "[mpirun, -np, '6', python, t.py]"),
        MPI.replace("COMMAND", "[mpirun, -N, '3', -np, '8', python, t.py]"),
        MPI.replace("COMMAND", "[]"),
        MPI.replace("COMMAND", "[sh, -c, 'mpirun -H a-worker-0:4 x; y']"),
        MPI.replace("COMMAND", "[sh, -c, 'for h in $(/etc/mpi/discover_hosts.sh); do ssh $h x; done']"),
        MPI.replace("Launcher", "Launch"),
        MPI.replace("slotsPerWorker: 4", "slotsPerWorker: many").replace("COMMAND", "[mpirun, a.out]"),
        MPI.replace("nvidia.com/gpu", "google.com/tpu").replace("COMMAND", "[mpirun, -np, '8', a.out]"),
        TORCH.replace("MORE", ", initContainers: [{name: fetch, image: i, command: [git, clone, x]}]"),
        TORCH.replace("MORE", ", activeDeadlineSeconds: 60"),
        TORCH.replace("[{name", "[{name: db, image: redis}, {name").replace("MORE", ""),
        TORCH.replace("MORE", "").replace("t.py]", "t.py], lifecycle: {postStart: {exec: {command: [x]}}}"),
        TORCH.replace("MORE", "").replace(
            "t.py]", "t.py], env: [{name: IP, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]"
        ),
        TORCH.replace("MORE", "").replace("t.py]", "t.py], comand: [x]"),
        TORCH.replace("MORE", "").replace("Master: {", "Master: {replicas: 2, "),
        TORCH.replace("MORE", "").replace("t.py]", "'{{ x }} {% endraw %}']"),
        TF.replace("ROLE", "Boss").replace("COUNT", "1"),
        TF.replace("ROLE", "Worker").replace("COUNT", "0"),
        TF.replace("ROLE", "Worker").replace("COUNT", "-1"),
        HEAD.format(kind="JAXJob") + "  a: 1\n",
        HEAD.format(kind="MPIjob") + "  a: 1\n",
        HEAD.format(kind="TFJob") + "  a: 1\n",
        HEAD.format(kind="MXJob") + "  jobMode: MXTune\n  mxReplicaSpecs: {Tuner: {replicas: 1}}\n",
        HEAD.format(kind="MPIJob").replace("spec:\n", ""),
        "kind: TFJob\nspec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{command: [a]}]}}}}}\n",
        "apiVersion: kubeflow.org/v1\nspec: {a: 1}\n",
    ],
    ids=cases(MPI, TORCH, TF),
)
def test_errors(text: str, wording: Wording) -> None:
    wording(errors_of(text))


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


def test_dots_in_a_name_are_replaced(wording: Wording) -> None:
    text = TORCH.replace("MORE", "").replace("name: a}", "name: a.b}")
    found = importers.read(source.parse(text, "f.yml").data)
    assert found.data["name"] == "a-b"
    wording(map(str, found.remarks))
