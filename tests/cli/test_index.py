"""``hpcdist status --offline``: an index of runs, and what it reads."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from msgspec.structs import replace

from hpcdist.cli import main
from hpcdist.runs import finding, rundir
from hpcdist.runs.rundir import Phase, Record, RunDirectory
from hpcdist.schedulers.job import JobState, Status, Usage

from .conftest import Hpcdist, run_real

PROGRAM = "from hpcdist_tracking import *; log_params(batch=32); log_tags('mine'); log_metrics(loss={})"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of runs: two that have run, and one that was never submitted."""
    folder = tmp_path_factory.mktemp("runs")
    for loss, tags in ((0.5, "[a, b]"), (0.25, "[a]")):
        (folder / "train.yml").write_text(
            f"name: train\ntags: {tags}\nparams: {{lr: 0.1}}\n"
            f"run: {{cmd: '{sys.executable} -c \"{PROGRAM.format(loss)}\"'}}\n".replace("'mine'", "''mine''")
            + "batch: {site: local, launcher: processes}\n"
        )
        done = run_real("submit", str(folder / "train.yml"), "--wait", "--runs-dir", str(folder / "runs"))
        assert done.code == 0, done.err
    old = rundir.create(folder / "runs", "old")
    rundir.save(old, Record("old", "t", "local", "local", "d", "2026-01-01T00:00:00+00:00"))
    return folder / "runs"


def names(hpcdist: Hpcdist, runs: Path, *words: str) -> list[str]:
    """Return the runs that status shows, which are the same with --offline."""
    found = []
    for offline in ((), ("--offline",)):
        shown = hpcdist("status", *offline, "--runs-dir", str(runs), *words)
        assert shown.code == 0, shown.err
        found.append([line.split()[0] for line in shown.out.splitlines()[1:]])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.extended
def test_the_index(three: Path, hpcdist: Hpcdist) -> None:
    words = ("status", "--offline", "--runs-dir", str(three))
    ids = [run.record.job_id for run in finding.list_runs(three)[0]]
    shown = [line.split() for line in hpcdist(*words).out.splitlines()]
    assert shown[0] == ["run", "job", "site", "state", "age"]
    assert [line[:4] for line in shown[1:]] == [
        ["old-1", "-", "local", "unsubmitted"],
        ["train-1", ids[1], "local", "completed"],
        ["train-2", ids[2], "local", "completed"],
    ]
    shown = [line.split() for line in hpcdist(*words, "-l", "--metric", "loss").out.splitlines()]
    assert shown[0][5:] == ["GPU-hours", "tags", "params", "loss"]
    assert [line[5:] for line in shown[1:]] == [
        ["-", "-", "-", "-"],
        ["0.00", "a,", "b,", "mine", "lr=0.1", "batch=32", "0.5"],
        ["0.00", "a,", "mine", "lr=0.1", "batch=32", "0.25"],
    ]


def test_the_index_as_json(three: Path, hpcdist: Hpcdist) -> None:
    old, first, _ = json.loads(hpcdist("status", "--offline", "--runs-dir", str(three), "--json").out)
    assert {key: first[key] for key in ("name", "state", "gpu_hours", "params", "tags", "metrics")} == {
        "name": "train-1",
        "state": "completed",
        "gpu_hours": 0.0,
        "params": {"lr": 0.1, "batch": 32},
        "tags": ["a", "b", "mine"],
        "metrics": {"loss": 0.5},
    }
    assert (old["phase"], old["gpu_hours"]) == ("created", None)
    assert old["age"] > 86400


def test_filters(three: Path, hpcdist: Hpcdist) -> None:
    assert names(hpcdist, three, "--tag", "a", "--tag", "b") == ["train-1"]
    assert names(hpcdist, three, "--tag", "mine") == ["train-1", "train-2"]
    assert names(hpcdist, three, "--state", "unsubmitted", "--state", "running") == ["old-1"]
    assert names(hpcdist, three, "--since", "1d") == ["train-1", "train-2"]
    assert names(hpcdist, three, "--since", "2025-12-01", "--name", "*-1") == ["old-1", "train-1"]
    for words in ((), ("--offline",)):
        shown = hpcdist("status", *words, "--runs-dir", str(three), "--tag", "none")
        assert (shown.out, shown.err) == ("", f"note: none of the 3 runs in {three} matches\n")
    for bad in (
        "--offline --since soon",
        "--offline --state dreaming",
        "--offline --when",
        "--long",
        "--cost",
    ):
        assert hpcdist("status", *bad.split(), "--runs-dir", str(three)).code == 2
    shown = hpcdist("status", "--offline", "train-2", "--runs-dir", str(three))
    assert [line.split()[0] for line in shown.out.splitlines()] == ["run", "train-2"]


