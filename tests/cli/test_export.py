"""``hpcdist export`` of real local jobs to files; `tests/tracking` has what a server of MLflow gets."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from hpcdist.base.errors import ExitCode
from tests.wording import Wording

from .conftest import Hpcdist, argv, run_real

PROGRAM = "from hpcdist_tracking import log_metrics; log_metrics(step=1, loss=0.5)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run it twice; return the directory of the runs."""
    folder = tmp_path_factory.mktemp("export")
    batch = "batch: {site: local, launcher: processes}"
    (folder / "train.yml").write_text(f"run: {{cmd: \"python3 -c '{PROGRAM}'\"}}\n{batch}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # where there is no git
        for _ in range(2):
            done = run_real("submit", "train.yml", "--wait")
            assert done.code == 0, done.err
    return folder / "runs"


@pytest.mark.extended
def test_every_file_at_once(runs: Path, hpcdist: Hpcdist) -> None:
    words = ("--csv", "all.csv", "-o", "model.tar", "--tensorboard", "tb", "--runs-dir", str(runs))
    done = hpcdist("export", "train-*", *words)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "archive: 20 files, model.tar",
        "table: 2 points, all.csv",
        "train-1: 1 points, tb/train-1",
        "train-2: 1 points, tb/train-2",
    ]
    assert sorted(file.name for file in Path("tb").iterdir()) == ["train-1", "train-2"]
    assert len(Path("all.csv").read_text().splitlines()) == 3
    with tarfile.open("model.tar") as tar:
        assert "train-2/job.sh" in tar.getnames()


def test_csv_on_stdout_has_nothing_else(runs: Path, hpcdist: Hpcdist) -> None:
    done = hpcdist("export", "train-1", "--csv", "-", "--runs-dir", str(runs))
    head, line = done.out.splitlines()
    assert head == "run,job,metric,rank,step,time,value"
    assert (line.split(",")[0], line.split(",")[2:5], line.split(",")[6]) == (
        "train-1",
        ["loss", "0", "1"],
        "0.5",
    )


def test_an_archive_on_stdout_is_that_of_a_file(runs: Path) -> None:
    words = ("export", "train-1", "--runs-dir", str(runs), "-o")
    piped = subprocess.run(argv([*words, "-"]), capture_output=True, check=True)
    assert run_real(*words, "a.tar").code == 0
    assert (piped.stdout, piped.stderr) == (Path("a.tar").read_bytes(), b"")


def test_json(runs: Path, hpcdist: Hpcdist) -> None:
    done = hpcdist("export", "train-1", "--csv", "all.csv", "--json", "--runs-dir", str(runs))
    assert json.loads(done.out) == [{"run": "table", "target": "all.csv", "new": {"points": 1}}]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--csv", "a", "--follow"),
        ("--csv", "-", "--json"),
        ("--csv", "-", "-o", "-"),
        ("--csv", "one", "-o", "./one"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together(
    runs: Path, hpcdist: Hpcdist, words: tuple[str, ...], wording: Wording
) -> None:
    done = hpcdist("export", "train-1", *words, "--runs-dir", str(runs))
    assert done.code == ExitCode.CONFIG
    wording(done.err)


def test_a_file_that_cannot_be_read_is_a_warning_and_all_else_goes_on(
    runs: Path, hpcdist: Hpcdist, tmp_path: Path, wording: Wording
) -> None:
    shutil.copytree(runs, tmp_path / "copy")
    [record] = (tmp_path / "copy/train-1/tracking").rglob("rank-0.*")
    record.unlink()
    record.symlink_to("/etc/passwd")
    done = hpcdist("export", "train-1", "train-2", "--csv", "all.csv", "--runs-dir", str(tmp_path / "copy"))
    assert done.code == 0
    wording(done.err.replace(str(record), "RECORD"))
    assert [line.split(",")[0] for line in Path("all.csv").read_text().splitlines()] == ["run", "train-2"]


def test_a_folder_that_cannot_be_written(runs: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    done = hpcdist("export", "train-1", "--csv", "none/all.csv", "--runs-dir", str(runs))
    assert done.code == ExitCode.CONFIG
    wording(done.err)
