from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError
from hpcdist.experiment.batch import ArraySpec
from hpcdist.runs import finding, rundir
from hpcdist.runs.rundir import Event, Phase, Record, Run, RunDirectory
from hpcdist.runs.stored_plan import StoredPlan
from hpcdist.schedulers.job import Job, JobState, Status
from tests.plans import stored
from tests.wording import Wording

RECORD = Record(
    name="mnist",
    token="abc",  # noqa: S106 (it opens nothing)
    site="local",
    scheduler="local",
    digest="00",
    created_at="2026-01-01T00:00:00+00:00",
    job_id="12",
    phase=Phase.SUBMITTED,
)


def made(runs: Path, name: str = "mnist", **changes: Any) -> Run:
    directory = rundir.create(runs, name)
    record = replace(RECORD, name=name, **changes)
    rundir.save(directory, record)
    return Run(directory, record)


def test_names_count_up(tmp_path: Path) -> None:
    runs = tmp_path / "deep" / "runs"
    names = [rundir.create(runs, name).name for name in ("mnist", "mnist", "my job", "mnist-2", "mnist")]
    assert names == ["mnist-1", "mnist-2", "my-job-1", "mnist-2-1", "mnist-3"]


def test_next_name_creates_nothing(tmp_path: Path) -> None:
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


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    run = made(tmp_path)
    for name in ("experiment.yml", "job.sh"):
        run.directory.write(name, "text")
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.directory.path.iterdir()}
    assert modes == {
        "experiment.yml": 0o600,
        "job.sh": 0o700,
        "logs": 0o700,
        "record.json": 0o600,
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
    assert Run(run.directory, replace(RECORD, job_id=None)).job is None
    assert [path.name for path in run.directory.path.iterdir() if path.is_file()] == ["record.json"]


def test_ends_come_back(tmp_path: Path) -> None:
    ended = Status(JobState.FAILED, "FAILED", 5, "NonZeroExitCode", "sacct")
    run = made(tmp_path, ended=ended)
    assert run.directory.record() == replace(RECORD, ended=ended)


def test_the_plan_as_its_file_has_it(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.plan() == StoredPlan()
    for text, plan in (
        ("{", StoredPlan()),
        ("[]", StoredPlan()),
        (stored("1-3"), StoredPlan(array=ArraySpec.parse("1-3"))),
    ):
        directory.write("plan.json", text)
        assert directory.plan() == plan


WHOLE = json.dumps(to_builtins(RECORD))
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
    runs, errors = finding.list_runs(tmp_path)
    assert runs == (good,)
    assert [error.problems[0].place for error in errors]
    assert str(bad.directory.record_file) + ":1:1: invalid record" in str(errors[0])


def test_a_record_that_is_no_file_is_reported(tmp_path: Path, wording: Wording) -> None:
    folder, link = made(tmp_path).directory, made(tmp_path).directory
    for run in (folder, link):
        run.record_file.unlink()
    folder.record_file.mkdir()
    link.record_file.symlink_to("nowhere")
    runs, errors = finding.list_runs(tmp_path)
    assert runs == ()
    wording(sorted(str(error).replace(str(tmp_path), "TMP") for error in errors))
    with pytest.raises(ConfigError) as error:
        finding.find(tmp_path, link.name)
    wording(str(error.value).replace(str(tmp_path), "TMP"))


def test_an_unreadable_directory_is_reported(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "loop").symlink_to("loop")
    runs, errors = finding.list_runs(tmp_path)
    assert runs == ()
    wording(str(error).replace(str(tmp_path), "TMP") for error in errors)


def test_listing_is_oldest_first_and_may_be_empty(tmp_path: Path) -> None:
    late = made(tmp_path, "a", created_at="2026-02-01T00:00:00+00:00")
    early = made(tmp_path, "b", created_at="2026-01-01T00:00:00+00:00")
    assert finding.list_runs(tmp_path) == ((early, late), ())
    assert finding.list_runs(tmp_path / "nothing") == ((), ())


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
    assert {job: finding.find(tmp_path, job) for job in wanted} == wanted


def test_find_lists_known_runs(tmp_path: Path, wording: Wording) -> None:
    made(tmp_path, job_id="12")
    made(tmp_path, job_id="12")
    with pytest.raises(ConfigError) as error:
        finding.find(tmp_path, "12")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    with pytest.raises(ConfigError) as error:
        finding.find(tmp_path, "mnits-1")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    with pytest.raises(ConfigError) as error:
        finding.find(tmp_path, "")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    for _ in range(6):
        made(tmp_path)
    with pytest.raises(ConfigError) as error:
        finding.find(tmp_path, "99")
    wording(str(error.value).replace(str(tmp_path), "TMP"))


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


@pytest.mark.parametrize("name", ["record.json", "events", "plan.json"])
@pytest.mark.parametrize("kind", ["FIFO", "link", "endless"])
def test_only_regular_files_of_limited_size_are_read(tmp_path: Path, name: str, kind: str) -> None:
    run = made(tmp_path).directory
    run.write("events", "started 12 1700000000 0\n")
    run.write("plan.json", stored("1"))
    file = run.path / name
    file.unlink()
    if kind == "FIFO":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    runs, errors = finding.list_runs(tmp_path)
    read = (len(runs), len(errors), len(run.events()), bool(run.plan().array))
    whole = {"record.json": (1, 0, 1, 1), "events": (1, 0, 1, 1), "plan.json": (1, 0, 1, 1)}[name]
    lacks = {"record.json": (-1, 1, 0, 0), "events": (0, 0, -1, 0), "plan.json": (0, 0, 0, -1)}[name]
    assert read == tuple(map(sum, zip(whole, lacks, strict=True)))


@pytest.mark.parametrize(
    "line",
    [
        f"ended 12 {'9' * 5000} 0", "ended 12 999999999999 0", f"ended 12 1 {'9' * 5000}",
        "ended 12 1 99999999999", "started \u0661 1\u0661 0", "started --help 1 0", "started -1 1 0",
        f"started {'9' * 300} 1 0", "started 12 1 \x1b[2J", "started \x1b]0;x\x07 1 0",
        "started 12 1 a\u2028started 13 1 0",
    ],
)  # fmt: skip
def test_invalid_events_are_skipped(tmp_path: Path, line: str) -> None:
    (tmp_path / "events").write_text(f"{line}\nstarted 13 99999999999 0\n")
    (event,) = RunDirectory(tmp_path).events()
    assert event == Event("started", "13", 99999999999, "0")
    assert rundir.timestamp(event.at) == "5138-11-16T09:46:39+00:00"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job_id", ""),
        ("job_id", "--help"),
        ("job_id", "1\n2"),
        ("job_id", "x y"),
        ("job_id", None),
        ("token", ""),
        ("token", "a\nPATH="),
        ("created_at", "yesterday"),
        ("submitted_at", "2026-99-99"),
        ("missing_since", ""),
        ("submitted_at", "0001-01-01T00:00:00+23:00"),
        ("scheduler", "nosuch"),
        ("phase", ["x"]),
    ],
    ids=str,
)
def test_a_record_with_invalid_values_is_refused(
    tmp_path: Path, key: str, value: Any, wording: Wording
) -> None:
    run = made(tmp_path).directory
    run.record_file.write_text(json.dumps(to_builtins(RECORD) | {key: value}))
    with pytest.raises(ConfigError) as error:
        run.record()
    wording(str(error.value).replace(str(tmp_path), "TMP"))


