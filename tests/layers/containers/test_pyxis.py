# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist.errors import PlanError
from tests.layers.containers.sites import boxed, inside, two_tasks
from tests.plans import WRAPPER, words


def test_srun_options_and_wrapper_inside_the_container() -> None:
    machine = boxed("pyxis", binds=["/opt/x"], args=["--no-container-mount-home"], env={"B": "x y"})
    plan = two_tasks(machine)
    found = words(plan)
    first = next(index for index, text in enumerate(found) if text.startswith("--container"))
    assert (found[0], found[first:]) == (
        "srun",
        [
            "--container-image=nvcr.io#nvidia/pytorch:24.08-py3",
            '--container-mounts="$PWD:$PWD,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR,/opt/x:/opt/x"',
            '--container-workdir="$PWD"',
            "--container-env=PYTHONUNBUFFERED,A",
            "--no-container-mount-home",
            WRAPPER,
            "env",
            "B=x y",
            'bash "$HPCDIST_JOB_DIR/command.sh"',
        ],
    )


def test_every_component_of_a_job_is_in_the_image() -> None:
    section = {
        "resources": {"gpu": {"requests": 4}},
        "replicas": {"n_workers": 1, "default_worker": {"resources": {"gpu": {"requests": 1}}}},
    }
    found = words(two_tasks(boxed("pyxis"), environment=section))
    components = " ".join(found).split(" : ")
    assert [part.count("--container-image=") for part in components] == [1] * len(components)


@pytest.mark.parametrize(
    ("image", "word"),
    [("python:3", "python:3"), ("/i/x.sqsh", "/i/x.sqsh"), ("x.sqsh", "./x.sqsh"), ("a/b", "a/b")],
)
def test_images(image: str, word: str) -> None:
    assert f"--container-image={word}" in words(two_tasks(boxed("pyxis"), image))
    assert inside(two_tasks(boxed("pyxis"), image)) == []


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("x.sif", "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"),
        ("oras://x", "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"),
        ("x@sha256:ab", "write its tag (NAME:TAG)"),
    ],
)
def test_images_that_it_cannot_run(image: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        two_tasks(boxed("pyxis"), image)
    assert [str(problem) for problem in caught.value.problems] == [
        f"build.image: pyxis cannot run {image!r}; {hint}"
    ]


def test_another_launcher_cannot() -> None:
    with pytest.raises(PlanError) as caught:
        two_tasks(boxed("pyxis"), batch={"launcher": "mpirun"})
    assert [str(problem) for problem in caught.value.problems] == [
        (
            "build.image: pyxis starts its containers by srun, not by mpirun; write `batch: {launcher: srun}`, or give "
            "--no-container to run with the site's own modules"
        )
    ]
