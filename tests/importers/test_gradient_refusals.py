# ruff: noqa: E501 - a file is written as one line
"""What a file of Gradient says that cannot be kept: each error as a whole; and files that are no experiments."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from tests.importers.remarks import cases, errors_of
from tests.wording import Wording

MPI = """\
experimentType: MPI
workerCount: 2
workerMachineType: P4000
workerContainer: a/b:1
"""
GRPC = """\
experimentType: GRPC
workerCount: 2
workerMachineType: P4000
workerContainer: tensorflow/tensorflow:2.4.1
workerCommand: python w.py
parameterServerCount: 1
parameterServerMachineType: P4000
parameterServerCommand: python w.py
"""


CI = "version: 1\nworker: {container: a/b:1, machine-type: P4000, command: x}\n"
ERRORS = (
    CI + "worker-count: 2\nfilters: {branches: {only: main}}",
    "version: 2\nworkflows: {a: {steps: {command: experiment.run_single_node, params: {command: a}}}}",
    "version: 1\ntype: multi-mpi\nworker: {machine-type: P400O, command: x, count: 2, dockerfile: {use: true}}",
    "version: 2\nworkflows: {a: {steps: [{name: x, command: experiment.run_mpi_multi_node, params: {workerCount: 2, workerMachineType: C7, mastrCommand: a}}]}}",
    MPI + "masterCommand: mpirun -np 6 -npernode 2 python x.py\nmasterMachineType: C7",
    MPI + "masterCommand: mpirun -np $N python x.py\nexperimentEnv: {N: 4}",
    MPI + "masterCommand: mpirun -np 0 python x.py",
    MPI + "masterCommand: mpirun -np 2 -npernode two python x.py",
    MPI + "masterCommand: mpirun -H a,b python x.py",
    MPI + "masterCommand: python x.py\nmasterCount: 2\nworkerCommand: python y.py",
    MPI + "masterContainer: a/b:2\nmasterCommand: [a]",
    MPI + "masterCommand: a\nmastrMachineType: C7\ncommand: b",
    MPI
    + "masterCommand: a\nworkspace: s3://a/b.zip\ndatasetUri: s3://a/c\ndatasets: [{uri: a}, b]\ntag: {a: 1}",
    MPI + 'masterCommand: a\nexperimentEnv: \'{"A": 1, "A": 2}\'',
    MPI + "masterCommand: a\nexperimentEnv: {A: [1]}",
    GRPC + "parameterServerContainer: tensorflow/tensorflow:1.15",
    "machineType: C7\ncommand: a\nuseDockerfile: true\nbuildOnly: true",
    "machineType: P40\ncommand: ''",
    "container: a\nmachineType: TPUv2\ncommand: a\nworkerCount: 2\nmasterCommand: b\nexperimentType: 1",
    "experimentType: HPT\nworkerCommand: a",
    "experimentType: 4\nworkerCommand: a",
    "workerCommand: a\nworkerCount: 2",
    "experimentType: MPI\nworkerCount: 1.5\nworkerMachineType: {a: 1}\nmasterCommand: a",
    "experimentType: GRPC\nworkerCount: 1\nparameterServerCount: 0",
)


@pytest.mark.parametrize("text", ERRORS, ids=cases(MPI, GRPC))
def test_options_without_equivalent_are_errors_at_their_place(text: str, wording: Wording) -> None:
    wording(errors_of(text, "gradient"))


@pytest.mark.parametrize(
    "text",
    [GRPC, MPI + "masterCommand: mpirun -np 1 python x.py", MPI + "masterCommand: mpirun -np $N python x.py"],
    ids=cases(MPI, GRPC),
)
def test_a_complete_file_has_no_error(text: str) -> None:
    assert errors_of(text, "gradient") == []


OTHERS = (
    "version: 2\nworkflows:\n  a:\n    steps:\n      - {name: x, command: experiment.run_single_node, params: {command: b}}\n      - {name: y, command: experiment.run_mpi_multi_node}",
    "version: 2\nworkflows: {a: {steps: [{name: x, command: deployment.create}]}}",
    "version: 2\nworkflows: {a: {steps: [{command: experiment.run_single_node, paramsFile: .ps_project/a.yml}]}}",
    "version: 2\nworkflows: {a: {steps: {}}}",
    "version: 1\ntype: experiment-type\nworker: {machine-type: P4000, count: 2, command: a}",
    "workflows: {a: {steps: [{name: x, command: deployment.create}, {name: y, command: experiment.run_single_node}]}}",
    "image: tensorflow/serving\nport: 8501\nresources: {replicas: 1, instanceType: C4}",
    "tuningCommand: make tune\nworkerCommand: a\nworkerContainer: b",
    "deploymentType: TFServing\nmachineType: P4000\ncontainer: a",
    "shutdownTimeout: 6\nmachineType: P4000\ncontainer: a",
)


@pytest.mark.parametrize("text", OTHERS, ids=cases())
def test_other_objects_of_gradient_are_refused_with_the_reason(text: str, wording: Wording) -> None:
    document = source.parse(text, "f.yml")
    assert importers.registry.get("gradient").recognises(document.data)
    with pytest.raises(ConfigError) as caught:
        importers.read(document.data)
    wording(str(caught.value))
