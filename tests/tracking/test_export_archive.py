"""The archive is unpacked, checked against its own sums, and made twice."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import Problem, warning
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.tracking import export
from tests.tracking.made import AT, COMPLETED, CREATED, kept, logged, made
from tests.tracking.test_polyaxon import client_models


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = made(tmp_path / "runs", f"started 7 {AT} 0", f"ended 7 {AT + 1} 0")
    for name, text in {
        "experiment.yml": "env: {API_KEY: sesame-open}\n",
        "job.sh": "#!/bin/bash\nexport API_KEY=sesame-open\n",
        "secret": "of the doctor",
    }.items():
        (run.directory.path / name).write_text(text)
    entries = (kept(run, "m.pt", "weights", "model", loss=0.5), kept(run, "sub/a b\\n.txt", "notes"))
    (run.directory.outputs / "scratch").write_text("not recorded")
    logged(run, "7/0.0/rank-0", {"step": 1, "metrics": {"loss": 0.5}}, *entries)
    return run


def write(path: Path, *runs: Run) -> list[Problem]:
    problems: list[Problem] = []
    found = (export.read(Report(run, COMPLETED), AT + 9.0)[0] for run in runs)
    export.save_archive(found, path, problems.extend)
    return problems


def unpacked(path: Path, folder: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.mode, m.type) for m in tar} == {
            (0, 0, "", "", AT, 0o644, tarfile.REGTYPE)
        }
    folder.mkdir()
    subprocess.run(["tar", "-xf", path, "-C", folder], check=True)
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_all_that_shows_where_a_model_came_from(run: Run, tmp_path: Path) -> None:
    assert write(tmp_path / "a.tar", run) == []
    files = unpacked(tmp_path / "a.tar", tmp_path / "out")
    assert [*files] == [
        f"train-1/{name}"
        for name in (
            *("MANIFEST.json", "README.md", "SHA256SUMS", "experiment.yml", "job.sh", "metrics.csv"),
            *("outputs/m.pt", "outputs/sub/a b\\n.txt", "plan.json", "run.json"),
        )
    ]
    assert files["train-1/outputs/m.pt"] == b"weights"
    assert files["train-1/job.sh"] == b"#!/bin/bash\nexport API_KEY=********\n"
    assert not any(b"sesame" in data or b"doctor" in data for data in files.values())
    manifest = json.loads(files["train-1/MANIFEST.json"])
    assert manifest["odd"] == []
    assert {each["path"]: (each["bytes"], each["sha256"]) for each in manifest["files"]} == {
        name.removeprefix("train-1/"): (len(data), hashlib.sha256(data).hexdigest())
        for name, data in files.items()
        if name not in {"train-1/MANIFEST.json", "train-1/SHA256SUMS"}
    }
    sums = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
        cwd=tmp_path / "out/train-1",
        check=True,
    )
    assert sums.returncode == 0


def test_its_record_of_the_run(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.tar", run)
    [data] = json.loads(unpacked(tmp_path / "a.tar", tmp_path / "out")["train-1/run.json"])
    digest = hashlib.sha256(b"weights").hexdigest()
    assert data["artifacts"][0] == {
        "path": "outputs/m.pt", "kind": "model", "sha256": digest, "metrics": {"loss": 0.5}
    }  # fmt: skip
    attempt = {"number": "0.0", "started": CREATED, "ended": "2026-11-23T08:00:01+00:00", "exit_code": 0}
    assert attempt.items() <= data["attempts"][0].items()
    own: dict[str, Any] = {"name": "train-1", "job": "7", "state": "completed", "params": {"lr": 0.1}}
    assert own.items() <= data.items()


def test_the_same_run_is_the_same_bytes_and_several_are_folders(run: Run, tmp_path: Path) -> None:
    other = made(tmp_path / "runs", name="train-2")
    for name in ("a.tar", "b.tar"):
        write(tmp_path / name, run, other)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    files = unpacked(tmp_path / "a.tar", tmp_path / "out")
    assert {name.partition("/")[0] for name in files} == {"train-1", "train-2"}


@pytest.mark.parametrize(
    ("spoil", "odd"),
    [
        (lambda file: file.unlink(), ["is no longer there"]),
        (lambda file: file.write_text("other"), ["has changed since it was recorded"]),
        (
            lambda file: (file.unlink(), file.symlink_to("/etc/passwd")),
            [
                "cannot be read, or has a link out of the outputs",
                "is a link or no regular file, and is left out",
            ],
        ),
    ],
)
def test_what_is_not_as_recorded_is_said_and_no_link_is_followed(
    run: Run, tmp_path: Path, spoil: Any, odd: Sequence[str]
) -> None:
    spoil(run.directory.outputs / "m.pt")
    problems = write(tmp_path / "a.tar", run)
    assert problems == [warning(f"train-1: outputs/m.pt {why}") for why in odd]
    files = unpacked(tmp_path / "a.tar", tmp_path / "out")
    manifest = json.loads(files["train-1/MANIFEST.json"])
    assert manifest["odd"] == [{"path": "outputs/m.pt", "why": why} for why in odd]
    assert not any(b"root:" in data for data in files.values())


def test_a_folder_is_its_regular_files(run: Run, tmp_path: Path) -> None:
    folder = run.directory.outputs / "dir"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a").write_text("a")
    (folder / "out").symlink_to("/etc")
    entry = {"artifact": {"kind": "model", "path": "dir", "sha256": "0" * 64, "bytes": 1}}
    logged(run, "7/0.0/rank-0", entry)
    assert [problem.message for problem in write(tmp_path / "a.tar", run)] == [
        "train-1: outputs/dir has changed since it was recorded",
        "train-1: outputs/dir/out is a link or no regular file, and is left out",
    ]
    outputs = [name for name in unpacked(tmp_path / "a.tar", tmp_path / "out") if "outputs" in name]
    assert outputs == ["train-1/outputs/dir/deep/a"]


def test_a_run_that_cannot_be_read_leaves_the_old_archive(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_text("the old one")
    unreadable = made(tmp_path / "runs", name="train-2")
    (unreadable.directory.path / "job.sh").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic link"):
        write(tmp_path / "a.tar", run, unreadable)
    assert (tmp_path / "a.tar").read_text() == "the old one"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.tar", "runs"]


def test_models_of_polyaxons_client_are_where_it_keeps_them(run: Run, tmp_path: Path) -> None:
    client = client_models(run.directory.path)
    (client / "outputs" / "dir" / "link").symlink_to("/etc/passwd")
    place = str(client.relative_to(run.directory.path))
    assert write(tmp_path / "a.tar", run) == [
        warning(f"train-1: {place}/outputs/dir/link is a link or no regular file, and is left out")
    ]
    files = unpacked(tmp_path / "a.tar", tmp_path / "out")
    assert {name: text for name, text in files.items() if "tracking" in name} == {
        f"train-1/{place}/outputs/m.pt": b"weights",
        f"train-1/{place}/outputs/dir/w": b"12",
    }
    [data] = json.loads(files["train-1/run.json"])
    assert [each["path"] for each in data["artifacts"] if each["metrics"] == {"acc": 0.9}] == [
        f"{place}/outputs/m.pt"
    ]
