"""Slips of public manifests, what they say of pods that are not there, and objects that are no such job."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.loading import load
from tests.importers.remarks import cases, errors_of, remarks_of
from tests.wording import Wording

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


@pytest.mark.parametrize(
    "text",
    [
        MPI.replace("COMMAND", "[horovodrun, -np, '2', min-np, '1', python, t.py]"),
        MPI.replace("COMMAND", "[mpirun, a.out]").replace("Launcher: {", "Launcher: {replicas: 2, "),
        MPI.replace("COMMAND", "[mpirun, t, --master=a-worker-0.a-worker]"),
        MPI.replace(
            "COMMAND", "[mpirun, t], env: [{name: X, value: y}, {name: MASTER_ADDR, value: a-worker-0}]"
        ),
        MPI.replace("COMMAND", "[mpirun, t], env: [{name: PATH, value: '$PATH:a-worker-0'}]"),
        TORCH.replace("COMMAND", "[sh, -c, composer --master_addr t-worker-0 t.py]"),
        TORCH.replace("COMMAND", "[torchrun, t.py, 'tcp://t-worker-0:1']"),
        TORCH.replace("COMMAND", "[torchrun, --nnodes=3:4, t.py]"),
        TORCH.replace("COMMAND", "[torchrun, --max-restarts, two, t.py]"),
        TORCH.replace("COMMAND", "[torchrun, --nnodes=all, t.py]"),
        MPI.replace("COMMAND", "[mpirun, -N, all, t]"),
        TORCH.replace("COMMAND", "[t]").replace("replicas: 2", "replicas: $NODES"),
        TORCH.replace("COMMAND", "[t], resources: {limits: {nvidia.com/gpu: '${GPUS}'}}"),
        TORCH.replace("COMMAND", "[t, $D/t], resources: {limits: {cpu: '${A}', memory: '${B}Gi'}}"),
        TORCH.replace("COMMAND", "[t], resources: {limits: {nvidia.com/gpu: '${GPUS:-8}'}}"),
        TORCH.replace("COMMAND", "[t], resources: {claims: [{name: imex-channel}, {name: gpus}]}"),
        TORCH.replace("[{name: pytorch, command: COMMAND}]", "{name: pytorch, command: [t]}"),
        TORCH.replace("[{name: pytorch, command: COMMAND}]", "[]"),
        MX,
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {trainer: {numNodes: 2}}\n",
        "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nspec: {components: []}\n",
        "apiVersion: apps.kubedl.io/v1alpha1\nkind: Cron\nspec: {schedule: x}\n",
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: []}\n",
        "apiVersion: hpc.example.org/v1\nkind: MPIJob\nspec: {nodes: 1}\n",
        "apiVersion: v1\nspec: {image: x}\n",
    ],
    ids=cases(MPI, TORCH, MX, TF),
)
def test_slips_are_refused(text: str, wording: Wording) -> None:
    wording(errors_of(text))


@pytest.mark.parametrize(
    "command",
    ["[cp, /data/t-worker-0/x, y]", "[echo, not-t-worker-0]", "[echo, t-workers]"],
)
def test_names_that_are_not_pods_are_accepted(command: str) -> None:
    assert errors_of(TORCH.replace("COMMAND", command)) == []


@pytest.mark.parametrize("command", ["true", "4", "[{a: 1}]", "{a: 1}"])
def test_a_command_of_a_worker_of_any_type_is_a_warning(command: str, wording: Wording) -> None:
    text = MPI.replace("COMMAND", "[mpirun, t]").replace(
        "[{image: i}]", f"[{{image: i, command: {command}}}]"
    )
    wording(remarks_of(text))


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/rdma-vf", "nvidia.com/sriov-rdma-vf", "nvidia.com/rdma_ib", "nvidia.com/rdma0",
     "nvidia.com/mlnx-vf", "nvidia.com/ib-sriov", "nvidia.com/ib0", "nvidia.com/infiniband", "nvidia.com/cx7",
     "rdma/hca", "openshift.io/mlnxnics", "nvidia.com/resibp24s0", "networking.gke.io.networks/rdma-0"],
)  # fmt: skip
def test_a_device_of_the_network_has_no_effect(name: str) -> None:
    text = TORCH.replace("COMMAND", f"[t], resources: {{limits: {{{name}: 1}}}}")
    assert [line for line in remarks_of(text) if name in line and "no effect" not in line] == []
    assert errors_of(text) == []


@pytest.mark.parametrize("name", ["nvidia.com/vf", "example.com/ibex", "google.com/tpu"])
def test_another_device_is_refused(name: str) -> None:
    [error] = errors_of(TORCH.replace("COMMAND", f"[t], resources: {{limits: {{{name}: 1}}}}"))
    assert f"batch systems have no resource {name!r}" in error


def test_the_hints_about_variables_fill_them_in() -> None:
    text = TORCH.replace("COMMAND", "[t, $D/t], resources: {limits: {cpu: '${A}', memory: '${B:-1}Gi'}}")
    text = text.replace("replicas: 2", "replicas: $N")
    found = load.to_native(source.parse(text, "f.yml"), params={"A": "4", "B": "2", "N": "3"})
    assert (found.document.data, [str(one) for one in found.problems]) == (
        {
            "name": "t",
            "framework": "pytorch",
            "environment": {
                "resources": {"cpu": {"limits": 4}, "memory": {"limits": 2048}},
                "replicas": {
                    "n_workers": 2,
                    "default_worker": {"resources": {"cpu": {"limits": 4}, "memory": {"limits": 2048}}},
                },
            },
            "run": {"cmd": "t '$D/t'"},
        },
        [],
    )


def test_a_param_of_the_file_is_no_variable_of_a_shell() -> None:
    text = "type: command\ncommand: x ${{inputs.lr}} $lr $D\ninputs: {lr: 1}\nenvironment: {image: a}\n"
    found = load.to_native(source.parse(text, "f.yml"), params={"lr": "2", "D": "e"})
    assert found.document.data["params"] == {"lr": 2}
    assert found.document.data["run"]["cmd"].rpartition("\n")[2] == "x {{ lr }} $lr e"
    [problem] = load.to_native(source.parse(text, "f.yml"), params={"E": "1"}).problems
    assert "there is no param 'E'" in problem.message
