from __future__ import annotations

import pytest

from hpcdist.base.errors import PlanError
from tests.layers.containers.sites import IMAGE, boxed, inside, two_tasks


def test_words() -> None:
    machine = boxed("shifter", binds=["/a:/b"], args=["--module=gpu,nccl-plugin"], env={"B": 1})
    assert inside(two_tasks(machine)) == [
        "shifter",
        f"--image=docker:{IMAGE}",
        '--volume="/a:/b"',
        '--workdir="$PWD"',
        "--module=gpu,nccl-plugin",
        "env",
        "B=1",
    ]


def test_a_file_is_no_image_of_the_gateway() -> None:
    with pytest.raises(PlanError) as caught:
        two_tasks(boxed("shifter"), "x.sif")
    assert [str(problem) for problem in caught.value.problems] == [
        "build.image: shifter cannot run 'x.sif'; write a registry's image; `shifterimg pull NAME` fetches it"
    ]
