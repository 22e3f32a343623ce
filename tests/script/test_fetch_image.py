"""An image of a registry is made a file once, by the first who can, and a half of one is never used."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.host.resources import shipped
from hpcdist.script.renderer import runtime

LINE = "fetch_image sqsh enroot import --output docker://x#y:1"
ENROOT = """#!/bin/bash
# Writes the image in two parts, as mksquashfs might, and refuses to replace a file.
[[ ! -e $3 && $4 == docker://x#y:1 ]] || exit 3
echo fetched >>"${0%/*}/../log"
echo half >"$3"
[[ ! -e ${0%/*}/../broken ]] || exit 4
sleep 1
echo whole >>"$3"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("bin", "run", "jobs/1", "jobs/2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "enroot").write_text(ENROOT)
    (tmp_path / "bin" / "enroot").chmod(0o755)
    return tmp_path


def started(folder: Path, job: int) -> subprocess.Popen[str]:
    functions, _, _ = runtime((shipped("templates"),)).rpartition("\nmain\n")
    text = f'{functions}\n{LINE}\necho "use $hpcdist_image"\n'
    environ = {"HPCDIST_RUN_DIR": str(folder / "run"), "HPCDIST_JOB_DIR": str(folder / "jobs" / str(job))}
    return subprocess.Popen(
        ["bash", "-s"],
        env={"PATH": f"{folder}/bin:{os.defpath}", **environ},
        stdin=_file(folder / f"job{job}.sh", text),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _file(script: Path, text: str) -> int:
    script.write_text(text)
    return os.open(script, os.O_RDONLY)


def ended(job: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = job.communicate(timeout=60)
    return job.returncode, output


def test_two_elements_of_an_array_fetch_it_once(folder: Path) -> None:
    use = f"use {folder}/run/image.sqsh\n"
    jobs = [started(folder, number) for number in (1, 2)]
    assert [ended(job) for job in jobs] == [(0, use)] * 2
    assert ended(started(folder, 1)) == (0, use)
    assert (folder / "log").read_text() == "fetched\n"
    assert (folder / "run/image.sqsh").read_text() == "half\nwhole\n"
    assert sorted(path.name for path in folder.rglob("image*")) == ["image.sqsh"]


def test_half_an_image_is_never_used(folder: Path) -> None:
    (folder / "broken").touch()
    (folder / "jobs/1/image.sqsh").write_text("of an earlier start, which was killed")
    code, output = ended(started(folder, 1))
    assert (code, output.split(";")[0]) == (
        86,
        f"hpcdist: enroot cannot fetch docker://x#y:1 on {os.uname().nodename} (exit code 4)",
    )
    assert [*folder.rglob("image*")] == []


def test_whoever_is_gone_is_not_waited_for(folder: Path) -> None:
    lock = folder / "run/image.lock"
    lock.mkdir()
    os.utime(lock, (time.time() - 300,) * 2)
    assert ended(started(folder, 1))[0] == 0
    assert not lock.exists()


@pytest.mark.extended
def test_whoever_still_fetches_is_waited_for(folder: Path) -> None:
    (folder / "run/image.lock").mkdir()
    job = started(folder, 1)
    with pytest.raises(subprocess.TimeoutExpired):
        job.communicate(timeout=3)
    (folder / "run/image.sqsh").write_text("x")
    assert ended(job)[0] == 0
    assert not (folder / "log").exists()


def test_without_the_program_each_node_fetches_it(folder: Path) -> None:
    (folder / "bin/enroot").unlink()
    here = os.uname().nodename
    assert ended(started(folder, 1)) == (
        0,
        f"hpcdist: there is no enroot on {here}, so each node fetches docker://x#y:1 by itself\nuse x#y:1\n",
    )
