# ruff: noqa: E501 - a message is compared as one line
"""What a file of Gradient says that cannot be kept: each error as a whole; and files that are no experiments."""

from __future__ import annotations

import pytest

from hpcdist import importers, source
from hpcdist.errors import ConfigError

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


def errors(text: str) -> list[str]:
    document = source.parse(text, "f.yml")
    found = importers.read(document.data, "gradient").remarks
    return [str(document.locate(problem)) for problem in found if problem.severity == "error"]


ERRORS: dict[str, list[str]] = {
    MPI + "masterCommand: mpirun -np 1 python x.py": [
        "f.yml:5:16: masterCommand: mpirun starts 1 (-np), and 2 workers are for 2 processes (1 GPU each); write -np 2, or 3 with the master, or another workerCount"
    ],
    MPI + "masterCommand: mpirun -np 6 -npernode 2 python x.py\nmasterMachineType: C7": [
        "f.yml:6:20: masterMachineType: mpirun starts processes on the master too, which has 0 GPUs, a worker 1; write the workers' machine"
    ],
    MPI + "masterCommand: mpirun -np $N python x.py": [
        "f.yml:5:16: masterCommand: mpirun is to start '$N' processes, which is no number from 1; write the number itself"
    ],
    MPI + "masterCommand: mpirun -H a,b python x.py": [
        "f.yml:5:16: masterCommand: mpirun names its hosts (a,b), and a job has others; write --hostfile /generated/hostfile"
    ],
    MPI + "masterCommand: python x.py\nmasterCount: 2\nworkerCommand: python y.py": [
        "f.yml:7:16: workerCommand: it would run on every worker beside what mpirun starts there; write `sleep infinity`, and put it into masterCommand",
        "f.yml:6:14: masterCount: 2 masters would each start mpirun; write 1",
    ],
    MPI + "masterContainer: a/b:2\nmasterCommand: [a]": [
        "f.yml:5:18: masterContainer: an experiment has one image, and workerContainer is a/b:1; write the same in both",
        "f.yml:6:1: masterCommand: expected one text, got a list",
    ],
    MPI + "masterCommand: a\nmastrMachineType: C7\ncommand: b": [
        "f.yml:6:1: mastrMachineType: Gradient's experiments have no option 'mastrMachineType'; did you mean 'masterMachineType'?",
        "f.yml:7:1: command: command is for one node, and this has several; write workerCommand",
    ],
    MPI
    + "masterCommand: a\nworkspace: s3://a/b.zip\ndatasetUri: s3://a/c\ndatasets: [{uri: a}]\ntag: {a: 1}": [
        "f.yml:9:1: tag: expected one text, got keys and values",
        "f.yml:6:12: workspace: nothing is fetched or unpacked; unpack it where the job is submitted, and remove this",
        "f.yml:8:12: datasets[0]: this dataset has no name, and none is fetched; put the files on the machine, and give the dataset a name that the site's `volumes` have",
        "f.yml:7:13: datasetUri: this dataset has no name, and none is fetched; put the files on the machine, and give the dataset a name that the site's `volumes` have",
    ],
    MPI + 'masterCommand: a\nexperimentEnv: \'{"A": 1, "A": 2}\'': [
        'f.yml:6:16: experimentEnv: expected keys and values; write {"NAME": "VALUE"}'
    ],
    MPI + "masterCommand: a\nexperimentEnv: {A: [1]}": [
        "f.yml:6:17: experimentEnv.A: the variable A is one text; write it as one"
    ],
    GRPC + "": [],
    GRPC + "parameterServerContainer: tensorflow/tensorflow:1.15": [
        "f.yml:9:27: parameterServerContainer: an experiment has one image, and workerContainer is tensorflow/tensorflow:2.4.1; write the same in both"
    ],
    "machineType: P40\ncommand: ''": [
        "f.yml:1:14: machineType: which GPUs the machine 'P40' has is not known; did you mean 'P4000'?",
        "f.yml:2:1: command: command is missing; write the command",
    ],
    "container: a\nmachineType: TPUv2\ncommand: a\nworkerCount: 2\nmasterCommand: b\nexperimentType: 1": [
        "f.yml:5:1: masterCommand: an experiment of one node has no masterCommand; remove it",
        "f.yml:4:1: workerCount: an experiment of one node has no workerCount; remove it",
        "f.yml:2:14: machineType: which GPUs the machine 'TPUv2' has is not known; known: A100, A100-80G, A4000, A5000, A6000, C3, C5, C7, G1, G12, G6, GPU+, GV100, H100, K80, M4000, P100, P4000, P5000, P6000, RTX4000, RTX5000, V100, V100-32G, c5.12xlarge, c5.18xlarge, c5.24xlarge, c5.2xlarge, c5.4xlarge, c5.9xlarge, c5.large, c5.xlarge, g3.16xlarge, g3.4xlarge, g3.8xlarge, g3s.xlarge, g4dn.12xlarge, g4dn.2xlarge, g4dn.4xlarge, g4dn.metal, g4dn.xlarge, p2.16xlarge, p2.8xlarge, p2.xlarge, p3.16xlarge, p3.2xlarge, p3.8xlarge, p3dn.24xlarge, p4d.24xlarge",
    ],
    "experimentType: HPT\nworkerCommand: a": [
        "f.yml:1:17: experimentType: a search over hyperparameters is many jobs; write one experiment and its array yourself, as `batch.array`"
    ],
    "experimentType: 4\nworkerCommand: a": [
        "f.yml:1:17: experimentType: a search over hyperparameters is many jobs; write one experiment and its array yourself, as `batch.array`"
    ],
    "workerCommand: a\nworkerCount: 2": [
        "f.yml:1:16: workerCommand: the experimentType is missing; write GRPC or MPI as such"
    ],
    "experimentType: MPI\nworkerCount: 1.5\nworkerMachineType: {a: 1}\nmasterCommand: a": [
        "f.yml:2:1: workerCount: '1.5' is no number from 1 to 100000; write how many there are",
        "f.yml:3:1: workerMachineType: expected one text, got keys and values",
    ],
    "experimentType: GRPC\nworkerCount: 1\nparameterServerCount: 0": [
        "f.yml:3:1: parameterServerCount: '0' is no number from 1 to 100000; write how many there are",
        "f.yml:1:1: workerMachineType: workerMachineType is missing; write the machine, such as P4000 or C7",
        "f.yml:1:1: parameterServerMachineType: parameterServerMachineType is missing; write the machine, such as P4000 or C7",
        "f.yml:2:14: workerCount: the one worker is TensorFlow's master, and parameter servers need a worker beside it; write 2 or more",
        "f.yml:1:1: workerCommand: workerCommand is missing; write the command",
        "f.yml:1:1: parameterServerCommand: parameterServerCommand is missing; write the command",
    ],
}