def test_every_text_of_a_record_can_be_written(tmp_path: Path) -> None:
    run = made(tmp_path, site="a\ud800", ended=Status(JobState.FAILED, reason="\udcff"))
    record = run.directory.record()
    assert (record.site, record.ended and record.ended.reason) == ("a\\ud800", "\\udcff")


def test_a_long_message_does_not_lose_the_record(tmp_path: Path) -> None:
    run = made(tmp_path, message="x" * (1 << 21), ended=Status(JobState.FAILED, reason="y" * (1 << 21)))
    record = run.directory.record()
    assert (record.job_id, record.message[:2], record.ended and record.ended.reason[:2]) == ("12", "xx", "yy")


def test_runs_of_others_are_not_read(tmp_path: Path) -> None:
    run = made(tmp_path)
    stranger = os.geteuid() + 1
    with pytest.raises(ConfigError, match=f"it belongs to {ownership.name_of(os.geteuid())}") as raised:
        run.directory.record(user=stranger)
    assert isinstance(raised.value.__cause__, PermissionError)
    with pytest.raises(PermissionError), run.directory.opened(user=stranger):
        pass


def test_a_runs_directory_writable_by_others_is_refused(tmp_path: Path, wording: Wording) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(0o775)
    with pytest.raises(ConfigError) as error:
        rundir.create(runs, "a")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    assert [*runs.iterdir()] == []
    assert rundir.create(runs, "a", trusts=lambda folder: folder == runs).name == "a-1"


