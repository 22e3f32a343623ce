"""Which runs may be removed, and that nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError, HpcdistError
from hpcdist.runs import finding, job_states, removing, rundir, submission
from hpcdist.runs.job_states import GRACE
from hpcdist.runs.rundir import Event, Phase, Run
from hpcdist.testing import failed
from tests.runs.test_submission import REQUEST, Queue
from tests.wording import Wording


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def run(tmp_path: Path, queue: Queue) -> Run:
    return submission.submit(REQUEST, tmp_path, queue.services)


def refusal(run: Run, queue: Queue, *, force: bool = False) -> tuple[int, str]:
    """Return why it may not be removed, with the exit code; 0 if it may."""
    (report,) = job_states.status([run], queue.services)
    try:
        removing.check(report, queue.services, force=force)
    except HpcdistError as error:
        return error.exit_code, str(error.problems[0].message)
    return 0, ""


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_live_job_is_never_removed(run: Run, queue: Queue, state: str) -> None:
    queue.jobs["100"] = state
    assert refusal(run, queue)[0] == ConfigError.exit_code
    assert refusal(run, queue, force=True)[0] == ConfigError.exit_code


def test_a_job_in_a_state_without_a_name_here_is_live(run: Run, queue: Queue) -> None:
    queue.jobs["100"] = "DREAMING"
    assert refusal(run, queue, force=True) == (2, "mnist-1 is listed by the batch system")


def test_an_ended_job_may_be_removed(run: Run, queue: Queue) -> None:
    queue.jobs["100"] = "COMPLETED"
    run.directory.append_event(Event("ended", "100", 1_700_000_001, "0"))
    queue.jobs.clear()
    assert refusal(run, queue) == (0, "")


def test_an_unknown_end_needs_force(run: Run, queue: Queue) -> None:
    for program in ("squeue", "sacct", "scontrol"):
        queue.answers[program] = failed(1, "slurm is down")
    why = "the end of mnist-1 is unknown: the batch system did not answer: slurm is down"
    assert refusal(run, queue) == (5, why)
    assert refusal(run, queue, force=True) == (0, "")
    queue.answers.clear()
    queue.jobs.clear()
    assert refusal(run, queue)[0] == 5
    queue.time += 130
    assert refusal(finding.find(run.directory.path.parent, run.name), queue)[0] == 5  # vanished


def test_a_run_that_another_process_may_be_submitting_is_kept(tmp_path: Path, queue: Queue) -> None:
    queue.last_save = 1
    with pytest.raises(BaseException):  # noqa: B017, PT011 - a kill before the batch system is called
        submission.submit(REQUEST, tmp_path, queue.services)
    (run,), _ = finding.list_runs(tmp_path)
    assert run.record.phase is Phase.CREATED
    assert refusal(run, queue) == (5, "the end of mnist-1 is unknown: its submission may be going on")
    queue.time += GRACE
    assert refusal(run, queue) == (0, "")


def test_a_run_that_was_submitted_in_the_meantime_is_kept(run: Run, wording: Wording) -> None:
    before = run._replace(record=replace(run.record, phase=Phase.CREATED, job_id=None))
    with pytest.raises(ConfigError) as error:
        removing.remove(before)
    wording(str(error.value))
    assert run.directory.script.exists()


def test_links_are_removed_and_not_what_they_point_to(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious").write_text("x")
    (run.directory.path / "folder").symlink_to(data)
    (run.directory.logs / "file").symlink_to(data / "precious")
    removing.remove(run)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["data"]
    assert (data / "precious").read_text() == "x"


def test_a_run_directory_that_is_a_link_is_kept(run: Run, tmp_path: Path, wording: Wording) -> None:
    link = tmp_path / "link"
    link.symlink_to(run.directory.path)
    with pytest.raises(ConfigError) as error:
        removing.remove(finding.find(tmp_path, "link"))
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    assert run.directory.script.exists()


def test_a_removal_that_was_interrupted_leaves_no_run(run: Run, tmp_path: Path) -> None:
    left = tmp_path / f"{rundir.REMOVED}012"
    run.directory.path.rename(left)  # as a kill after the renaming leaves it
    assert finding.list_runs(tmp_path) == ((), ())
    removing.remove_leftovers(tmp_path)
    assert not left.exists()


def test_it_is_renamed_before_anything_is_removed(run: Run) -> None:
    seen: list[tuple[bool, bool]] = []
    removing.remove_directory(
        run.directory,
        lambda path: seen.append((run.directory.path.exists(), (path / "record.json").exists())),
    )
    assert seen == [(False, True)]


def test_read_only_folders_are_made_writable(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    folders = (data, run.directory.path / "cache", run.directory.path / "cache" / "deep")
    for folder in folders:
        folder.mkdir()
    (folders[1] / "link").symlink_to(data)
    for folder in reversed(folders):
        folder.chmod(0o555)
    seen: list[int] = []
    removing.remove_directory(
        run.directory,
        lambda path: seen.extend((path / name).stat().st_mode & 0o777 for name in ("cache", "cache/deep")),
    )
    assert (seen, data.stat().st_mode & 0o777) == ([0o755, 0o755], 0o555)


def test_the_size_is_what_is_freed(run: Run, tmp_path: Path) -> None:
    outputs = run.directory.path / "outputs"
    before = removing.size(run.directory)
    outputs.mkdir()
    (outputs / "model").write_bytes(b"x" * 1000)
    os.link(outputs / "model", outputs / "latest")
    (outputs / "data").write_bytes(b"x" * 500)
    os.link(outputs / "data", tmp_path / "data")
    (outputs / "link").symlink_to("/etc/passwd")
    os.mkfifo(outputs / "pipe")
    assert removing.size(run.directory) - before == 1000


def test_last_used(run: Run) -> None:
    run.directory.append_event(Event("started", "100", 1_800_000_000, "0"))
    assert removing.last_used(run) == 1_800_000_000
