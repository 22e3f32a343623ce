from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hpcdist import rundir
from hpcdist.errors import ConfigError
from hpcdist.job import Job, JobState, Status
from hpcdist.rundir import Event, Record, Run, RunDirectory

RECORD = Record(
    name="mnist",
    token="abc",  # noqa: S106 (it opens nothing)
    site="local",
    scheduler="local",
    digest="00",
    created_at="2026-01-01T00:00:00+00:00",
    job_id="12",
    phase="submitted",
)


def made(runs: Path, name: str = "mnist", **changes: Any) -> Run:
    directory = rundir.create(runs, name)
    record = RECORD._replace(name=name, **changes)
    rundir.save(directory, record)
    return Run(directory, record)


def test_names_count_up(tmp_path: Path) -> None:
    runs = tmp_path / "deep" / "runs"
    names = [rundir.create(runs, name).name for name in ("mnist", "mnist", "my job", "mnist-2", "mnist")]
    assert names == ["mnist-1", "mnist-2", "my-job-1", "mnist-2-1", "mnist-3"]


def test_the_next_name_is_told_and_not_taken(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert rundir.next_name(runs, "my job") == "my-job-1"
    rundir.create(runs, "my job")
    assert rundir.next_name(runs, "my job") == "my-job-2"
    assert [path.name for path in runs.iterdir()] == ["my-job-1"]


def test_a_number_is_never_used_again(tmp_path: Path) -> None:
    first, second = (rundir.create(tmp_path, "a") for _ in range(2))
    for folder in (first.logs, first.path):
        folder.rmdir()
    assert (second.name, rundir.create(tmp_path, "a").name) == ("a-2", "a-3")


def test_submitters_at_the_same_time_get_different_directories(tmp_path: Path) -> None:
    names: list[str] = []
    barrier = threading.Barrier(8)

    def submit() -> None:
        barrier.wait()
        names.extend(rundir.create(tmp_path, "mnist").name for _ in range(20))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(names)) == sorted(names)
    assert len(names) == 160


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    run = made(tmp_path)
    for name in ("experiment.yml", "job.sh", "task.sh"):
        run.directory.write(name, "text")
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.directory.path.iterdir()}
    assert modes == {
        "experiment.yml": 0o600,
        "job.sh": 0o700,
        "logs": 0o700,
        "record.json": 0o600,
        "task.sh": 0o700,
    }
    assert run.directory.path.stat().st_mode & 0o777 == 0o700


def test_text_is_written_byte_for_byte(tmp_path: Path) -> None:
    directory = rundir.create(tmp_path, "a")
    directory.write("experiment.yml", "ü: 1\r\n")
    assert (directory.path / "experiment.yml").read_bytes() == "ü: 1\r\n".encode()


def test_records_come_back(tmp_path: Path) -> None:
    run = made(tmp_path)
    assert run.directory.record() == RECORD
    assert run.job == Job("12", "mnist-1", str(tmp_path / "mnist-1"), "abc")
    assert Run(run.directory, RECORD._replace(job_id=None)).job is None
    assert [path.name for path in run.directory.path.iterdir() if path.is_file()] == ["record.json"]


def test_ends_come_back(tmp_path: Path) -> None:
    ended = Status(JobState.FAILED, "FAILED", 5, "NonZeroExitCode", "sacct")
    run = made(tmp_path, ended=ended)
    assert run.directory.record() == RECORD._replace(ended=ended)


def test_the_plan_as_its_file_has_it(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.plan() == {}
    for text, plan in (("{", {}), ("[]", {}), ('{"name": "a"}', {"name": "a"})):
        directory.write("plan.json", text)
        assert directory.plan() == plan


WHOLE = json.dumps(RECORD._asdict())
ENDED = '{"state": "failed", "native": "", "exit_code": 5, "reason": "", "source": "sacct"}'


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"name": "x"}', "\x00", "[" * 100_000,
        WHOLE.replace('"submitted"', '"new"'), WHOLE.replace('"mnist"', "3"),
        WHOLE.replace('"mnist"', "null"), WHOLE.replace('"site"', '"color"'),
        WHOLE.replace("{", '{"color": "red", '),
        *(WHOLE.replace('"ended": null', f'"ended": {ended}') for ended in (
            '"failed"', '{"native": "x"}', ENDED.replace("failed", "lost"), ENDED.replace("5", '"5"'),
            ENDED.replace("failed", "running"),
        )),
    ],
)  # fmt: skip
def test_a_broken_record_does_not_stop_the_listing(tmp_path: Path, text: str) -> None:
    good, bad = made(tmp_path), made(tmp_path)
    bad.directory.record_file.write_text(text)
    (tmp_path / "half-made-1").mkdir()
    (tmp_path / "notes.txt").write_text("")
    runs, errors = rundir.listing(tmp_path)
    assert runs == (good,)
    assert [error.problems[0].place for error in errors]
    assert str(bad.directory.record_file) + ":1:1: this is no record" in str(errors[0])


