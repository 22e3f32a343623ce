# ruff: noqa: E501 - a command is one line
"""The command line of Gradient: the same as an options file, each value with its option as its place."""

from __future__ import annotations

import shlex

import pytest

from hpcdist import importers
from hpcdist.base.errors import ConfigError, Place
from hpcdist.importers.gradient import parse
from tests.wording import Wording

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


REFUSED = (
    "",
    "gradient",
    "jobs list",
    "gradient deployments create --name a",
    "machines create",
    "jobs create --workerCount 2",
    "jobs create --useDockerfile=yes",
    "hyperparameters create --name a",
    "experiments hyperparameters create --name a",
    "experiment create",
    "experiments list",
    "experiments run multnode",
    "experiments create mpi --workerCont 2",
    "experiments create mpi --qqq 2",
    "experiments create singlenode --workerCount 2",
    "experiments create mpi --name",
    "experiments create mpi --name a --name=b",
    "experiments create mpi --masterCommand mpirun -np 2",
    "experiments create mpi --",
    "experiments create mpi --vpc=1",
    "experiments create mpi --createOptionsFile a.yml",
    "experiments create multinode --name a",
    "experiments create mpi --name \udc80",
)


@pytest.mark.parametrize("line", REFUSED)
def test_invalid_command_lines_are_refused(line: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(line.split())
    wording(str(caught.value))


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
