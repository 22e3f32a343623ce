"""What takes the variables of a task away from its program is told; what keeps them is not."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.planner.advice import about_lost_variables
from tests.experiments import environment, resources
from tests.plans import planned

TEMPLATE = (
    "`{}` starts the program without the variables of its task, so that each of the 2 tasks would train "
    "alone; {}"
)
LEAVE = "leave the option out"
IMAGE = "name the image by `build: {image: ...}`, and hpcdist starts the container"


def said(command: str, workers: int = 1, **data: Any) -> list[str]:
    section = environment(workers, each=resources(cpu=1))
    return list(about_lost_variables(planned(run={"cmd": command}, environment=section, **data)))


@pytest.mark.parametrize(
    ("command", "shown", "instead"),
    [
        ("env -i PATH=$PATH python t.py", "env -i", LEAVE),
        ("/usr/bin/env - python t.py", "env -", LEAVE),
        ("cd x && nice -n 5 env --ignore-environment A=1 python t.py", "env --ignore-environment", LEAVE),
        ("apptainer exec --nv --cleanenv x.sif python t.py", "apptainer exec --cleanenv", LEAVE),
        ("singularity run -C x.sif t.py", "singularity run -C", LEAVE),
        ("podman run x python t.py", "podman run", "add `--env-host`"),
        ("docker run --rm x python t.py", "docker run", IMAGE),
        ("enroot start --rw img python t.py", "enroot start", IMAGE),
        ("exec -c python t.py", "exec -c", LEAVE),
        ("setpriv --reset-env python t.py", "setpriv --reset-env", LEAVE),
        ("guix shell --pure python -- python t.py", "guix shell --pure", LEAVE),
        ("pixi run --clean-env python t.py", "pixi run --clean-env", LEAVE),
        ("udocker run x python t.py", "udocker run", "add `--hostenv`"),
        ("podman-hpc run x python t.py", "podman-hpc run", "add `--env-host`"),
        ("doas python t.py", "doas", "let the program run as yourself"),
        ("tox -e py -- python t.py", "tox", "leave it out"),
        ("sudo python t.py", "sudo", "let the program run as yourself"),
        ("bash -c 'nix-shell --pure --run t.py'", "nix-shell --pure", LEAVE),
    ],
)
def test_what_loses_them(command: str, shown: str, instead: str) -> None:
    assert said(command, framework="pytorch") == [TEMPLATE.format(shown, instead)]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("for h in $HOSTS; do ssh $h python t.py; done", "ssh"),
        ("pdsh -w $NODES python t.py", "pdsh"),
        ("clush -bw $NODES python t.py", "clush"),
        ("pbsdsh -- python t.py", "pbsdsh"),
        ("blaunch -z n1 python t.py", "blaunch"),
        ("flux exec -r all python t.py", "flux exec"),
        ("parallel --sshlogin $NODES python t.py ::: 1 2", "parallel --sshlogin"),
    ],
)
def test_what_starts_programs_on_other_nodes(command: str, shown: str) -> None:
    text = (
        f"`{shown}` starts the program on other nodes, in each of the 2 tasks, so that all would train alone"
    )
    assert said(command, framework="pytorch") == [f"{text}; let hpcdist start the program on each node"]


@pytest.mark.parametrize(
    "command",
    [
        "env A=1 python t.py -i",
        "parallel python t.py ::: 1 2",
        "flux kvs get x; python t.py",
        "apptainer exec --nv --env A=1 x.sif python t.py",
        "podman run --env-host x python t.py",
        "conda run -n x python t.py",
        "docker ps; python t.py",
        "sudo -E python t.py",
        "python env -i",
        "singularity run x.sif -C",
        "enroot start --conf own.sh img python t.py",
        "enroot import docker://x; python t.py",
        "exec python t.py -c",
        "pixi run python t.py",
    ],
)
def test_what_keeps_them(command: str) -> None:
    assert said(command, framework="pytorch") == []


def test_one_task_and_a_launch_of_the_users_own_need_none() -> None:
    assert said("env -i python t.py", workers=0, framework="pytorch") == []
    assert said("mpirun env -i python t.py", framework="mpi", backend="mpi") == []
