"""Sizes of Azure's machines become requests of GPUs and their type, or of CPUs and memory."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.azure.layout import machine
from hpcdist.importers.job import CloudMachine
from tests.wording import Wording

from .remarks import cases, remarks_of


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("Standard_NC6", CloudMachine(1, "K80")),
        ("Standard_NC12s_v3", CloudMachine(2, "V100")),
        ("Singularity.NC6_v3", CloudMachine(1, "V100")),
        ("Standard_NC256ds_xl_RTXPRO6000BSE_v6", CloudMachine(2, "RTXPRO6000")),
        ("Standard_NCC40ads_H100_v5", CloudMachine(1, "H100")),
        ("Standard_ND128isrG5_GB300_v6", CloudMachine(4, "GB300")),
        ("Standard_NV6", CloudMachine(1, "M60")),
        ("Standard_NV24", CloudMachine(4, "M60")),
        ("Standard_NV24s_v3", CloudMachine(2, "M60")),
        ("Standard_NV48s_v3", CloudMachine(4, "M60")),
        ("Standard_NV6ads_A10_v5", CloudMachine(1, "A10")),
        ("Standard_NV16as_v4", CloudMachine(1, "MI25")),
        ("Standard_NC24rs_v3", CloudMachine(4, "V100")),
        ("STANDARD_NC64AS_T4_V3", CloudMachine(4, "T4")),
        ("Standard_NC24ads_A100_v4", CloudMachine(1, "A100-80G")),
        ("Standard_NC96ads_A100_v4", CloudMachine(4, "A100-80G")),
        ("Standard_NC80adis_H100_v5", CloudMachine(2, "H100")),
        ("Standard_ND40rs_v2", CloudMachine(8, "V100-32G")),
        ("Singularity.ND40rs_v2", CloudMachine(8, "V100-32G")),
        ("Standard_ND96asr_v4", CloudMachine(8, "A100")),
        ("Standard_ND96amsr_A100_v4", CloudMachine(8, "A100-80G")),
        ("Standard_ND96isr_H100_v5", CloudMachine(8, "H100")),
        ("Standard_ND96isr_H200_v5", CloudMachine(8, "H200")),
        ("Standard_ND96isr_MI300X_v5", CloudMachine(8, "MI300X")),
        ("Standard_ND128isr_NDR_GB200_v6", CloudMachine(4, "GB200")),
        ("Standard_ND24rs", CloudMachine(4, "P40")),
        ("Standard_NV12s_v3", CloudMachine(1, "M60")),
        ("Standard_NV72ads_A10_v5", CloudMachine(2, "A10")),
        ("Standard_D13_v2", CloudMachine(cpus=8, gib=56)),
        ("Standard_E4ds_v4", CloudMachine(cpus=4, gib=32)),
        ("STANDARD_DS3_V2", CloudMachine(cpus=4, gib=14)),
        ("Standard_HB120rs_v3", CloudMachine()),
        ("Standard_F72s_v2", CloudMachine(cpus=72, gib=144)),
        ("Standard_NX1", None),
        ("gpu-cluster", None),
        ("Singularity.ND40_v2", CloudMachine(8, "V100-32G")),
        ("Standard_D12_v2", CloudMachine(cpus=4, gib=28)),
        ("Standard_D5_v2", CloudMachine(cpus=16, gib=56)),
        ("Standard_D15_v2", CloudMachine(cpus=20, gib=140)),
        ("Singularity.D8_v3", CloudMachine(cpus=8, gib=32)),
        ("Standard_D4ls_v5", CloudMachine()),
        ("Standard_A8m_v2", CloudMachine(cpus=8, gib=64)),
        ("Standard_FX48mds", CloudMachine(cpus=48, gib=1008)),
        ("Standard_E64s_v3", CloudMachine()),
        ("Standard_NC6s_v2", CloudMachine(1, "P100")),
    ],
)
def test_the_machine_of_a_size(size: str, found: CloudMachine | None) -> None:
    assert machine(size) == found


JOB = """\
type: command
command: x
resources: {{instance_count: 2, instance_type: {}}}
distribution: {{type: {}}}
"""
CPUS = "--set environment.resources.cpu.requests=N"
GPUS = {"resources": {"gpu": {"requests": 4}}, "node_selector": {"gpu_type": "V100"}}
CORES = {"resources": {"cpu": {"requests": 4}, "memory": {"requests": 14336}}}
SERVERS = "tensorflow, worker_count: 2, parameter_server_count: {}"


@pytest.mark.parametrize(
    ("size", "kind", "environment"),
    [
        (
            "Standard_NC24s_v3",
            "mpi",
            GPUS | {"replicas": {"n_workers": 1, "default_worker": GPUS}, "processes_per_replica": 1},
        ),
        (
            "Standard_DS3_v2",
            "mpi",
            CORES | {"replicas": {"n_workers": 1, "default_worker": CORES}, "processes_per_replica": 1},
        ),
        ("Standard_HB120rs_v3", "mpi", {"replicas": {"n_workers": 1}, "processes_per_replica": 1}),
        ("Standard_DS3_v2", SERVERS.format(1), {"replicas": {"n_workers": 1, "n_ps": 1}}),
    ],
    ids=cases(),
)
def test_an_instance_is_requested(
    size: str, kind: str, environment: dict[str, object], wording: Wording
) -> None:
    text = JOB.format(size, kind)
    assert importers.read(source.parse(text, "f.yml").data).data["environment"] == environment
    wording(remarks_of(text))


def test_parameter_servers_of_their_own_instances_have_their_cpus() -> None:
    text = JOB.format("Standard_DS3_v2", SERVERS.format(1)).replace("count: 2,", "count: 3,", 1)
    found = importers.read(source.parse(text, "f.yml").data).data["environment"]
    roles = {"default_worker": CORES, "default_ps": CORES}
    assert found == CORES | {"replicas": {"n_workers": 1, "n_ps": 1} | roles}
