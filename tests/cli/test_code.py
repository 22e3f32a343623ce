"""``hpcdist submit`` and ``describe`` with code that is recorded, copied or cloned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.runs import finding
from tests.runs.repositories import commit, git, repository

from .conftest import Hpcdist, argv

VERSION = """\
name: version
run: {cmd: cat version; echo "in $PWD"}
batch: {site: local, launcher: processes, code: CODE}
"""


@pytest.fixture
def project(folder: Path) -> Path:
    """A repository with a file that was changed, and an experiment that prints it."""
    (folder / ".gitignore").write_text("*.bin\n")
    repository(folder, version="first\n")
    for code in ("here", "snapshot", "git"):
        (folder / f"{code}.yml").write_text(VERSION.replace("CODE", code))
    commit(folder)
    (folder / "version").write_text("second\n")
    return folder


def printed(folder: Path, run: str = "version-1") -> list[str]:
    lines = (folder / "runs" / run / "logs" / "job.out").read_text().splitlines()
    return [line for line in lines if not line.startswith("hpcdist:")]


def test_a_snapshot_is_run_and_described(real: Hpcdist, project: Path) -> None:
    result = real("submit", "snapshot.yml", "--wait")
    assert (result.code, result.err) == (0, "note: version-1 completed\n")
    run = project / "runs" / "version-1"
    assert printed(project) == ["second", f"in {run}/code"]
    found = json.loads(real("describe", "version-1", "--json").out)
    assert {key: found[key] for key in ("code", "commit", "branch", "remote", "dirty")} == {
        "code": "snapshot",
        "commit": git(project, "rev-parse", "HEAD"),
        "branch": "main",
        "remote": None,
        "dirty": True,
    }
    assert f"commit        {found['commit']}\n" in real("describe", "version-1").out


@pytest.mark.extended
@pytest.mark.parametrize("text", ["", "[]", "{", '{"commit": 7, "dirty": 1, "branch": {}}', "[" * 9999])
def test_a_damaged_record_of_the_code_is_not_shown(real: Hpcdist, project: Path, text: str) -> None:
    real("submit", "here.yml", "--wait")
    (project / "runs" / "version-1" / "code.json").write_text(text)
    found = json.loads(real("describe", "version-1", "--json").out)
    assert {found[key] for key in ("code", "commit", "branch", "remote", "dirty")} == {None}


def test_the_last_commit_is_run(real: Hpcdist, project: Path) -> None:
    assert real("submit", "git.yml", "--wait").code == 0
    assert printed(project) == ["first", f"in {project}/runs/version-1/code"]


def test_a_changed_tree_is_noted(real: Hpcdist, project: Path) -> None:
    then = "the job runs the folder as it is then; `batch: {code: snapshot}` keeps this state"
    result = real("submit", "here.yml", "--wait")
    changed = f"note: 1 file of {project} differs from the commit: {then}\n"
    assert (result.code, result.err) == (0, f"{changed}note: version-1 completed\n")
    assert "+second\n" in (project / "runs" / "version-1" / "code.diff").read_text()
    commit(project)
    assert real("submit", "here.yml", "--wait").err == "note: version-2 completed\n"


def test_a_dry_run_shows_the_copy(real: Hpcdist, project: Path) -> None:
    run = project / "runs" / "version-1"
    lines = real("submit", "snapshot.yml", "--dry-run").out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("copy "))
    assert lines[start].endswith(f", to {run}/code")
    assert (lines[start + 1], lines[start + 2].split()[:2]) == (f"cd {run}/code", ["run", "bash"])
    found = json.loads(real("submit", "git.yml", "--dry-run", "--json").out)
    assert (found["code"], found["folder"]) == (f"clone HEAD of {project} to {run}/code", f"{run}/code")
    assert not run.exists()


def test_code_that_is_too_large_is_refused_at_its_line(real: Hpcdist, project: Path) -> None:
    (project / "weights").write_bytes(b"x" * (2 << 20))
    result = real("submit", "snapshot.yml", "--set", "batch.max_code_size=1Mi")
    assert result.code == 2
    assert result.err.startswith(
        f"error: snapshot.yml:3:49: batch.code: the code in {project} has 2.0 MiB, and the limit is 1.0 MiB: "
        "weights (2.0 MiB), "
    )
    assert [*(project / "runs").glob("version*")] == []


def test_a_url_with_a_password_reaches_no_run(real: Hpcdist, project: Path) -> None:
    text = (project / "git.yml").read_text()
    (project / "git.yml").write_text(f"{text}build: {{git: 'https://me:hunter2@example.org/x.git'}}\n")
    result = real("submit", "git.yml")
    assert (result.code, "hunter2" in result.err, (project / "runs").exists()) == (2, False, False)
    assert "build.git: 'https://example.org/x.git' cannot be cloned: it has a name, password" in result.err


def test_a_submission_that_is_killed_while_it_clones_leaves_no_run(project: Path) -> None:
    (project / "bin").mkdir()
    slow = project / "bin" / "git"
    slow.write_text(
        '#!/bin/bash\n[[ $* != *fetch* ]] || { : >fetching; exec sleep 60; }\nexec /usr/bin/git "$@"\n'
    )
    slow.chmod(0o755)
    environment = {**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    for number, stop in ((1, signal.SIGINT), (1, signal.SIGKILL)):
        run = project / "runs" / f"version-{number}"
        with subprocess.Popen(
            argv(["submit", "git.yml"]), env=environment, stderr=subprocess.PIPE
        ) as process:
            deadline = time.monotonic() + 60
            while not (run / "code" / "fetching").exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(stop)
            process.communicate(timeout=60)
        assert finding.list_runs(project / "runs") == ((), ())
        assert run.exists() == (stop is signal.SIGKILL)
    assert not (project / "runs" / "version-1" / "record.json").exists()
