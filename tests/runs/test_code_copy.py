"""What is done and recorded for the code of a job: here, as a snapshot, as a clone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.base.shell import Shell
from hpcdist.runs.code_copy import Choice, CodeResult, prepare
from hpcdist.testing import MISSING, TIMED_OUT, FakeShell

from .repositories import commit, git, repository, tree

REAL = Shell()
NOTHING = dict.fromkeys(("commit", "branch", "remote", "dirty", "changed", "untracked"))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository whose directory of runs has two runs, of which the second is being made."""
    top = tmp_path / "top"
    repository(top, a="1\n")
    for run in ("x-1", "x-2"):
        (top / "runs" / run / "logs").mkdir(parents=True)
    (top / "runs" / "x-1" / "record.json").write_text("")
    (top / "runs" / ".submit-0.lock").write_text("")
    return top


def recorded(code: CodeResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(code.files["code.json"])
    return found


def test_here_without_git_or_a_repository_is_recorded_as_null(tmp_path: Path) -> None:
    expected = {"source": "here", "folder": str(tmp_path), **NOTHING, "diff_complete": True}
    for runner in (REAL, FakeShell([(("sh",), MISSING)]), FakeShell([(("sh",), TIMED_OUT)])):
        code = prepare(Choice(tmp_path), tmp_path / "runs" / "x-1", runner)
        assert (recorded(code), {**code.files, "code.json": ""}, code.folder, code.notes) == (
            expected, {"code.json": ""}, "", (),
        )  # fmt: skip


def test_here_records_the_commit_and_the_diff_and_warns(top: Path) -> None:
    first = git(top, "rev-parse", "HEAD")
    run = top / "runs" / "x-2"
    clean = prepare(Choice(top), run, REAL)
    assert (clean.notes, [*clean.files], recorded(clean)["untracked"]) == ((), ["code.json"], [])
    (top / "a").write_text("2\n")
    code = prepare(Choice(top), run, REAL)
    assert recorded(code) == {
        "source": "here", "folder": str(top), "commit": first, "branch": "main", "remote": None,
        "dirty": True, "changed": ["a"], "untracked": [], "diff_complete": True,
    }  # fmt: skip
    assert code.files["code.diff"].endswith("-1\n+2\n")
    then = "the job runs the folder as it is then; `batch: {code: snapshot}` keeps this state"
    assert code.notes == (f"1 file of {top} differs from the commit: {then}",)


def test_a_snapshot_has_no_runs(top: Path) -> None:
    run = top / "runs" / "x-2"
    code = prepare(Choice(top, "snapshot"), run, REAL)
    assert (code.folder, tree(run / "code"), code.notes) == (str(run / "code"), ["a"], ())
    assert recorded(code)["copied"] == {"files": 1, "bytes": 2, "left_out": []}


def test_a_directory_of_runs_that_is_the_folder_itself_hides_no_code(tmp_path: Path) -> None:
    repository(tmp_path, a="")
    (tmp_path / "x-1").mkdir()
    (tmp_path / "x-1" / "record.json").write_text("")
    (tmp_path / "x-2").mkdir()
    prepare(Choice(tmp_path, "snapshot"), tmp_path / "x-2", REAL)
    assert tree(tmp_path / "x-2" / "code") == ["a"]


def test_a_dry_run_writes_nothing(top: Path) -> None:
    run = top / "runs" / "x-3"
    code = prepare(Choice(top, "snapshot"), run, REAL, dry=True)
    assert code.action == f"copy 1 file of {top}, 2 bytes, to {run}/code"
    cloned = prepare(
        Choice(top, "git", "https://example.org/x", "main"), run, FakeShell([(("git",), MISSING)]), dry=True
    )
    assert cloned.action == f"clone main of https://example.org/x to {run}/code"
    assert not run.exists()


def test_a_repository_without_an_answer_is_copied_with_a_note(top: Path) -> None:
    run = top / "runs" / "x-2"
    code = prepare(Choice(top, "snapshot"), run, FakeShell([(("sh",), TIMED_OUT)]))
    assert code.notes == (f"git does not answer in {top}: files that it ignores are copied, too",)
    assert tree(run / "code") == ["a"]


def test_git_without_a_url_is_the_last_commit_of_the_folder(top: Path) -> None:
    (top / "sub").mkdir()
    (top / "sub" / "b").write_text("")
    last = commit(top)
    (top / "a").write_text("changed")
    run = top / "runs" / "x-2"
    code = prepare(Choice(top / "sub", "git"), run, REAL)
    assert (code.folder, (run / "code" / "a").read_text()) == (str(run / "code" / "sub"), "1\n")
    assert {key: recorded(code)[key] for key in ("commit", "branch", "dirty", "ref")} == {
        "commit": last, "branch": "main", "dirty": False, "ref": "HEAD",
    }  # fmt: skip
    assert recorded(code)["submit_folder"]["changed"] == ["a"]
    assert code.notes == (f"1 file of {top} differs from the commit: the job runs the commit without them",)


def test_git_without_a_url_needs_a_repository_with_the_folder(tmp_path: Path, top: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"is in no git work tree; name a repository as `build: \{git: URL\}`"
    ):
        prepare(Choice(tmp_path, "git"), tmp_path / "x-1", REAL)
    (top / "sub").mkdir()
    with pytest.raises(ConfigError, match=r"HEAD of .* has no folder sub; commit it first"):
        prepare(Choice(top / "sub", "git"), top / "runs" / "x-2", REAL)


def refs(tmp_path: Path) -> dict[str, str]:
    """Make a repository with branches and tags; return the commit of each name."""
    far = tmp_path / "far"
    first = repository(far, a="first")
    git(far, "tag", "--annotate", "--message=one", "v1")
    git(far, "checkout", "--quiet", "-b", "topic/x")
    topic = commit(far, a="topic")
    git(far, "checkout", "--quiet", "main")
    last = commit(far, a="last")
    return {
        "": last,
        "HEAD": last,
        "main": last,
        "v1": first,
        "topic/x": topic,
        first: first,
        first[:9]: first,
    }


def test_a_branch_a_tag_or_a_commit_is_cloned(tmp_path: Path) -> None:
    for number, (ref, expected) in enumerate(refs(tmp_path).items()):
        run = tmp_path / "runs" / f"x-{number}"
        run.mkdir(parents=True)
        url = f"file://{tmp_path}/far"
        code = prepare(Choice(tmp_path, "git", url, ref), run, REAL)
        assert (recorded(code)["commit"], recorded(code)["remote"], code.folder) == (
            expected, url, str(run / "code"),
        )  # fmt: skip
        assert git(run / "code", "rev-parse", "HEAD") == expected


@pytest.mark.parametrize("ref", ["nowhere", "0123456789"])
def test_what_cannot_be_fetched_is_an_error_with_the_words_of_git(tmp_path: Path, ref: str) -> None:
    refs(tmp_path)
    (tmp_path / "x-1").mkdir()
    with pytest.raises(ConfigError, match=rf"{ref} of .* cannot be fetched: \S+.*; git asks for no password"):
        prepare(Choice(tmp_path, "git", str(tmp_path / "far"), ref), tmp_path / "x-1", REAL)


def test_without_git_nothing_is_cloned(tmp_path: Path) -> None:
    (tmp_path / "x-1").mkdir()
    shell = FakeShell([(("sh",), MISSING), (("git",), MISSING)])
    with pytest.raises(ConfigError, match="there is no git on this machine"):
        prepare(Choice(tmp_path, "git", "https://example.org/x"), tmp_path / "x-1", shell)
