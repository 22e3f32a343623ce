# ruff: noqa: E501 - a command is one line
"""The command line of Gradient: the same as an options file, each value with its option as its place."""

from __future__ import annotations

import shlex

import pytest

from hpcdist import importers
from hpcdist.errors import ConfigError, Place
from hpcdist.importers.gradient.command_line import parse

MPI = """\
gradient experiments create multinode \
--name=two --projectId pr1 --experimentType MPI --workerCount 2 --workerMachineType p3.2xlarge \
--workerContainer horovod/horovod:0.18.1 --workerCommand "sleep infinity" \
--masterContainer horovod/horovod:0.18.1 --masterMachineType p3.2xlarge --masterCount 1 \
--masterCommand "mpirun --hostfile /generated/hostfile -bind-to none -map-by slot -x NCCL_DEBUG=INFO python main.py" \
--experimentEnv '{"EPOCHS": 5, "LR": 1e-4, "ON": true}' --apiKey hidden --tag a --tag b --vpc
"""


def test_a_command_line_equals_an_options_file() -> None:
    data = parse(shlex.split(MPI))
    assert data == {
        "name": "two",
        "projectId": "pr1",
        "experimentType": "MPI",
        "workerCount": 2,
        "workerMachineType": "p3.2xlarge",
        "workerContainer": "horovod/horovod:0.18.1",
        "workerCommand": "sleep infinity",
        "masterContainer": "horovod/horovod:0.18.1",
        "masterMachineType": "p3.2xlarge",
        "masterCount": 1,
        "masterCommand": "mpirun --hostfile /generated/hostfile -bind-to none -map-by slot "
        "-x NCCL_DEBUG=INFO python main.py",
        "experimentEnv": '{"EPOCHS": 5, "LR": 1e-4, "ON": true}',
        "apiKey": "(not kept)",
        "tag": ["a", "b"],
        "vpc": True,
    }
    assert [data.place_of(key) for key in ("workerCount", "masterCommand", "apiKey", "vpc")] == [
        Place("--workerCount=2", 0, 0),
        Place("--masterCommand", 0, 0),
        Place("--apiKey", 0, 0),
        Place("--vpc", 0, 0),
    ]


def test_a_command_line_becomes_an_experiment() -> None:
    imported = importers.read(importers.from_command_line(shlex.split(MPI)[1:], "gradient"))
    assert imported.data == {
        "name": "two",
        "tags": ["a", "b"],
        "environment": {
            "env_vars": {"EPOCHS": "5", "LR": "1e-4", "ON": "true", "NCCL_DEBUG": "INFO"},
            "resources": {"gpu": {"requests": 1}},
            "node_selector": {"gpu_type": "V100"},
            "replicas": {
                "n_workers": 1,
                "default_worker": {
                    "resources": {"gpu": {"requests": 1}},
                    "node_selector": {"gpu_type": "V100"},
                },
            },
        },
        "build": {"image": "horovod/horovod:0.18.1"},
        "batch": {"nodes": 2},
        "framework": "horovod",
        "run": {"cmd": "python main.py"},
    }
    assert [str(problem) for problem in imported.remarks] == [
        (
            "--workerCommand: workerCommand: workerCommand has no effect on a batch machine: "
            "the nodes of a job need no command that waits for mpirun"
        ),
        (
            "--workerMachineType=p3.2xlarge: workerMachineType: of a p3.2xlarge machine the GPUs are requested; "
            "CPUs and memory are the site's share of them; for others write `resources` into the imported file"
        ),
        (
            "--masterMachineType=p3.2xlarge: masterMachineType: masterMachineType has no effect on a batch machine: "
            "mpirun runs on the node of the first worker"
        ),
        (
            "--masterCommand: masterCommand: hpcdist starts the processes itself, so these words have no effect: "
            "-bind-to none"
        ),
        (
            "--projectId=pr1: projectId: projectId has no effect on a batch machine: "
            "it belongs to an account of Paperspace"
        ),
        (
            "--apiKey: apiKey: apiKey has no effect on a batch machine: nothing is fetched with it; "
            "do not keep secrets in a file"
        ),
        "--vpc: vpc: vpc has no effect on a batch machine: the site has its own network",
    ]