def test_a_record_that_is_no_file_is_told(tmp_path: Path) -> None:
    folder, link = made(tmp_path).directory, made(tmp_path).directory
    for run in (folder, link):
        run.record_file.unlink()
    folder.record_file.mkdir()
    link.record_file.symlink_to("nowhere")
    runs, errors = rundir.listing(tmp_path)
    assert runs == ()
    assert sorted(map(str, errors)) == [
        f"{run.record_file}:1:1: the record cannot be read: {why}; "
        f"`{run.path}` may be removed if its job is over"
        for run, why in ((folder, "Is a directory"), (link, "No such file or directory"))
    ]
    with pytest.raises(ConfigError, match="the record cannot be read: No such file"):
        rundir.find(tmp_path, link.name)


def test_a_folder_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    runs, errors = rundir.listing(tmp_path)
    assert runs == ()
    assert [error.problems[0].message for error in errors] == [
        "the record cannot be read: Too many levels of symbolic links"
    ]


def test_listing_is_oldest_first_and_may_be_empty(tmp_path: Path) -> None:
    late = made(tmp_path, "a", created_at="2026-02-01T00:00:00+00:00")
    early = made(tmp_path, "b", created_at="2026-01-01T00:00:00+00:00")
    assert rundir.listing(tmp_path) == ((early, late), ())
    assert rundir.listing(tmp_path / "nothing") == ((), ())


def test_find(tmp_path: Path) -> None:
    one, other = made(tmp_path, job_id="12;tursa"), made(tmp_path, job_id="13")
    wanted = {
        "mnist-1": one,
        str(tmp_path / "mnist-2"): other,
        f"{tmp_path}/mnist-2/": other,
        "12": one,
        "12;tursa": one,
        "13": other,
    }
    assert {job: rundir.find(tmp_path, job) for job in wanted} == wanted


def test_find_says_what_there_is(tmp_path: Path) -> None:
    made(tmp_path, job_id="12")
    made(tmp_path, job_id="12")
    with pytest.raises(ConfigError, match="12 is the id of several runs; say which: mnist-1, mnist-2"):
        rundir.find(tmp_path, "12")
    with pytest.raises(ConfigError, match=r"there is no run 'mnits-1' in .*; did you mean 'mnist-1'"):
        rundir.find(tmp_path, "mnits-1")
    with pytest.raises(ConfigError, match="there is no run ''"):
        rundir.find(tmp_path, "")
    for _ in range(6):
        made(tmp_path)
    known = ", ".join(f"mnist-{number}" for number in range(1, 6))
    with pytest.raises(ConfigError, match=f"there is no run '99' in .*; known: {known} and 3 more$"):
        rundir.find(tmp_path, "99")


def test_events(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.events() == ()
    text = "started 12 1700000000 0\nstarted 12\n\xff\nended 12_3 1700000009 5\nended 12 x 5\nended 12 17000"
    (tmp_path / "events").write_bytes(text.encode("latin-1"))
    assert directory.events() == (
        Event("started", "12", 1700000000, "0"),
        Event("ended", "12_3", 1700000009, "5"),
    )


def test_where_runs_are_kept() -> None:
    assert rundir.choose("/a", {"HPCDIST_RUNS_DIR": "/b"}) == Path("/a")
    assert rundir.choose(None, {"HPCDIST_RUNS_DIR": "/b"}) == Path("/b")
    assert rundir.choose(None, {}) == Path.cwd() / "runs"


def test_a_failed_write_leaves_the_old_record(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.directory.record_file.unlink()
    run.directory.record_file.mkdir()
    with pytest.raises(OSError, match="record"):
        rundir.save(run.directory, RECORD)
    assert [path.name for path in run.directory.path.iterdir()] in (
        ["logs", "record.json"],
        ["record.json", "logs"],
    )


def test_times_are_utc() -> None:
    assert rundir.timestamp(1700000000.7) == "2023-11-14T22:13:20+00:00"
