# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from tests.layers.containers.sites import IMAGE, boxed, inside, two_tasks
from tests.plans import COMMAND, WRAPPER, words


def test_srun_options_and_wrapper_inside_the_container() -> None:
    machine = boxed("pyxis", binds=["/opt/x"], args=["--no-container-mount-home"], env={"B": "x y"})
    plan = two_tasks(machine)
    found = words(plan)
    first = next(index for index, text in enumerate(found) if text.startswith("--container"))
    assert (found[0], found[first:]) == (
        "srun",
        [
            '--container-image="$hpcdist_image"',
            '--container-mounts="$PWD:$PWD${HPCDIST_RUN_DIR:+,$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR},/opt/x:/opt/x"',
            '--container-workdir="$PWD"',
            "--container-env=PYTHONUNBUFFERED,A",
            "--no-container-mount-home",
            WRAPPER,
            "env",
            "B=x y",
            COMMAND,
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
    [("python:3", "python:3"), ("/i/x.sqsh", "/i/x.sqsh"), ("x.sqsh", "./x.sqsh"), ("a.b/c", "a.b#c")],
)
def test_images(image: str, word: str) -> None:
    plan = two_tasks(boxed("pyxis", fetch_once=False), image)
    assert f"--container-image={word}" in words(plan)
    assert inside(plan) == fetched(plan) == []


def fetched(plan: Plan) -> list[str]:
    return [line.text for line in plan.environment.setup if "fetch" in line.text]


def test_an_image_of_a_registry_is_fetched_once_unless_the_file_says_otherwise() -> None:
    line = (
        "hpcdist_image=${HPCDIST_RUN_DIR:-$PWD}/pytorch-24-08-py3.sqsh\n"
        '[[ -s $hpcdist_image ]] || { enroot import --output "$hpcdist_image.$$" '
        "'docker://nvcr.io#nvidia/pytorch:24.08-py3' && "
        'mv "$hpcdist_image.$$" "$hpcdist_image"; } ||\n'
        '  fail "enroot cannot fetch docker://nvcr.io#nvidia/pytorch:24.08-py3 on $(uname -n)"'
    )
    own = {"image": IMAGE, "fetch_once": True}
    never = boxed("pyxis", fetch_once=False)
    assert fetched(two_tasks(boxed("pyxis"))) == fetched(two_tasks(never, build=own)) == [line]
    plan = two_tasks(boxed("pyxis"), build=own | {"fetch_once": False})
    assert (fetched(plan), [text for text in words(plan) if "image=" in text]) == (
        [],
        ["--container-image=nvcr.io#nvidia/pytorch:24.08-py3"],
    )
    assert fetched(two_tasks(boxed("pyxis"), "x.sqsh")) == []


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


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--container-image=x", "write `build: {image: ...}`"),
        ("--container-workdir=/w", "write `run: {workdir: ...}`"),
        ("--container-mounts=/a:/a", "write `build: {binds: [...]}`"),
    ],
)
def test_an_option_that_pyxis_takes_once_is_refused_with_its_key(option: str, hint: str) -> None:
    with pytest.raises(PlanError) as caught:
        two_tasks(boxed("pyxis"), batch={"launcher": {"args": [option]}})
    assert str(caught.value) == (
        f"batch.launcher.args[0]: {option} is set by hpcdist, and pyxis takes it once; {hint}"
    )
    free = two_tasks(boxed("pyxis"), batch={"launcher": {"args": ["--container-writable"]}})
    assert "--container-writable" in [word.text for word in free.words]