def test_runs_are_made_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = rundir.create(tmp_path / "deep" / "runs", "a")
        run.write("job.sh", "")
    finally:
        os.umask(before)
    modes = [
        path.stat().st_mode & 0o777 for path in (run.script, run.path, run.path.parent, tmp_path / "deep")
    ]
    assert modes == [0o700, 0o700, 0o700, 0o755]


def test_links_are_never_written_through(tmp_path: Path) -> None:
    run = made(tmp_path).directory
    (tmp_path / "mine").write_text("mine")
    (run.path / "job.sh").symlink_to(tmp_path / "mine")
    run.write("job.sh", "text")
    assert ((tmp_path / "mine").read_text(), run.script.read_text()) == ("mine", "text")


def test_an_element_that_a_run_does_not_have_is_an_error(tmp_path: Path, wording: Wording) -> None:
    run = made(tmp_path, "tune")
    run.directory.write("plan.json", stored("0-3,8"))
    assert finding.find_element(tmp_path, "tune-1/08") == (run, "8")
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "tune-1/4")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    run.directory.write("plan.json", '{"sweep": {"trials": 5}}')
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "tune-1/6")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    again = run.directory._replace(number=2)
    rundir.save(run.directory, replace(run.record, trials="1-5", jobs=2))
    rundir.save(again, replace(run.record, trials="3,6"))
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "tune-1/7")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    rundir.save(run.directory, run.record)
    run.directory.write("plan.json", '{"request": {"walltime": {"seconds": 60}}}')
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "tune-1/6")
    wording(str(error.value).replace(str(tmp_path), "TMP"))


def test_an_element_of_an_array_stands_behind_a_slash(tmp_path: Path, wording: Wording) -> None:
    run = made(tmp_path, "tune")
    assert finding.find_element(tmp_path, "tune-1/3") == (run, "3")
    assert finding.find_element(tmp_path, "tune-1") == (run, "")
    assert finding.find_element(tmp_path, str(run.directory.path)) == (run, "")
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "nope-1/3")
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    with pytest.raises(ConfigError) as error:
        finding.find_element(tmp_path, "tune-1/x")
    wording(str(error.value).replace(str(tmp_path), "TMP"))


def test_each_job_of_a_run_has_its_own_events(tmp_path: Path) -> None:
    first = made(tmp_path, "tune")
    first = first._replace(record=replace(first.record, job_id="12"))
    second = Run(first.directory._replace(number=2), replace(first.record, job_id="13"))
    unknown = Run(first.directory._replace(number=3), replace(first.record, job_id=None))
    log = [Event("started", job, 100, "0") for job in ("12_1", "13", "13_2", "99")]
    whole = first._replace(later=(second, unknown))
    assert whole.by_job(log) == [[log[0], log[3]], [log[1], log[2]], []]
    assert second.by_job(log) == [[log[1], log[2]]]