def test_command_lines_for_one_node_and_the_old_form_of_mpi() -> None:
    words = shlex.split(
        "experiments run singlenode --machineType C7 --container a --command 'python x.py' --no-logs"
    )
    assert parse(words) == {
        "machineType": "C7",
        "container": "a",
        "command": "python x.py",
        "no-logs": True,
    }
    assert parse(["experiments", "createAndStart", "mpi"]) == {"experimentType": "MPI"}
    board = ["experiments", "run", "singlenode", "--tensorboard"]
    assert parse(board) == {"tensorboard": True}
    assert parse([*board[:3], "--tensorboard=tb1"]) == {"tensorboard_set": "tb1"}


REFUSED = {
    "": "the command is incomplete; write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`",
    "gradient": "the command is incomplete; write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`",
    "jobs list": "`jobs list` starts no job; write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`",
    "gradient deployments create --name a": "this is a deployment, which serves a model: hpcdist runs batch jobs only",
    "machines create": "`machines` starts no job; write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`",
    "jobs create --workerCount 2": "`jobs create` has no option --workerCount; `experiments create multinode` has it",
    "jobs create --useDockerfile=yes": "--useDockerfile is true or false, not 'yes'; write --useDockerfile",
    "hyperparameters create --name a": "the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient; write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`",
    "experiments hyperparameters create --name a": "the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient; write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`",
    "experiment create": "`experiment` starts no job; did you mean 'experiments'?",
    "experiments list": "`experiments list` starts no job; write `experiments run singlenode --name ...`, or `multinode`, or `jobs create --name ...`",
    "experiments run multnode": "`experiments run multnode` starts no job; did you mean 'multinode'?",
    "experiments create mpi --workerCont 2": "`experiments create mpi` has no option --workerCont; "
    "did you mean 'workerCount'?",
    "experiments create mpi --qqq 2": "`experiments create mpi` has no option --qqq; remove it",
    "experiments create singlenode --workerCount 2": "`experiments create singlenode` has no option --workerCount; "
    "`experiments create multinode` has it",
    "experiments create mpi --name": "--name needs a value; write --name VALUE",
    "experiments create mpi --name a --name=b": "--name is given twice; write it once",
    "experiments create mpi --masterCommand mpirun -np 2": "'-np' is not an option; "
    "put quotes around a command of several words",
    "experiments create mpi --": "'--' is not an option; put quotes around a command of several words",
    "experiments create mpi --vpc=1": "--vpc is true or false, not '1'; write --vpc",
    "experiments create mpi --createOptionsFile a.yml": "--createOptionsFile is not read here; "
    "it writes a template and no experiment: remove it",
    "experiments create multinode --name a": "--experimentType is missing; "
    "write --experimentType MPI, or GRPC for parameter servers",
    "experiments create mpi --name \udc80": "'\\udc80' is not text in UTF-8",
}


@pytest.mark.parametrize("line", REFUSED)
def test_invalid_command_lines_are_refused(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(line.split())
    assert str(caught.value) == f"command line: {REFUSED[line]}"


def test_jobs_become_experiments_of_one_node() -> None:
    words = shlex.split(
        "paperspace jobs create --name 'a job' --container a/b:1 --machineType P5000 --isPreemptible true "
        '--useDockerfile false --jobEnv \'{"KEY":"hidden"}\' --dataset=coco@dst1:v2 --dataset=out@dst2 '
        "--project p --command 'python x.py'"
    )
    data = importers.from_command_line(words, "gradient")
    assert str(data.place_of("jobEnv")) == "--jobEnv"
    found = importers.read(data)
    assert found.data == {
        "name": "a-job",
        "environment": {
            "env_vars": {"KEY": "hidden"},
            "data_refs": ["coco", "out"],
            "resources": {"gpu": {"requests": 1}},
            "node_selector": {"gpu_type": "P5000"},
        },
        "build": {"image": "a/b:1"},
        "run": {"cmd": "python x.py"},
    }
    assert {remark.severity for remark in found.remarks} == {"warning"}
    assert [str(remark.path[0]) for remark in found.remarks] == [
        "name",
        "dataset",
        "machineType",
        "isPreemptible",
        "project",
    ]
