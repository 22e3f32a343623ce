# ruff: noqa: E501 - a message is compared as one line
"""What a file of Gradient says that cannot be kept: each error as a whole; and files that are no experiments."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError
from tests.importers.remarks import errors_of

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
WORKFLOW = "jobs:\n  a:\n    resources: {instance-type: P40}\n    uses: container@v1\n"
ERRORS: dict[str, list[str]] = {
    CI + "worker-count: 2\nfilters: {branches: {only: main}}": [
        "f.yml:3:1: worker-count: unknown key 'worker-count'; remove it"
    ],
    "version: 2\nworkflows: {a: {steps: {command: experiment.run_single_node, params: {command: a}}}}": [
        "f.yml:2:17: workflows.a.steps: steps are a list, and this is one step; write `- ` before its first key"
    ],
    "version: 1\ntype: multi-mpi\nworker: {machine-type: P400O, command: x, count: 2, dockerfile: {use: true}}": [
        "f.yml:3:53: worker.dockerfile: no image is built here; build it, and write its name as `container`",
        "f.yml:3:40: worker.command: it would run on every worker in addition to the processes of mpirun; write `sleep infinity`, and put it into masterCommand",
        "f.yml:3:24: worker.machine-type: unknown machine type 'P400O'; did you mean 'P4000'?",
        "f.yml:1:1: master.command: masterCommand is missing; write it, or give it by `--set`",
    ],
    "version: 2\nworkflows: {a: {steps: [{name: x, command: experiment.run_mpi_multi_node, params: {workerCount: 2, workerMachineType: C7, mastrCommand: a}}]}}": [
        "f.yml:2:123: workflows.a.steps[0].params.mastrCommand: Gradient's experiments have no option 'mastrCommand'; did you mean 'masterCommand'?",
        "f.yml:2:75: workflows.a.steps[0].params.masterCommand: masterCommand is missing; write it, or give it by `--set`",
    ],
    WORKFLOW + "    with: {image: a, args: {b: 1}}\n    inputs: {c: {type: dataset, with: {ref: d}}}": [
        "f.yml:6:5: jobs.a.inputs: Gradient would fetch and store data for the job; write a path of the machine in the command, and remove this",
        "f.yml:5:22: jobs.a.with.args: expected a list of words; write `[python, train.py]`",
        "f.yml:3:32: jobs.a.resources.instance-type: unknown machine type 'P40'; did you mean 'P4000'?",
        "f.yml:5:22: jobs.a.with.args: command is missing; write it, or give it by `--set`",
    ],
    MPI + "masterCommand: mpirun -np 1 python x.py": [],
    MPI + "masterCommand: mpirun -np 6 -npernode 2 python x.py\nmasterMachineType: C7": [
        "f.yml:6:20: masterMachineType: mpirun starts processes on the master too, which has 0 GPUs, a worker 1; write the workers' machine"
    ],
    MPI + "masterCommand: mpirun -np $N python x.py": [],
    MPI + "masterCommand: mpirun -np $N python x.py\nexperimentEnv: {N: 4}": [
        "f.yml:5:16: masterCommand: mpirun starts 4 processes (-np), but 2 workers have room for 2 (1 GPU each); write -np 2, or 3 with the master, or another workerCount"
    ],
    MPI + "masterCommand: mpirun -np 0 python x.py": [
        "f.yml:5:16: masterCommand: mpirun is to start 0 processes; write a number from 1"
    ],
    MPI + "masterCommand: mpirun -np 2 -npernode two python x.py": [
        "f.yml:5:16: masterCommand: mpirun is to start two processes on each node; write a number from 1"
    ],
    MPI + "masterCommand: mpirun -H a,b python x.py": [
        "f.yml:5:16: masterCommand: mpirun would fill the slots of its hosts (a,b), and a job has other hosts; write -np with the number of processes"
    ],
    MPI + "masterCommand: python x.py\nmasterCount: 2\nworkerCommand: python y.py": [
        "f.yml:7:16: workerCommand: it would run on every worker in addition to the processes of mpirun; write `sleep infinity`, and put it into masterCommand",
        "f.yml:6:14: masterCount: 2 masters would each start mpirun; write 1",
    ],
    MPI + "masterContainer: a/b:2\nmasterCommand: [a]": [
        "f.yml:5:18: masterContainer: an experiment has one image, and workerContainer is a/b:1; write the same in both",
        "f.yml:6:1: masterCommand: expected text, got a list",
    ],
    MPI + "masterCommand: a\nmastrMachineType: C7\ncommand: b": [
        "f.yml:6:1: mastrMachineType: Gradient's experiments have no option 'mastrMachineType'; did you mean 'masterMachineType'?",
        "f.yml:7:1: command: command is for one node, and this has several; write workerCommand",
    ],
    MPI
    + "masterCommand: a\nworkspace: s3://a/b.zip\ndatasetUri: s3://a/c\ndatasets: [{uri: a}, b]\ntag: {a: 1}": [
        "f.yml:9:1: tag: expected text, got keys and values",
        "f.yml:6:12: workspace: nothing is fetched or unpacked; unpack it where the job is submitted, and remove this",
        "f.yml:8:22: datasets[1]: this is not a dataset; write `- {name: NAME}`",
    ],
    MPI + 'masterCommand: a\nexperimentEnv: \'{"A": 1, "A": 2}\'': [
        'f.yml:6:16: experimentEnv: expected keys and values; write {"NAME": "VALUE"}'
    ],
    MPI + "masterCommand: a\nexperimentEnv: {A: [1]}": [
        "f.yml:6:17: experimentEnv.A: the value of the variable A must be text; write it as text"
    ],
    GRPC + "": [],
    GRPC + "parameterServerContainer: tensorflow/tensorflow:1.15": [
        "f.yml:9:27: parameterServerContainer: an experiment has one image, and workerContainer is tensorflow/tensorflow:2.4.1; write the same in both"
    ],
    "machineType: C7\ncommand: a\nuseDockerfile: true\nbuildOnly: true": [
        "f.yml:3:16: useDockerfile: no image is built here; build it, for example by `apptainer build`, and write its name as `container`",
        "f.yml:4:12: buildOnly: no image is built here; a job runs a program: write its command, and remove this",
    ],
    "machineType: P40\ncommand: ''": [
        "f.yml:1:14: machineType: unknown machine type 'P40'; did you mean 'P4000'?",
        "f.yml:2:1: command: command is missing; write it, or give it by `--set`",
    ],
    "container: a\nmachineType: TPUv2\ncommand: a\nworkerCount: 2\nmasterCommand: b\nexperimentType: 1": [
        "f.yml:5:1: masterCommand: an experiment of one node has no masterCommand; remove it",
        "f.yml:4:1: workerCount: an experiment of one node has no workerCount; remove it",
        "f.yml:2:14: machineType: unknown machine type 'TPUv2'; write the machine, such as P4000 or C7",
    ],
    "experimentType: HPT\nworkerCommand: a": [
        "f.yml:1:17: experimentType: the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient; write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`"
    ],
    "experimentType: 4\nworkerCommand: a": [
        "f.yml:1:17: experimentType: the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient; write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`"
    ],
    "workerCommand: a\nworkerCount: 2": [
        "f.yml:1:16: workerCommand: the experimentType is missing; write GRPC or MPI as such"
    ],
    "experimentType: MPI\nworkerCount: 1.5\nworkerMachineType: {a: 1}\nmasterCommand: a": [
        "f.yml:2:1: workerCount: '1.5' is not a number from 1 to 100000; write the number of replicas",
        "f.yml:3:1: workerMachineType: expected text, got keys and values",
    ],
    "experimentType: GRPC\nworkerCount: 1\nparameterServerCount: 0": [
        "f.yml:3:1: parameterServerCount: '0' is not a number from 1 to 100000; write the number of replicas",
        "f.yml:1:1: workerCommand: workerCommand is missing; write it, or give it by `--set`",
        "f.yml:1:1: parameterServerCommand: parameterServerCommand is missing; write it, or give it by `--set`",
    ],
}


@pytest.mark.parametrize("text", ERRORS)
def test_options_without_equivalent_are_errors_at_their_place(text: str) -> None:
    assert errors_of(text, "gradient") == ERRORS[text]


OTHERS: dict[str, str] = {
    "version: 2\nworkflows:\n  a:\n    steps:\n      - {name: x, command: experiment.run_single_node, params: {command: b}}\n      - {name: y, command: experiment.run_mpi_multi_node}": "f.yml:2:1: workflows: this is a file of GradientCI, which runs 2 steps (experiment.run_single_node, experiment.run_mpi_multi_node) for each commit; write the `params` of the step that you want as a file of their own; or choose one with `--name x`",
    "version: 2\nworkflows: {a: {steps: [{name: x, command: deployment.create}]}}": "f.yml:2:44: workflows.a.steps[0].command: this step of GradientCI runs deployment.create, which is not an experiment; supported: experiment.run_single_node, experiment.run_multi_node, experiment.run_mpi_multi_node",
    "version: 2\nworkflows: {a: {steps: [{command: experiment.run_single_node, paramsFile: .ps_project/a.yml}]}}": "f.yml:2:75: workflows.a.steps[0].paramsFile: the params of this step are in another file; give .ps_project/a.yml",
    "version: 2\nworkflows: {a: {steps: {}}}": "f.yml:2:1: workflows: this is a file of GradientCI, which runs 0 steps for each commit; write the `params` of the step that you want as a file of their own",
    "version: 1\ntype: experiment-type\nworker: {machine-type: P4000, count: 2, command: a}": "f.yml:2:7: type: unknown type 'experiment-type'; write single, multi-grpc or multi-mpi",
    "on: {github: {branches: {only: main}}}\njobs:\n  a: {uses: git-checkout@v1, with: {url: b}}\n  c: {uses: script@v1, needs: [a]}": "f.yml:2:1: jobs: this is a workflow of Gradient: several jobs that pass on their outputs; `hpcdist submit` takes jobs that all run programs as a pipeline; or choose one with `--name c`",
    "jobs: {a: {uses: git-checkout@v1}, c: {uses: create-model@v1}}": "f.yml:1:1: jobs: this is a workflow of Gradient: several jobs that pass on their outputs; `hpcdist submit` takes jobs that all run programs as a pipeline",
    "workflows: {a: {steps: [{name: x, command: deployment.create}, {name: y, command: experiment.run_single_node}]}}": "f.yml:1:1: workflows: this is a file of GradientCI, which runs 2 steps (deployment.create, experiment.run_single_node) for each commit; write the `params` of the step that you want as a file of their own; or choose one with `--name y`",
    "jobs: {a: {uses: create-model@v1, with: {name: b}}}": "f.yml:1:18: jobs.a.uses: the action 'create-model@v1' runs no program of yours; use a job of `container@v1` or `script@v1`",
    "image: tensorflow/serving\nport: 8501\nresources: {replicas: 1, instanceType: C4}": "f.yml:3:1: resources: this is a deployment, which serves a model: hpcdist runs batch jobs only",
    "tuningCommand: make tune\nworkerCommand: a\nworkerContainer: b": "f.yml:1:16: tuningCommand: the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient; write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`",
    "deploymentType: TFServing\nmachineType: P4000\ncontainer: a": "f.yml:1:17: deploymentType: this is a deployment, which serves a model: hpcdist runs batch jobs only",
    "shutdownTimeout: 6\nmachineType: P4000\ncontainer: a": "f.yml:1:18: shutdownTimeout: this is a notebook: a batch job has no browser",
}


@pytest.mark.parametrize("text", OTHERS)
def test_other_objects_of_gradient_are_refused_with_the_reason(text: str) -> None:
    document = source.parse(text, "f.yml")
    assert importers.registry.get("gradient").recognises(document.data)
    with pytest.raises(ConfigError) as caught:
        importers.read(document.data)
    assert str(caught.value) == OTHERS[text]
