"""An image of a registry is made a file once, and a half of one is never used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.layers.containers.sites import boxed, two_tasks

ENROOT = """#!/bin/bash
# Writes the image in two parts, as mksquashfs might, and refuses to replace a file.
[[ ! -e $3 && $4 == docker://x.io#y:1 ]] || exit 3
echo fetched >>"$FOLDER/log"
echo half >"$3"
[[ ! -e $FOLDER/broken ]] || exit 4
sleep 1
echo whole >>"$3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("bin", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "enroot").write_text(ENROOT)
    (tmp_path / "bin" / "enroot").chmod(0o755)
    return tmp_path


def started(folder: Path) -> subprocess.Popen[str]:
    """Start the lines of a script that fetch an image."""
    plan = two_tasks(boxed("pyxis"), "x.io/y:1")
    [lines] = [word.text for word in plan.environment.setup if "hpcdist_image" in word.text]
    fail = 'fail() { echo "hpcdist: $*"; exit 86; }'
    environ = {"HPCDIST_RUN_DIR": f"{folder}/run", "FOLDER": str(folder)}
    return subprocess.Popen(
        ["bash", "-c", f'{fail}\n{lines}\necho "use $hpcdist_image"'],
        env={"PATH": f"{folder}/bin:{os.defpath}", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(job: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = job.communicate(timeout=60)
    return job.returncode, output


def test_two_elements_of_an_array_use_the_same_one_which_is_whole(folder: Path) -> None:
    use = f"use {folder}/run/x-io-y-1.sqsh\n"
    jobs = [started(folder) for _ in range(2)]
    assert [ended(job) for job in jobs] == [(0, use)] * 2
    fetched = (folder / "log").read_text()
    assert ended(started(folder)) == (0, use)
    assert (folder / "log").read_text() == fetched
    assert [(path.name, path.read_text()) for path in (folder / "run").iterdir()] == [
        ("x-io-y-1.sqsh", "half\nwhole\n")
    ]


def test_half_an_image_is_never_used(folder: Path) -> None:
    (folder / "broken").touch()
    here = os.uname().nodename
    assert ended(started(folder)) == (86, f"hpcdist: enroot cannot fetch docker://x.io#y:1 on {here}\n")
    (folder / "broken").unlink()
    assert ended(started(folder))[0] == 0
    assert (folder / "run/x-io-y-1.sqsh").read_text() == "half\nwhole\n"
