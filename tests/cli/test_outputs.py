"""``hpcdist outputs``: what a real job recorded, and what became of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.wording import Wording

from .conftest import Hpcdist, run_real

PROGRAM = """
import os
from hpcdist_tracking import log_artifact, log_model, outputs
os.makedirs("folder/deep", exist_ok=True)
for name in ("model.pt", "data", "gone", "folder/one", "folder/deep/two"):
    open(name, "w").write(name)
log_model("model.pt", accuracy=0.5)
for name in ("data", "gone", "folder"):
    log_artifact(name)
open(os.path.join(outputs(), "plain.txt"), "w").write("12345")
"""


@pytest.fixture
def outputs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the program; return its outputs."""
    folder = tmp_path_factory.mktemp("outputs")
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(PROGRAM)
    (folder / "train.yml").write_text(
        f"name: train\nrun: {{cmd: {sys.executable} train.py}}\nbatch: {{site: local, launcher: processes}}\n"
    )
    done = run_real("submit", "train.yml", "--wait")
    assert done.code == 0, done.err
    return folder / "runs" / "train-1" / "outputs"


def checked(hpcdist: Hpcdist) -> tuple[int, dict[str, str | None]]:
    shown = hpcdist("outputs", "train-1", "--check", "--json")
    return shown.code, {one["path"]: one["check"] for one in json.loads(shown.out)}


@pytest.mark.extended
def test_outputs_and_what_became_of_them(outputs: Path, hpcdist: Hpcdist) -> None:
    shown = hpcdist("outputs", "train-1")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split() for line in shown.out.splitlines()]
    assert [row[:3] for row in rows] == [
        ["path", "kind", "bytes"],
        ["data", "artifact", "4"],
        ["folder", "artifact", "25"],
        ["gone", "artifact", "4"],
        ["model.pt", "model", "8"],
        ["plain.txt", "file", "5"],
    ]
    assert (rows[1][3], rows[5][3]) == ("3a6eb0790f39", "-")
    good: dict[str, str | None] = dict.fromkeys(("data", "folder", "gone", "model.pt"), "ok")
    assert checked(hpcdist) == (0, good | {"plain.txt": None})

    (outputs / "gone").unlink()
    (outputs / "data").write_text("DATA")
    (outputs / "folder" / "deep" / "two").rename(outputs / "folder" / "two")
    (outputs / "model.pt").unlink()
    (outputs / "model.pt").symlink_to("/etc/hostname")
    (outputs / "away").symlink_to("/etc")
    os.mkfifo(outputs / "pipe")
    bad: dict[str, str | None] = {
        "away": None,
        "data": "changed",
        "folder": "changed",
        "gone": "missing",
        "model.pt": "unreadable",
        "pipe": None,
        "plain.txt": None,
    }
    assert checked(hpcdist) == (3, bad)
    rows = [line.split() for line in hpcdist("outputs", "train-1", "--check").out.splitlines()]
    assert rows[0] == ["path", "kind", "bytes", "sha256", "check"]
    assert [row[4] for row in rows[1:]] == ["-", "changed", "changed", "missing", "unreadable", "-", "-"]


@pytest.mark.extended
def test_records_of_paths_outside_are_left_out(outputs: Path, hpcdist: Hpcdist) -> None:
    [file] = outputs.parent.glob("tracking/*/*/rank-0.*")
    with file.open("a") as stream:
        for path in ("/etc/passwd", "//etc/passwd", "../record.json", "a/../../record.json", "", "a\0"):
            entry = {"kind": "model", "path": path, "sha256": "0", "bytes": 1}
            stream.write(json.dumps({"at": 1, "artifact": entry}) + "\n")
    assert [*checked(hpcdist)[1]] == ["data", "folder", "gone", "model.pt", "plain.txt"]


@pytest.mark.extended
def test_elements_of_an_array_have_folders_of_their_own(outputs: Path, hpcdist: Hpcdist) -> None:
    run = outputs.parent
    [job] = (path for path in (run / "tracking").iterdir())
    job.rename(job.with_name(f"{job.name}_3"))
    (outputs / "3").mkdir()
    for path in [path for path in outputs.iterdir() if path.name != "3"]:
        path.rename(outputs / "3" / path.name)
    code, found = checked(hpcdist)
    assert (code, found["3/model.pt"], found["3/plain.txt"]) == (0, "ok", None)


def test_no_outputs(outputs: Path, hpcdist: Hpcdist) -> None:
    for file in outputs.parent.glob("tracking/*/*/*"):
        file.unlink()
    for path in outputs.iterdir():
        path.rename(outputs.parent / path.name)
    shown = hpcdist("outputs", "train-1")
    assert (shown.code, shown.out, shown.err) == (0, "", f"note: train-1 has no outputs in {outputs}\n")
    assert hpcdist("outputs", "train-1", "--json").out == "[]\n"


@pytest.mark.parametrize(
    "words",
    [(), ("a-1", "a-2"), ("a-1", "--sort", "loss"), ("--models", "--check"), ("--models", "--get", "*")],
    ids=" ".join,
)
def test_options_that_do_not_fit(hpcdist: Hpcdist, words: tuple[str, ...], wording: Wording) -> None:
    shown = hpcdist("outputs", *words)
    assert (shown.code, shown.out) == (2, "")
    wording(shown.err.splitlines()[-1])
