"""The mirror takes what a remote sends, but never what is outside of the run, or the mirror's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.runs import rundir
from hpcdist.runs.remotes import machines
from hpcdist.runs.remotes.machines import Seen
from hpcdist.runs.rundir import Record, Run, RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return rundir.create(tmp_path / "runs", "train")


def test_a_log_grows_and_another_file_is_replaced(directory: RunDirectory) -> None:
    machines.write(directory, "logs/job.out", 0, b"one\n")
    machines.write(directory, "logs/job.out", 4, b"two\n")
    machines.write(directory, "attempts/0", 0, b"long\n")
    machines.write(directory, "attempts/0", 0, b"x\n")
    assert (directory.logs / "job.out").read_bytes() == b"one\ntwo\n"
    assert (directory.path / "attempts" / "0").read_bytes() == b"x\n"
    assert machines.sizes(directory) == {"logs/job.out": 8}


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "/etc/evil", "logs/../../evil", "record.json", "record.2.json", "job.sh", "options.json",
        "scaling.json", "accounting.json", "trials.tsv", "trials.2.tsv", "pipeline.yml", "call.py",
        ".submit-1", "",
        "call.returned", "call.raised.0", "call.2.returned", "code.json", "code/train.py", "python/x.py",
        "outputs/model", "Record.json", "CALL.returned",  # the file systems of a Mac ignore the case
    ],
)  # fmt: skip
def test_what_a_remote_must_not_write_is_left_alone(directory: RunDirectory, name: str) -> None:
    machines.write(directory, name, 0, b"evil")
    assert sorted(path.name for path in directory.path.rglob("*")) == ["logs"]
    assert sorted(path.name for path in directory.path.parent.iterdir()) == ["train-1"]


def test_the_result_of_a_call_comes_from_a_trusted_remote_alone(directory: RunDirectory) -> None:
    machines.write(directory, "call.returned", 0, b"2", trusted=True)
    assert (directory.path / "call.returned").read_bytes() == b"2"


def test_a_link_is_not_followed(directory: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (directory.logs / "job.out").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"job\.out"):
        machines.write(directory, "logs/job.out", 2, b"evil")
    machines.write(directory, "logs/job.out", 0, b"new")
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_last_answer_is_remembered(directory: RunDirectory) -> None:
    run = Run(directory, Record("train", "t", "s", "local", "d", "2026-01-01T00:00:00+00:00"))
    assert machines.seen(run) == Seen()
    machines.save_seen(directory, Seen(1_000_000_120, 7.5))
    assert (machines.seen(run), machines.seen(run).since) == (Seen(1_000_000_120, 7.5), "200109090146.40")
    directory.write(machines.SEEN, "broken")
    assert machines.seen(run) == Seen()
