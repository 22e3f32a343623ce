"""CSCS' Container Engine: srun's option, and the file that the job writes for it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.plan.model import Plan
from hpcdist.script.renderer import render
from tests.layers.containers.sites import IMAGE, boxed, two_tasks
from tests.plans import COMMAND, WRAPPER, words

toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest needs tomli
ANNOTATIONS = {
    "com.hooks.aws_ofi_nccl.enabled": {"value": "true", "library": "nccl"},
    "com.hooks.cxi.enabled": "true",
    "com.hooks.x": {"value": "1", "library": "rccl"},
}
PYTORCH = "nvcr.io#nvidia/pytorch:24.08-py3"


def test_srun_gets_the_file() -> None:
    machine = boxed("edf", annotations=ANNOTATIONS, args=["--network=x"], env={"B": "x y"}, mpi="pmix")
    found = words(two_tasks(machine))
    assert found[found.index("--mpi=pmix") :] == [
        "--mpi=pmix",
        '--environment="$environment"',
        "--network=x",
        WRAPPER,
        "env",
        "B=x y",
        COMMAND,
    ]


def written(plan: Plan, folder: Path, **environ: str) -> dict[str, Any]:
    """Return the file that the job writes in a folder with a space."""
    (folder / "a b").mkdir()
    for name in ("x.sqsh", "mine.toml"):
        (folder / "a b" / name).touch()
    script = render(plan)
    own = {"HOME": str(folder), "HPCDIST_RUN_DIR": str(folder)}
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": str(plan.placement.nodes)}
    done = subprocess.run(
        ["bash"],
        input=script[: script.index("# Each task checks")],
        cwd=folder / "a b",
        env={"PATH": os.defpath, **own, **job, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    found: dict[str, Any] = toml.loads((folder / "environment.7.toml").read_text())
    return found


def test_the_file_has_the_image_and_what_the_job_needs(tmp_path: Path) -> None:
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS, binds=["/opt/x", "$HOME/d:/d:ro"]))
    here = f"{tmp_path}/a b"
    assert written(plan, tmp_path) == {
        "image": PYTORCH,
        "workdir": here,
        "mounts": [f"{here}:{here}", "/opt/x:/opt/x", f"{tmp_path}/d:/d:ro", f"{tmp_path}:{tmp_path}"],
        "annotations": {"com": {"hooks": {"aws_ofi_nccl": {"enabled": "true"}, "cxi": {"enabled": "true"}}}},
        "env": {"NVIDIA_VISIBLE_DEVICES": "all", "PYTHONUNBUFFERED": "1", "A": "it's $x"},
    }


def test_values_are_strings_in_which_the_engine_expands_nothing(tmp_path: Path) -> None:
    section = {"env_vars": {"A": 'a\n"b" \\n', "B": "$x ${y}"}}
    found = written(two_tasks(boxed("edf"), environment=section), tmp_path)
    assert found["env"] == {"PYTHONUNBUFFERED": "1", "A": 'a\n"b" \\n', "B": "$x $${y}"}


def test_without_gpus_and_with_a_folder_of_the_image(tmp_path: Path) -> None:
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS), "x.sqsh", None, run={"cmd": "x", "workdir": "/w"})
    found = written(plan, tmp_path)
    assert (found["image"], found["workdir"]) == (f"{tmp_path}/a b/./x.sqsh", "/w")
    assert (found["annotations"], "NVIDIA_VISIBLE_DEVICES" in found["env"]) == (
        {"com": {"hooks": {"cxi": {"enabled": "true"}}}},
        False,
    )


@pytest.mark.parametrize("image", ["mine", "mine.toml", "{}/edf/mine.toml"])
def test_an_environment_of_the_users_is_what_it_is_based_on(tmp_path: Path, image: str) -> None:
    (tmp_path / "edf").mkdir()
    (tmp_path / "edf" / "mine.toml").write_text("")
    image = image.format(tmp_path)
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS), image)
    found = written(plan, tmp_path, EDF_PATH=f"/nowhere:{tmp_path}/edf")
    places = {"mine.toml": f"{tmp_path}/a b/./mine.toml"}
    assert "image" not in found
    assert (found["base_environment"], "annotations" in found) == (places.get(image, image), False)
    assert found["env"] == {"PYTHONUNBUFFERED": "1", "A": "it's $x"}


def test_a_mount_may_name_a_variable_of_the_tasks(tmp_path: Path) -> None:
    build = {"image": "ubuntu", "binds": ["$DATA/x:/x"]}
    section = {"env_vars": {"DATA": "/big"}, "resources": {"gpu": {"requests": 1}}}
    found = written(two_tasks(boxed("edf"), build=build, environment=section), tmp_path)
    assert found["mounts"][1] == "/big/x:/x"


def test_other_names_are_images(tmp_path: Path) -> None:
    (tmp_path / ".edf").mkdir()
    (tmp_path / ".edf" / "mine.toml").write_text("")
    assert written(two_tasks(boxed("edf"), "ubuntu"), tmp_path)["image"] == "ubuntu"


@pytest.mark.parametrize(
    ("image", "hint"), [("x.sif", "write a registry's image"), ("a@sha256:b", "write its tag")]
)
def test_images_that_it_cannot_run(image: str, hint: str) -> None:
    with pytest.raises(PlanError, match=f"edf cannot run {image!r}; {hint}"):
        two_tasks(boxed("edf"), image)


def test_its_environments_are_not_for_others() -> None:
    for runtime_name in ("apptainer", "pyxis", "shifter", "podman-hpc"):
        with pytest.raises(PlanError, match=f"{runtime_name} cannot run 'x.toml'"):
            two_tasks(boxed(runtime_name), "x.toml")


def test_its_entrypoint_would_run_once_a_node() -> None:
    with pytest.raises(PlanError, match="edf does not start the entrypoint of an image"):
        two_tasks(boxed("edf"), IMAGE, run={"entrypoint": "image"})


def test_the_option_that_it_takes_once() -> None:
    with pytest.raises(PlanError, match="--environment=x is set by hpcdist, and edf takes it once"):
        two_tasks(boxed("edf"), batch={"launcher": {"args": ["--environment=x"]}})
