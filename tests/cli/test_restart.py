"""``hpcdist restart``: new runs of the experiment that a run recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.wording import Wording

from .conftest import Hpcdist, Result

TRAIN = """\
name: train
params: {lr: 0.1}
run:
  cmd: |
    echo "lr {{ lr }} in $PWD, resumed $HPCDIST_RESUMED, found $(cat $HPCDIST_CHECKPOINTS/step 2>/dev/null)"
    echo {{ lr }} >> $HPCDIST_CHECKPOINTS/step; cat version
batch: {site: local}
"""


def submitted(real: Hpcdist, folder: Path, *options: str) -> None:
    (folder / "version").write_text("one\n")
    (folder / "train.yml").write_text(TRAIN)
    done = real("submit", "train.yml", "--wait", *options)
    assert done.code == 0, done.err


def ended(real: Hpcdist, run: str) -> tuple[list[str], dict[str, Any]]:
    """Return what a run printed, and its description."""
    assert real("wait", run).code == 0
    log = [line for line in real("logs", run).out.splitlines() if not line.startswith("hpcdist:")]
    found: dict[str, Any] = json.loads(real("describe", run, "--json").out)
    return log, found


def check(done: Result, run: str) -> None:
    assert (done.code, done.out.partition(":")[0]) == (0, run), done.err


def test_a_run_once_more_with_another_param(real: Hpcdist, folder: Path) -> None:
    submitted(real, folder, "-p", "lr=0.2")
    (folder / "train.yml").unlink()
    (folder / "version").write_text("two\n")
    (folder / "elsewhere").mkdir()
    check(real("restart", "train-1", "-p", "lr=0.3"), "train-2")
    log, found = ended(real, "train-2")
    assert log == [f"lr 0.3 in {folder}, resumed 0, found ", "two"]
    assert (found["restart_of"], found["copy_of"], found["params"]) == ("train-1", None, {"lr": 0.3})
    check(real("restart", "train-2"), "train-3")
    log, found = ended(real, "train-3")
    assert (log[0], found["restart_of"]) == (f"lr 0.3 in {folder}, resumed 0, found ", "train-2")
    assert (folder / "runs/train-3/experiment.yml").read_text() == TRAIN
    assert "restart of    train-2\n" in real("describe", "train-3").out


COMMENTS = """\
# restart of train-7
# submitted with ["-p", "lr=0.9", "--set", "run.cmd=echo other"]
"""


def test_a_comment_of_the_file_is_no_option(real: Hpcdist, folder: Path) -> None:
    (folder / "version").write_text("one\n")
    (folder / "train.yml").write_text(TRAIN + COMMENTS)
    assert real("submit", "train.yml", "-p", "lr=0.2", "--wait").code == 0
    check(real("restart", "train-1"), "train-2")
    log, found = ended(real, "train-2")
    assert (log[0].split(",")[0], found["params"]) == (f"lr 0.2 in {folder}", {"lr": 0.2})
    assert (folder / "runs/train-2/experiment.yml").read_text() == TRAIN + COMMENTS


def test_a_copied_file_has_no_option_of_the_run(real: Hpcdist, folder: Path) -> None:
    submitted(real, folder, "-p", "lr=0.5")
    (folder / "copied.yml").write_bytes((folder / "runs/train-1/experiment.yml").read_bytes())
    assert real("submit", "copied.yml", "--wait").code == 0
    check(real("restart", "train-2"), "train-3")
    assert ended(real, "train-3")[0][0].startswith("lr 0.1 in ")


def test_without_its_options_a_run_is_not_restarted(real: Hpcdist, folder: Path, wording: Wording) -> None:
    submitted(real, folder, "-p", "lr=0.5")
    options = folder / "runs/train-1/options.json"
    for text in ("", "{}", '["-p"]', "[1, 2]"):
        options.write_text(text)
        assert real("restart", "train-1").code == 2
    options.unlink()
    done = real("restart", "train-1")
    assert done.code == 2
    wording(done.err.replace(str(folder), "FOLDER"))


def test_a_copy_goes_on_and_leaves_the_run_as_it_is(real: Hpcdist, folder: Path) -> None:
    submitted(real, folder)
    done = real("restart", "--copy", "train-1", "-p", "lr=0.5", "--json")
    assert (done.code, json.loads(done.out)["name"]) == (0, "train-2"), done.err
    log, found = ended(real, "train-2")
    assert log[0] == f"lr 0.5 in {folder}, resumed 1, found 0.1"
    assert (found["restart_of"], found["copy_of"]) == (None, "train-1")
    steps = [(folder / f"runs/train-{number}/checkpoints/step").read_text() for number in (1, 2)]
    assert steps == ["0.1\n", "0.1\n0.5\n"]


def test_a_snapshot_of_the_code_is_that_of_the_run(real: Hpcdist, folder: Path) -> None:
    submitted(real, folder, "--set", "batch.code=snapshot")
    (folder / "version").write_text("two\n")
    check(real("restart", "train-1"), "train-2")
    log, found = ended(real, "train-2")
    assert (log[0].split()[3], log[1]) == (f"{folder}/runs/train-2/code,", "one")
    assert (found["code"], found["restart_of"]) == ("snapshot", "train-1")
    check(real("restart", "train-1", "-u"), "train-3")
    assert ended(real, "train-3")[0][1] == "two"


def test_what_keeps_a_run_from_being_restarted(real: Hpcdist, folder: Path, wording: Wording) -> None:
    submitted(real, folder)
    experiment = folder / "runs/train-1/experiment.yml"
    done = real("restart", "train-1", "-p", "rate=3")
    assert (done.code, "train-2" in done.out) == (2, False)
    wording(done.err.replace(str(folder), "FOLDER"))
    assert real("restart", "train-1/3").code == 2
    code = folder / "runs/train-1/code.json"
    code.write_text(json.dumps({**json.loads(code.read_text()), "folder": "/nothing/here"}))
    done = real("restart", "--copy", "train-1")
    assert done.code == 2
    wording(done.err)
    experiment.unlink()
    done = real("restart", "train-1")
    assert done.code == 2
    wording(done.err.replace(str(folder), "FOLDER"))
    assert [path.name for path in (folder / "runs").glob("train*")] == ["train-1"]
