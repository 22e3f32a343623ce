"""torchrun starts behind the lines of the command that set its shell up, in the image and outside of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hpcdist.plan.values import PROGRAM
from tests.experiments import environment, resources
from tests.layers.containers.sites import boxed, inside
from tests.plans import planned, words
from tests.script.jobs import started

TORCHRUN = {"launch": "torchrun"}
VENV = "source venv/bin/activate\npython train.py"


def test_in_an_image_it_is_an_argument_of_the_commands_own_shell() -> None:
    section = environment(1, each=resources(gpu=4))
    data = {
        "framework": "pytorch",
        "pytorch": TORCHRUN,
        "environment": section,
        "build": {"image": "./x.sif"},
    }
    plan = planned(boxed("apptainer"), **data, run={"cmd": VENV})
    found = inside(plan)
    assert found[found.index("./x.sif") + 1 :][:3] == [PROGRAM, "torchrun", "--nnodes=2"]
    assert words(plan)[-2:] == ["--no-python", PROGRAM]
    assert plan.identity.command == "source venv/bin/activate\nhpcdist_start_processes\npython train.py"


def test_other_commands_and_other_launches_are_as_they_were() -> None:
    plain = planned(framework="pytorch", pytorch=TORCHRUN, run={"cmd": "export A=1\npython train.py"})
    by_env = planned(framework="pytorch", pytorch={"launch": "env"}, run={"cmd": VENV})
    own = planned(framework="pytorch", run={"cmd": "source venv/bin/activate\ntorchrun train.py"})
    assert [words(plan).count(PROGRAM) for plan in (plain, by_env, own)] == [1, 1, 1]
    assert by_env.identity.command == VENV


STAND_IN = """#!/bin/bash
# Starts its program twice, as torchrun does a process a GPU.
while [[ $1 == -* ]]; do shift; done
echo "torchrun in $PWD with $# words and VIRTUAL_ENV=$VIRTUAL_ENV"
RANK=0 "$@" && RANK=1 "$@"
"""


def run(folder: Path, command: str) -> tuple[int, list[str]]:
    data: dict[str, Any] = {"framework": "pytorch", "pytorch": TORCHRUN, "run": {"cmd": command}}
    job = started(folder, environ={"PATH": os.defpath}, **data)
    output, _ = job.communicate(timeout=60)
    return job.returncode, output.splitlines()[1:]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    bin_folder = tmp_path / "repo" / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "torchrun").write_text(STAND_IN)
    (bin_folder / "torchrun").chmod(0o755)
    (bin_folder / "activate").write_text(f'export VIRTUAL_ENV=here PATH={bin_folder}:$PATH; [[ ! "$*" ]]\n')
    return tmp_path


def test_its_environment_is_the_commands(venv: Path) -> None:
    (venv / "repo/venv/bin/say").write_text('#!/bin/bash\necho "$RANK $1 in $PWD with $VIRTUAL_ENV"\n')
    (venv / "repo/venv/bin/say").chmod(0o755)
    code, lines = run(venv, "cd repo && source venv/bin/activate && word=it\nsay $word")
    assert (code, lines) == (
        0,
        [
            f"torchrun in {venv}/repo with 2 words and VIRTUAL_ENV=here",
            *(f"{rank} it in {venv}/repo with here" for rank in range(2)),
        ],
    )


def test_a_line_that_fails_ends_the_task(venv: Path) -> None:
    code, lines = run(venv, "set -e\nsource missing/activate\nexpr 1")
    assert code == 1
    assert not any("torchrun in" in line for line in lines)


def test_an_environment_without_it_is_named(venv: Path) -> None:
    (venv / "repo/venv/bin/torchrun").unlink()
    code, lines = run(venv, "source repo/venv/bin/activate\nexpr 1")
    assert code == 86
    sentence = "there is no torchrun; load its module, or activate the environment that has it"
    assert f"hpcdist: rank 0 on {os.uname().nodename}: {sentence}" in lines
