"""``hpcdist resume``: one more job of the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.wording import Wording

from .conftest import Hpcdist

TRAIN = """\
echo attempt $HPCDIST_ATTEMPT after $(ls $HPCDIST_CHECKPOINTS | wc -l)
touch $HPCDIST_CHECKPOINTS/$HPCDIST_ATTEMPT
[ -e mended ] || exit 4
"""


def test_a_run_goes_on_with_its_checkpoints(real: Hpcdist) -> None:
    experiment = {
        "name": "train",
        "run": {"cmd": TRAIN},
        "environment": {"restart": {"max": 1}},
        "batch": {"site": "local"},
    }
    Path("train.yml").write_text(yaml.safe_dump(experiment))
    assert real("submit", "train.yml", "--wait").code == 4
    Path("mended").touch()
    done = real("resume", "train-1")
    assert (done.code, done.out.startswith("train-1: job ")) == (0, True)
    assert real("wait", "train-1").code == 0
    log = real("logs", "train-1").out.splitlines()
    assert [line.partition("; ")[2] for line in log if "; restart " in line] == ["restart 1 of 1"] * 1
    assert [line for line in log if line.startswith("attempt")] == [
        "attempt 0 after 0",
        "attempt 1 after 1",
        "attempt 2 after 2",
    ]
    parts: list[str] = []
    for number in range(3):
        shown = real("logs", "train-1", "--attempt", str(number))
        assert f"attempt {number} after {number}" in shown.out.splitlines()
        parts += shown.out.splitlines()
        assert real("logs", "train-1", "--attempt", str(number), "-f").out == shown.out
    assert parts == log
    done = real("logs", "train-1", "--attempt", "3")
    assert (done.code, done.err) == (2, "error: train-1 has no attempt 3; it has 0-2\n")
    done = real("resume", "train-1")
    assert (done.code, done.err) == (2, "error: train-1 has completed\n")
    assert [run["state"] for run in json.loads(real("status", "train-1", "--json").out)] == ["completed"]


@pytest.mark.extended
@pytest.mark.parametrize(
    "setting",
    ["hptuning={matrix: {lr: {values: [1, 2]}}}", "batch.site=toy", "batch={site: toy}", "name=other"],
)
def test_what_a_run_keeps_is_refused(real: Hpcdist, setting: str, wording: Wording) -> None:
    Path("train.yml").write_text("name: train\nrun: {cmd: exit 3}\nbatch: {site: local}\n")
    assert real("submit", "train.yml", "--wait").code == 3
    done = real("resume", "train-1", "--set", setting)
    assert (done.code, Path("runs/train-1/record.2.json").exists()) == (2, False), done
    wording(done.err)


def test_a_file_that_was_edited_since_is_named(real: Hpcdist) -> None:
    text = "name: train\nrun: {cmd: exit 3}\nbatch: {site: local}\n"
    file = Path("train.yml")
    file.write_text(text)
    assert real("submit", "train.yml", "--wait").code == 3
    file.write_text(text.replace("exit 3", "exit 0"))
    done = real("resume", "train-1")
    said = (
        f"note: {file.absolute()} differs from what was submitted, with which train-1 continues; "
        "`hpcdist submit` submits the file, `resume` takes changes by --set and -p\n"
    )
    assert (done.code, done.err) == (0, said)
    assert real("wait", "train-1").code == 3
    for unchanged in (lambda: file.write_text(text), file.unlink):
        unchanged()
        assert (real("resume", "train-1").err, real("wait", "train-1").code) == ("", 3)


def test_a_run_of_an_earlier_version_goes_on(real: Hpcdist) -> None:
    cmd = '"[ -e done ] || { touch done; exit 1; }"'
    Path("train.yml").write_text(f"name: train\nrun: {{cmd: {cmd}}}\nbatch: {{site: local}}\n")
    assert real("submit", "train.yml", "--wait").code == 1
    files = Path("runs/train-1/runtime/files")
    files.write_text(files.read_text().partition("\n")[2])
    assert real("resume", "train-1").code == 0
    assert real("wait", "train-1").code == 0


def test_cancel_names_the_job_that_lives(real: Hpcdist) -> None:
    Path("train.yml").write_text(
        "name: train\nrun: {cmd: '[ -e go ] && sleep 60; exit 3'}\nbatch: {site: local}\n"
    )
    assert real("submit", "train.yml", "--wait").code == 3
    Path("go").touch()
    assert real("resume", "train-1").code == 0
    second = json.loads(Path("runs/train-1/record.2.json").read_text())["job_id"]
    assert real("cancel", "train-1").out == f"train-1: requested to cancel job {second}\n"


def test_a_run_whose_job_was_refused_gets_that_one(real: Hpcdist) -> None:
    Path("train.yml").write_text("name: train\nrun: {cmd: echo trained}\nbatch: {site: local}\n")
    assert real("submit", "train.yml", "--wait").code == 0
    file = Path("runs/train-1/record.json")
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "phase": "refused", "job_id": None, "ended": None})
    )
    Path("runs/train-1/events").unlink()
    assert real("resume", "train-1").code == 0
    real("wait", "train-1")
    assert [path.name for path in Path("runs/train-1").glob("record*.json")] == ["record.json"]


def test_a_site_that_a_variable_named_is_found_again_without_it(
    real: Hpcdist, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = (
        "name: own\ndescription: a test\nscheduler: local\nlauncher: processes\nnode_types: {n: {cpus: 2}}\n"
    )
    Path("own.yml").write_text(site)
    Path("train.yml").write_text("name: train\nrun: {cmd: '[ -e mended ]'}\n")
    monkeypatch.setenv("HPCDIST_SITE", "./own.yml")
    assert real("submit", "train.yml", "--wait").code == 1
    monkeypatch.delenv("HPCDIST_SITE")
    Path("mended").touch()
    assert real("resume", "train-1").code == 0
    assert real("wait", "train-1").code == 0
