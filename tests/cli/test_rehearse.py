"""``hpcdist rehearse``, on this machine alone."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcdist.base.resources import shipped
from tests.wording import Wording

from .conftest import Hpcdist

EXAMPLES = shipped("site_configs").parent / "examples"
TRAIN = """\
import os, time
from hpcdist_tracking import log_metrics
file = os.path.join(os.environ["HPCDIST_CHECKPOINTS"], "step")
step = int(open(file).read()) if os.path.exists(file) else 0
while True:
    time.sleep(1.5)
    step += 1
    log_metrics(step=step, loss=1 / step)
    with open(file + ".part", "w") as new:
        new.write(str(step))
    os.replace(file + ".part", file)
"""
"""A training that writes its checkpoints whole, and goes on from the last one."""


def written(**data: Any) -> str:
    """Write an experiment whose program is that training; return its file."""
    Path("train.py").write_text(TRAIN)
    experiment = {
        "run": {"cmd": f"{sys.executable} train.py"},
        "environment": {"restart": {"on": ["failure"]}},
        "batch": {"site": "local", "launcher": "processes"},
    }
    Path("train.yml").write_text(yaml.safe_dump({**experiment, **data}))
    return "train.yml"


def test_a_training_that_goes_on_passes(real: Hpcdist) -> None:
    done = real("rehearse", written(), "--minutes", "60", "--seed", "2", "--mtbf", "1000", "--json")
    assert done.code == 0, done.out + done.err
    found = json.loads(done.out)
    attempts = [(each["kind"], each["went_on"], each["shown_by"]) for each in found["attempts"]]
    assert attempts == [("write", None, None), ("node", True, "steps"), ("last", True, "steps")]
    assert (found["run"], found["verdict"], found["findings"]) == ("train-rehearsal-1", "passes", [])
    assert (found["node_mtbf_hours"], found["node_mtbf_source"], found["nodes"]) == (1000, "--mtbf", 1)
    assert (found["write_bytes"], found["recommended_notice_seconds"]) == (1, 60)
    done = real("rehearse", "--report", "train-rehearsal-1")
    assert (done.code, done.out.splitlines()[-1]) == (0, "train-rehearsal-1: passes")
    assert "(The Llama 3 Herd of Models, arXiv:2407.21783)" in done.out


@pytest.mark.extended
@pytest.mark.parametrize(("went_on", "code"), [(True, 0), (False, 84)])
def test_without_tracked_steps_the_reading_of_a_file_that_is_replaced_later_shows_it(
    real: Hpcdist, code: int, *, went_on: bool
) -> None:
    """A file that replaces another one may have the inode of one before."""
    file = written()
    unread = re.sub(r"step = int.*", "step = 0", TRAIN)
    text = TRAIN if went_on else unread
    Path("train.py").write_text(text.replace("    log_metrics(step=step, loss=1 / step)\n", ""))
    done = real("rehearse", file, "--minutes", "60", "--seed", "1", "--json")
    assert done.code == code, done.out + done.err
    attempts = [(each["went_on"], each["shown_by"]) for each in json.loads(done.out)["attempts"]]
    assert attempts[1] == (went_on, "reading")


@pytest.mark.extended
def test_a_training_that_writes_in_place_is_refused(real: Hpcdist) -> None:
    """The one of the examples; it takes as long as needed to look at it."""
    Path("examples").symlink_to(EXAMPLES)
    options = ("--site", "local", "--set", "batch.launcher=processes", "--minutes", "60", "--seed", "1")
    slow = (
        "-p",
        "steps=100000",
        "-p",
        "pause=1.3",
        "-p",
        "saving=0.5",
        "--set",
        "environment.restart.on=[failure]",
    )
    done = real("rehearse", "examples/in_place_checkpoint.yml", *options, *slow)
    assert done.code == 84, done.out + done.err
    assert (
        "wrong: checkpoint.json is written over in place: a kill in the meantime leaves half of it"
        in done.out
    )
    assert done.out.splitlines()[-1] == "in-place-checkpoint-rehearsal-1: refused"


@pytest.mark.parametrize(
    "data",
    [
        {"environment": {}},
        {"batch": {"site": "toy"}, "hptuning": {"matrix": {"x": {"values": [1, 2]}}}},
        {"batch": {"site": "toy", "array": "0-3"}},
    ],
    ids=["no restart", "search", "array"],
)
def test_what_cannot_be_rehearsed(
    hpcdist: Hpcdist, data: dict[str, Any], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("HPCDIST_SITE_PATH", "sites")
    done = hpcdist("rehearse", written(**data))
    assert (done.code, Path("runs").exists()) == (2, False)
    wording(done.err)


def test_a_run_that_is_no_rehearsal_has_no_report(real: Hpcdist) -> None:
    assert real("submit", written(run={"cmd": "true"}), "--wait").code == 0
    done = real("rehearse", "--report", "train-1")
    assert (done.code, "error: train-1 is not a rehearsal" in done.err) == (2, True)


def test_a_rehearsal_is_not_taken_for_a_submission_of_its_settings(real: Hpcdist) -> None:
    file = written(run={"cmd": "exit 3"})
    assert real("rehearse", file, "--minutes", "60").code == 1
    record = Path("runs/train-rehearsal-1/record.json")
    interrupted = json.loads(record.read_text()) | {"phase": "accepted"}
    record.write_text(json.dumps(interrupted))
    done = real("submit", file, "--set", "batch.walltime=01:00:00")
    assert (done.code, done.out.partition(":")[0]) == (0, "train-1"), done
