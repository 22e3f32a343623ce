from __future__ import annotations

import pytest

from tests.layers.containers.sites import IMAGE, boxed, inside, two_tasks

BINDS = ['--bind "$PWD:$PWD"', '${HPCDIST_RUN_DIR:+--bind "$HPCDIST_RUN_DIR:$HPCDIST_RUN_DIR"}']


@pytest.mark.parametrize("program", ["apptainer", "singularity"])
def test_words(program: str) -> None:
    machine = boxed(
        program,
        binds=["/opt/fabric", "/run/$JOB:/run/x:ro"],
        args=["--cleanenv"],
        gpu_args=["--nvccli"],
        library_path=["/opt/fabric/lib", "$CRAY_LD_LIBRARY_PATH"],
        prefix=["/host/adapt.sh", "a b"],
        env={"A": 1, "B": "x y", "C": True},
    )
    assert inside(two_tasks(machine, "/images/x.sif")) == [
        program,
        "exec",
        "--nv",
        *BINDS,
        '--bind "/opt/fabric:/opt/fabric"',
        '--bind "/run/$JOB:/run/x:ro"',
        '--pwd "$PWD"',
        "--cleanenv",
        "--nvccli",
        "/images/x.sif",
        "/host/adapt.sh",
        "a b",
        "bash",
        "-c",
        'export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; shift; exec "$@"',
        "hpcdist",
        '"/opt/fabric/lib:$CRAY_LD_LIBRARY_PATH"',
        "env",  # without A, which the experiment sets
        "B=x y",
        "C=true",
    ]


@pytest.mark.parametrize(
    ("library", "gpu", "words"),
    [("nccl", 1, ["--nv"]), ("rccl", 1, ["--rocm"]), ("oneccl", 1, []), ("nccl", None, [])],
)
def test_gpus(library: str, gpu: int | None, words: list[str]) -> None:
    plan = two_tasks(boxed("apptainer", library=library, gpu_args=["--x"]), "./x", gpu=gpu)
    args = ["--x"] if gpu else []
    assert inside(plan) == ["apptainer", "exec", *words, *BINDS, '--pwd "$PWD"', *args, "./x"]


def test_images_that_have_all() -> None:
    plan = two_tasks(boxed("apptainer", gpus=False), "./x")
    assert inside(plan) == ["apptainer", "exec", *BINDS, '--pwd "$PWD"', "./x"]


@pytest.mark.parametrize(
    ("image", "word"),
    [(IMAGE, f"docker://{IMAGE}"), ("oras://ghcr.io/x", "oras://ghcr.io/x"), ("x.sqsh", "")],
)
def test_images(image: str, word: str) -> None:
    plan = two_tasks(boxed("apptainer"), image)
    pull = f'apptainer pull --force "$hpcdist_image.$$" {word} && mv "$hpcdist_image.$$" "$hpcdist_image"'
    assert inside(plan)[-1] == ('"$hpcdist_image"' if word else image)
    assert [pull in line.text for line in plan.environment.setup if "fetch" in line.text] == [True] * bool(
        word
    )
