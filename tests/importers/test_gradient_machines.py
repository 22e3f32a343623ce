"""Machine types of Gradient, and one of unknown size."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.gradient.replicas import machine
from hpcdist.importers.job import CloudMachine
from tests.importers.remarks import remarks_of
from tests.wording import Wording


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("P4000", CloudMachine(1, "P4000")),
        ("GPU+", CloudMachine(1, "M4000")),
        ("GPU+x2", CloudMachine(2, "M4000")),
        ("Free-P5000", CloudMachine(1, "P5000")),
        ("Free-CPU", CloudMachine(cpus=2, gib=2)),
        ("GV100x8", CloudMachine(8, "GV100")),
        ("A100-80Gx2", CloudMachine(2, "A100-80G")),
        ("P5000x3", None),
        ("p3.16xlargex2", None),
        ("p3.16xlarge", CloudMachine(8, "V100")),
        ("p2.xlarge", CloudMachine(1, "K80")),
        ("C5", CloudMachine(cpus=4, gib=8)),
        ("C1", CloudMachine()),
        ("TPUv2", None),
    ],
)
def test_machines(name: str, found: CloudMachine | None) -> None:
    assert machine(name) == found


@pytest.mark.parametrize(
    "name",
    [
        "C1",
        "own-node-7",
        "$MACHINE",
        "P400",
    ],
)
def test_a_machine_of_unknown_size_is_a_warning(name: str, wording: Wording) -> None:
    wording(remarks_of(f"machineType: {name}\ncommand: x\n"))


def test_a_missing_machine_is_a_warning(wording: Wording) -> None:
    wording(remarks_of("workerCommand: sleep 9\nexperimentType: MPI\nworkerCount: 2\nmasterCommand: x\n"))


def test_a_role_has_the_memory_or_the_type_of_gpu_of_its_machine() -> None:
    text = """\
experimentType: GRPC
workerCount: 2
workerMachineType: P100
workerContainer: tensorflow/tensorflow:2.4.1
workerCommand: python w.py
parameterServerCount: 1
parameterServerMachineType: {}
parameterServerCommand: python w.py
"""
    worker = {"resources": {"gpu": {"requests": 1}}, "node_selector": {"gpu_type": "P100"}}
    other = {"resources": {"gpu": {"requests": 1}}, "node_selector": {"gpu_type": "K80"}}
    plain = {"resources": {"cpu": {"requests": 1}, "memory": {"requests": 3840}}}
    for server, section, named in (("K80", other, ["P100", "K80"]), ("G1", plain, ["P100"])):
        found = importers.read(source.parse(text.format(server), "f.yml").data)
        assert found.data["environment"] == {
            **worker,
            "replicas": {"default_worker": worker, "default_ps": section, "n_workers": 1, "n_ps": 1},
        }
        said = [remark.message for remark in found.remarks if "machine the GPUs" in remark.message]
        assert said == [
            f"of a {name} machine the GPUs are requested; CPUs and memory are the site's share of them"
            for name in named
        ]


def test_a_dataset_without_a_name_is_a_warning() -> None:
    text = "machineType: C7\ncommand: x\ndatasets: [{uri: s3://a/b}, {name: coco}]\ndatasetUri: s3://a/c\n"
    found = importers.read(source.parse(text, "f.yml").data)
    assert found.data["environment"]["data_refs"] == ["coco"]
    unnamed = [remark.path for remark in found.remarks if "has no name" in remark.message]
    assert (unnamed, {remark.severity for remark in found.remarks}) == (
        [("datasets", 0), ("datasetUri",)],
        {"warning"},
    )
