"""CSCS' Container Engine: srun's option, and the file that the job writes for it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcdist.errors import PlanError
from hpcdist.host.resources import shipped
from hpcdist.plan.model import Plan
from hpcdist.script.plain import render_plain
from hpcdist.script.renderer import render_job, runtime
from tests.layers.containers.sites import IMAGE, boxed, two_tasks
from tests.plans import WRAPPER, words

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
        '--environment="$HPCDIST_JOB_DIR/environment.toml"',
        "--network=x",
        WRAPPER,
        "env",
        "B=x y",
        'bash "$HPCDIST_JOB_DIR/command.sh"',
    ]


def written(plan: Plan, folder: Path, **environ: str) -> tuple[dict[str, Any], str]:
    """Return the file that the job writes in a folder with unusual letters, and what it prints."""
    here = folder / 'a "b" \\ ${c}'
    here.mkdir()
    functions, _, _ = runtime((shipped("templates"),)).rpartition("\nmain\n")
    text = f"{render_job(plan, run_dir=str(folder))}\n{functions}"
    line = next(word.text for word in plan.environment.setup if word.text.startswith("write_edf"))
    text += f"\ntrap - EXIT\nHPCDIST_RUN_DIR=/run HPCDIST_JOB_DIR={folder}\n{line}\n"
    (folder / "job.sh").write_text(text)
    done = subprocess.run(
        ["bash", folder / "job.sh"],
        cwd=here,
        env={"PATH": os.defpath, "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return toml.loads((folder / "environment.toml").read_text()), done.stderr


def test_the_file_has_the_image_and_what_the_job_needs(tmp_path: Path) -> None:
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS, binds=["/opt/x", "$HOME/d:/d:ro"]))
    here = f'{tmp_path}/a "b" \\ $${{c}}'
    assert written(plan, tmp_path) == (
        {
            "image": PYTORCH,
            "workdir": here,
            "mounts": [f"{here}:{here}", "/run:/run", "/opt/x:/opt/x", f"{tmp_path}/d:/d:ro"],
            "annotations": {
                "com": {"hooks": {"aws_ofi_nccl": {"enabled": "true"}, "cxi": {"enabled": "true"}}}
            },
            "env": {"NVIDIA_VISIBLE_DEVICES": "all", "PYTHONUNBUFFERED": "1", "A": "it's $x"},
        },
        "",
    )


def test_without_gpus_and_with_a_folder_of_the_image(tmp_path: Path) -> None:
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS), "x.sqsh", None, run={"cmd": "x", "workdir": "/w"})
    found, _ = written(plan, tmp_path)
    assert (found["image"], found["workdir"]) == (f'{tmp_path}/a "b" \\ $${{c}}/./x.sqsh', "/w")
    assert (found["annotations"], "NVIDIA_VISIBLE_DEVICES" in found["env"]) == (
        {"com": {"hooks": {"cxi": {"enabled": "true"}}}},
        False,
    )


@pytest.mark.parametrize("image", [None, "mine", "mine.toml", "/e/mine.toml", "ubuntu"])
def test_a_plain_script_writes_the_same(tmp_path: Path, image: str | None) -> None:
    (tmp_path / "edf").mkdir()
    (tmp_path / "edf" / "mine.toml").write_text("")
    machine = boxed("edf", annotations=ANNOTATIONS, binds=["/opt/x", "$HOME/d:/d:ro"])
    plan = two_tasks(machine, image) if image else two_tasks(machine)
    before, _ = written(plan, tmp_path, EDF_PATH=f"/nowhere:{tmp_path}/edf")
    here = tmp_path / "here"
    here.mkdir()
    script = render_plain(plan)
    begin, end = script.index("[[ $PWD${HPCDIST_RUN"), script.index("# Each task checks")
    exports = "\n".join(line for line in script.splitlines() if line.startswith("export "))
    text = f"{exports}\n{script[begin:end]}\necho $environment"
    environ = {"PATH": os.defpath, "HOME": str(tmp_path), "EDF_PATH": f"/nowhere:{tmp_path}/edf"}
    environ |= {"SLURM_JOB_ID": "7", "HPCDIST_RUN_DIR": str(tmp_path)}
    done = subprocess.run(
        ["bash"], input=text, cwd=here, env=environ, capture_output=True, text=True, check=True
    )
    found = toml.loads((tmp_path / "environment.7.toml").read_text())
    old, own = f'{tmp_path}/a "b" \\ $${{c}}', str(here)
    expected = {
        key: value.replace(old, own) if isinstance(value, str) else value for key, value in before.items()
    }
    expected["mounts"] = sorted(
        mount.replace(old, own).replace("/run:/run", f"{tmp_path}:{tmp_path}") for mount in before["mounts"]
    )
    assert {"annotations": {}, **found, "mounts": sorted(found["mounts"])} == {
        "annotations": {},
        **expected,
    }, done.stderr


@pytest.mark.parametrize("image", ["mine", "mine.toml", "/e/mine.toml"])
def test_an_environment_of_the_users_is_what_it_is_based_on(tmp_path: Path, image: str) -> None:
    (tmp_path / "edf").mkdir()
    (tmp_path / "edf" / "mine.toml").write_text("")
    plan = two_tasks(boxed("edf", annotations=ANNOTATIONS), image)
    found, printed = written(plan, tmp_path, EDF_PATH=f"/nowhere:{tmp_path}/edf")
    places = {"mine.toml": f'{tmp_path}/a "b" \\ $${{c}}/./mine.toml'}
    assert "image" not in found
    assert (found["base_environment"], found["annotations"]) == (places.get(image, image), {})
    assert found["env"] == {"PYTHONUNBUFFERED": "1", "A": "it's $x"}
    assert ("mine is your environment" in printed) is (image == "mine")


def test_a_mount_may_name_a_variable_of_the_tasks(tmp_path: Path) -> None:
    build = {"image": "ubuntu", "binds": ["$DATA/x:/x"]}
    section = {"env_vars": {"DATA": "/big"}, "resources": {"gpu": {"requests": 1}}}
    found, _ = written(two_tasks(boxed("edf"), build=build, environment=section), tmp_path)
    assert found["mounts"][-1] == "/big/x:/x"


def test_other_names_are_images(tmp_path: Path) -> None:
    (tmp_path / ".edf").mkdir()
    (tmp_path / ".edf" / "mine.toml").write_text("")
    assert written(two_tasks(boxed("edf"), "ubuntu"), tmp_path)[0]["image"] == "ubuntu"


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
