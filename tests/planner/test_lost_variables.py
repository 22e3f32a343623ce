"""What takes the variables of a task away from its program is told; what keeps them is not."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.planner.lost_variables import advice
from tests.experiments import environment, resources
from tests.plans import planned

TEMPLATE = (
    "`{}` starts the program without the variables of its task, so that each of the 2 tasks would train "
    "alone; {}"
)
LEAVE = "leave the option out"


def said(command: str, workers: int = 1, **data: Any) -> list[str]:
    section = environment(workers, each=resources(cpu=1))
    return list(advice(planned(run={"cmd": command}, environment=section, **data)))


@pytest.mark.parametrize(
    ("command", "shown", "instead"),
    [
        ("env -i PATH=$PATH python t.py", "env -i", LEAVE),
        ("/usr/bin/env - python t.py", "env -", LEAVE),
        ("cd x && nice -n 5 env --ignore-environment A=1 python t.py", "env --ignore-environment", LEAVE),
        ("apptainer exec --nv --cleanenv x.sif python t.py", "apptainer exec --cleanenv", LEAVE),
        ("singularity run -C x.sif t.py", "singularity run -C", LEAVE),
        ("podman run x python t.py", "podman run", "add `--env-host`"),
        (
            "docker run --rm x python t.py",
            "docker run",
            "name the image by `build: {image: ...}`, and hpcdist starts the container",
        ),
        ("sudo python t.py", "sudo", "let the program run as yourself"),
        ("bash -c 'nix-shell --pure --run t.py'", "nix-shell --pure", LEAVE),
    ],
)
def test_what_loses_them(command: str, shown: str, instead: str) -> None:
    assert said(command, framework="pytorch") == [TEMPLATE.format(shown, instead)]


@pytest.mark.parametrize(
    "command",
    [
        "env A=1 python t.py -i",
        "apptainer exec --nv --env A=1 x.sif python t.py",
        "podman run --env-host x python t.py",
        "conda run -n x python t.py",
        "docker ps; python t.py",
        "sudo -E python t.py",
        "python env -i",
        "singularity run x.sif -C",
    ],
)
def test_what_keeps_them(command: str) -> None:
    assert said(command, framework="pytorch") == []


def test_one_task_and_a_launch_of_the_users_own_need_none() -> None:
    assert said("env -i python t.py", workers=0, framework="pytorch") == []
    assert said("mpirun env -i python t.py", framework="mpi", backend="mpi") == []
