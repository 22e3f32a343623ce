# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist.base.errors import PlanError
from tests.layers.containers.sites import IMAGE, boxed, inside, two_tasks

HOST = ["--net=host", "--ipc=host", "--pid=host"]
FAMILIES = ("HPCDIST", "SLURM", "PMI", "PMIX", "PALS", "OMPI", "HOROVOD", "POLYAXON")
VOLUMES = ['--volume="$PWD:$PWD"', '${HPCDIST_RUN_DIR:+--volume="$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}']
VARIABLES = [
    *(f"--env={family}_*" for family in FAMILIES),
    "--env=PYTHONUNBUFFERED",
    "--env=A",
    "--env=OMP_NUM_THREADS",
]


def test_words() -> None:
    machine = boxed("podman-hpc", binds=["/a:/b:ro"], args=["--x"], gpu_args=["--nccl"])
    assert inside(two_tasks(machine)) == [
        "podman-hpc",
        "run",
        "--rm",
        *HOST,
        "--gpu",
        *VOLUMES,
        '--volume="/a:/b:ro"',
        '--workdir="$PWD"',
        *VARIABLES,
        "--env=CUDA_VISIBLE_DEVICES",
        "--x",
        "--nccl",
        IMAGE,
    ]


def test_the_hosts_network_is_asked_for_once() -> None:
    plan = two_tasks(boxed("podman-hpc", args=["--mpi"], gpu_args=["--nccl"]), gpu=None)
    start = ["podman-hpc", "run", "--rm", *VOLUMES, '--workdir="$PWD"']
    assert inside(plan) == [*start, *VARIABLES, "--mpi", IMAGE]


def test_a_file_is_none_of_its_images() -> None:
    with pytest.raises(PlanError) as caught:
        two_tasks(boxed("podman-hpc"), "./x")
    assert [str(problem) for problem in caught.value.problems] == [
        "build.image: podman-hpc cannot run './x'; write a registry's image; `podman-hpc pull NAME` fetches it"
    ]