def test_records_that_cannot_be_read_are_a_warning(hpcdist: Hpcdist, folder: Path) -> None:
    directory = made(folder / "runs")
    attempt = directory.path / "tracking" / "1" / "0.0"
    attempt.mkdir(parents=True)
    file = attempt / "rank-0.host.1.jsonl"
    file.mkdir()
    shown = hpcdist("status", "--offline", "-l")
    assert (shown.code, shown.err) == (0, f"warning: {file} was not read: Is a directory\n")
    assert shown.out.splitlines()[1].split()[0] == "a-1"


def made(runs: Path) -> RunDirectory:
    directory = rundir.create(runs, "a")
    ended = Status(JobState.COMPLETED, exit_code=0)
    now = rundir.timestamp(time.time())
    rundir.save(directory, Record("a", "t", "local", "local", "d", now, Phase.SUBMITTED, "1", ended=ended))
    return directory


def plans_read(work: Callable[[], object]) -> int:
    """Return how often this work reads a plan."""
    found = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code is RunDirectory.plan.__code__

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize(("words", "reads"), [((), 0), (("--name", "b*", "-l"), 0), (("-l",), 4)])
def test_plans_are_read_only_where_they_are_shown(folder: Path, words: tuple[str, ...], reads: int) -> None:
    for _ in range(4):
        made(folder / "runs")
    assert plans_read(lambda: main(["status", "--offline", *words], standalone_mode=False)) == reads


USED = Usage(
    started=90.0, ended=190.0, elapsed=100, cpus=2, gpus=1, cpu_seconds=50.0, state=JobState.COMPLETED
)


def several(runs: Path, *jobs: Sequence[Usage], log: str, goes_on: bool = True) -> None:
    """Make a run of these jobs, whose accounting is kept; jobs have the numbers 12, 13 and so on."""
    directory = rundir.create(runs, "a")
    ended = Status(JobState.COMPLETED, exit_code=0)
    for number, usage in enumerate(jobs, 1):
        own = directory._replace(number=number)
        record = Record(
            "a", "t", "x", "slurm", "d", "1970-01-01T00:00:00+00:00", Phase.SUBMITTED, str(11 + number)
        )
        more = {"jobs": len(jobs)} if number == 1 else {"goes_on": goes_on}
        rundir.save(own, replace(record, ended=ended, **more))
        directory.write(own.own("accounting.json"), msgspec.json.encode(usage).decode())
    (directory.path / "events").write_text(log)


ONE = "started {0} 90 0\nended {0} 190 0\n"


@pytest.mark.parametrize(
    ("jobs", "log"),
    [
        ([[USED], [USED]], ONE.format(12) + ONE.format(13)),
        ([[USED], []], ONE.format(12)),
        (
            [[msgspec.structs.replace(USED, element=0), msgspec.structs.replace(USED, element=1)]],
            ONE.format("12_0") + ONE.format("12_1"),
        ),
    ],
    ids=["resumed", "a follower that never started", "array"],
)
def test_the_cost_of_several_jobs_is_the_sum_that_describe_has(
    jobs: list[list[Usage]], log: str, folder: Path, hpcdist: Hpcdist
) -> None:
    several(folder / "runs", *jobs, log=log)
    (row,) = json.loads(hpcdist("status", "--offline", "--cost", "--json").out)
    shown = json.loads(hpcdist("describe", "a-1", "--json").out)["cost"]
    assert row["cost"]["elapsed_seconds"] == shown["elapsed_seconds"] == 100 * log.count("started")
    assert row["cost"] == {key: value for key, value in shown.items() if key != "starts"}
