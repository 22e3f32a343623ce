"""Copies with which a new run begins: files of its own, and links that lead to them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.runs import copying
from hpcdist.runs.code_copy import CodeResult
from hpcdist.runs.rundir import RunDirectory
from tests.wording import Wording


@pytest.fixture
def old(tmp_path: Path) -> RunDirectory:
    for name in ("outputs", "checkpoints/epoch-1"):
        (tmp_path / "old" / name).mkdir(parents=True)
    return RunDirectory(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> RunDirectory:
    (tmp_path / "new").mkdir()
    return RunDirectory(tmp_path / "new")


def test_files_are_copies_with_their_times(old: RunDirectory, new: RunDirectory) -> None:
    weights = old.path / "checkpoints/epoch-1/weights"
    weights.write_bytes(b"w" * 3_000_000)
    os.utime(weights, (50, 50))
    (old.path / "outputs/run.sh").write_text("x")
    (old.path / "outputs/run.sh").chmod(0o777)
    (old.path / "outputs/empty").touch()
    os.mkfifo(old.path / "outputs/fifo")
    copying.copy(old, new)
    copied = new.path / "checkpoints/epoch-1/weights"
    assert copied.read_bytes() == weights.read_bytes()
    assert (copied.stat().st_mtime, (new.path / "outputs/run.sh").stat().st_mode & 0o777) == (50, 0o755)
    assert sorted(path.name for path in (new.path / "outputs").iterdir()) == ["empty", "run.sh"]
    with copied.open("r+b") as stream:
        stream.write(b"changed in place")
    assert weights.read_bytes() == b"w" * 3_000_000
    assert (new.path / "copied").read_text() == "old\n"


def test_links_within_a_run_lead_to_the_copies(old: RunDirectory, new: RunDirectory, tmp_path: Path) -> None:
    targets = {
        "last": old.path / "checkpoints/epoch-1",
        "near": Path("epoch-1"),
        "far": tmp_path / "data",
        "gone": old.path / "nothing",
    }
    for name, target in targets.items():
        (old.path / "checkpoints" / name).symlink_to(target)
    copying.copy(old, new)
    assert {name: (new.path / "checkpoints" / name).readlink() for name in targets} == {
        "last": new.path / "checkpoints/epoch-1",
        "near": Path("epoch-1"),
        "far": tmp_path / "data",
        "gone": new.path / "nothing",
    }


def test_a_run_without_outputs_has_nothing_to_copy(new: RunDirectory, tmp_path: Path) -> None:
    copying.copy(RunDirectory(tmp_path / "nothing"), new)
    assert [path.name for path in new.path.iterdir()] == ["copied"]


def test_the_code_of_a_run(old: RunDirectory, new: RunDirectory) -> None:
    (old.path / "code" / "own").mkdir(parents=True)
    (old.path / "code/own/train.py").write_text("pass")
    start = str(old.path / "code/own")
    (old.path / "code.json").write_text(json.dumps({"source": "snapshot", "start": start}))
    (old.path / "code.diff").write_text("+pass\n")
    code = copying.copy_code(old, new)
    expected = {"source": "snapshot", "start": str(new.path / "code/own")}
    assert code == CodeResult(
        {"code.json": f"{json.dumps(expected, indent=2)}\n", "code.diff": "+pass\n"},
        str(new.path / "code/own"),
        action=f"copy {old.path / 'code'}, to {new.path / 'code'}",
    )
    assert (new.path / "code/own/train.py").read_text() == "pass"


def test_code_that_is_gone(old: RunDirectory, new: RunDirectory, wording: Wording) -> None:
    with pytest.raises(ConfigError) as error:
        copying.copy_code(old, new)
    wording(str(error.value).replace(str(old.path.parent), "TMP"))