@pytest.mark.parametrize("text", ERRORS)
def test_what_cannot_be_kept_is_an_error_there(text: str) -> None:
    assert errors(text) == ERRORS[text]


OTHERS: dict[str, str] = {
    "version: 2\nworkflows:\n  a:\n    steps:\n      - {name: x, command: experiment.run_single_node, params: {command: b}}": "f.yml:2:1: workflows: this is a file of GradientCI, which runs steps (experiment.run_single_node) for each commit; write the `params` of the step that you want as a file of their own",
    "version: 1\nproject: p\nexperiment: e\ntype: multi-mpi\nworker: {machine-type: P4000, count: 2, command: a}": "f.yml:5:1: worker: this is a file of GradientCI's first version, which runs for each commit; write its worker as workerContainer, workerMachineType and workerCommand",
    "on: {github: {branches: {only: main}}}\njobs:\n  a: {uses: git-checkout@v1, with: {url: b}}": "f.yml:2:1: jobs: this is a workflow of Gradient: several jobs that hand on what they write; write one experiment for each job, and chain them with `batch.dependency`",
    "tuningCommand: make tune\nworkerCommand: a\nworkerContainer: b": "f.yml:1:16: tuningCommand: a search over hyperparameters is many jobs; write one experiment and its array yourself, as `batch.array`",
    "deploymentType: TFServing\nmachineType: P4000\ncontainer: a": "f.yml:1:17: deploymentType: this is a deployment: it serves a model, and a batch job serves nobody",
    "shutdownTimeout: 6\nmachineType: P4000\ncontainer: a": "f.yml:1:18: shutdownTimeout: this is a notebook: a batch job has no browser",
}


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_experiment_is_refused_with_the_reason(text: str) -> None:
    document = source.parse(text, "f.yml")
    assert importers.registry.get("gradient").recognises(document.data)
    with pytest.raises(ConfigError) as caught:
        importers.read(document.data)
    assert str(caught.value) == OTHERS[text]
