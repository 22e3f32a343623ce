"""The state of the folder in which a job is submitted, as the real git has it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.shell import Shell
from hpcdist.runs import code_copy
from hpcdist.runs import git as commands
from hpcdist.runs.code_copy import State
from hpcdist.testing import MISSING, TIMED_OUT, FakeShell, failed

from .repositories import commit, git, repository

REAL = Shell()


def nothing(_: Path) -> bool:
    return False


def test_a_clean_tree_has_commit_branch_and_remote(tmp_path: Path) -> None:
    first = repository(tmp_path, a="1\n")
    git(tmp_path, "remote", "add", "other", "https://example.org/other.git")
    git(tmp_path, "remote", "add", "origin", "https://me:secret@example.org/x.git?token=1")
    found = code_copy.read_state(tmp_path, REAL, nothing)
    assert found == State(tmp_path, "", first, "main", "https://example.org/x.git")
    assert code_copy.diff_of(found, REAL) == ("", True)


def test_changes_of_every_kind_are_named_from_the_top(tmp_path: Path) -> None:
    first = repository(
        tmp_path, kept="1\n", gone="2\n", old="a\nb\nc\nd\n", staged="s\n", __gitignore="*.bin\n"
    )
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / 'new\n\u00fc "\\.py').write_text("")
    (tmp_path / "x.bin").write_text("ignored")
    (tmp_path / "gone").unlink()
    git(tmp_path, "mv", "old", "re named")
    (tmp_path / "staged").write_text("other\n")
    git(tmp_path, "add", "staged")
    found = code_copy.read_state(sub, REAL, nothing)
    changed = ("gone", "re named", "staged")
    assert found == State(tmp_path, "sub/", first, "main", None, changed, ("sub/",))
    assert found is not None
    text, complete = code_copy.diff_of(found, REAL)
    assert complete
    assert "--- a/gone\n+++ /dev/null\n" in text
    assert "+other\n" in text
    (sub / "tracked").write_text("")
    commit(tmp_path)
    assert code_copy.read_state(sub, REAL, nothing) == State(
        tmp_path, "sub/", git(tmp_path, "rev-parse", "HEAD"), "main"
    )


def test_the_diff_can_be_applied(tmp_path: Path) -> None:
    repository(tmp_path, a="1\n", b="2\n")
    git(tmp_path, "config", "diff.noprefix", "true")
    (tmp_path / "a").write_text("one\n")
    found = code_copy.read_state(tmp_path, REAL, nothing)
    assert found is not None
    text, _ = code_copy.diff_of(found, REAL)
    git(tmp_path, "checkout", "--quiet", "a")
    subprocess.run(["git", "apply"], input=text, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "a").read_text() == "one\n"


def test_a_conflict_is_a_change(tmp_path: Path) -> None:
    repository(tmp_path, a="1\n")
    git(tmp_path, "checkout", "--quiet", "-b", "b")
    commit(tmp_path, a="2\n")
    git(tmp_path, "checkout", "--quiet", "main")
    commit(tmp_path, a="3\n")
    with pytest.raises(subprocess.CalledProcessError):
        git(tmp_path, "merge", "b")
    found = code_copy.read_state(tmp_path, REAL, nothing)
    assert found is not None
    assert found.changed == ("a",)


def test_no_commit_yet_and_a_detached_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", ".")
    (tmp_path / "a").write_text("1")
    assert code_copy.read_state(tmp_path, REAL, nothing) == State(
        tmp_path, "", None, "main", None, (), ("a",)
    )
    first = commit(tmp_path)
    git(tmp_path, "checkout", "--quiet", "--detach")
    assert code_copy.read_state(tmp_path, REAL, nothing) == State(tmp_path, "", first, None)


def test_a_large_diff_ends_at_a_line(tmp_path: Path) -> None:
    repository(tmp_path, a="1\n")
    (tmp_path / "a").write_text("0123456789\u00fc\n" * 200_000)
    found = code_copy.read_state(tmp_path, REAL, nothing)
    assert found is not None
    text, complete = code_copy.diff_of(found, REAL)
    assert (complete, len(text.encode()) <= code_copy.MOST_DIFF, text[-13:]) == (
        False,
        True,
        "+0123456789\u00fc\n",
    )


def test_a_file_that_is_not_utf_8_is_in_the_diff(tmp_path: Path) -> None:
    repository(tmp_path, a="1\n")
    (tmp_path / "a").write_bytes(b"\xe9t\xe9\n")
    found = code_copy.read_state(tmp_path, REAL, nothing)
    assert found is not None
    assert "+\\xe9t\\xe9\n" in code_copy.diff_of(found, REAL)[0]


def test_a_hook_that_submits_does_not_lead_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = repository(tmp_path / "here", a="1\n")
    repository(tmp_path / "other", b="1\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    found = code_copy.read_state(tmp_path / "here", REAL, nothing)
    assert found is not None
    assert found.commit == here


@pytest.mark.parametrize(
    "answer", [MISSING, TIMED_OUT, failed(128, "fatal: dubious ownership"), "", "/x\n\n"]
)
def test_without_an_answer_there_is_no_state(tmp_path: Path, answer: str | Completed) -> None:
    assert code_copy.read_state(tmp_path, FakeShell([(("sh",), answer)]), nothing) is None


def test_without_a_repository_there_is_no_state(tmp_path: Path) -> None:
    assert code_copy.read_state(tmp_path, REAL, nothing) is None
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    assert code_copy.read_state(tmp_path / "bare", REAL, nothing) is None


PROGRAMS: Final = {
    "filter.x.clean": "a dry run",
    "filter.y.process": "a dry run",
    "filter.z=1.clean": "a dry run",
    "core.fsmonitor": "a submission",
    "diff.external": "a submission",
    "diff.x.textconv": "a submission",
    "diff.y.command": "a submission",
    "core.sshCommand": "a submission",
    "remote.origin.uploadpack": "a submission",
}
"""Keys of a folder's own configuration that name programs, and from what on none of them is run."""


@pytest.mark.parametrize("key", PROGRAMS)
@pytest.mark.parametrize("inside", ["", "sub"])
def test_no_program_of_the_folders_own_configuration_is_run(tmp_path: Path, key: str, inside: str) -> None:
    top, mark = tmp_path / "top", tmp_path / "was-run"
    repository(tmp_path / "other", a="1\n", b="1\n", c="1\n")
    name = key.split(".")[1]
    repository(top, a="1\n", __gitattributes=f"* filter={name} diff={name}\n")
    git(top, "submodule", "--quiet", "add", str(tmp_path / "other"), "sub")
    commit(top)
    place = top / inside
    git(place, "config", key, f"touch {mark}; cat; false")
    if key.startswith(("core.ssh", "remote")):  # a promised object is missing
        url = "ssh://x/y" if "ssh" in key else str(tmp_path / "other")
        for word, value in (("promisor", "true"), ("partialclonefilter", "blob:none"), ("url", url)):
            git(place, "config", f"remote.origin.{word}", value)
        git(place, "config", "extensions.partialClone", "origin")
        for line in git(place, "ls-tree", "HEAD", "a").splitlines():
            found = git(
                place, "rev-parse", "--git-path", f"objects/{line.split()[2][:2]}/{line.split()[2][2:]}"
            )
            (place / found).unlink()
    (place / ".gitattributes").write_text(f"* filter={name} diff={name}\n")
    (place / "a").write_text("2\n")
    dry = PROGRAMS[key] == "a dry run"
    read = code_copy.read_state(top, REAL, nothing, filters=not dry)
    if read:
        code_copy.diff_of(read, REAL)
    assert not mark.exists()
    assert (read is None) == ("=" in key and not inside)
    assert read is None or inside or "a" in read.changed


def test_git_is_never_asked_to_wait() -> None:
    command: Command = commands.command(Path("/x"), "fetch", timeout=3)
    assert (dict(command.environment)["GIT_TERMINAL_PROMPT"], command.timeout) == ("0", 3)


@pytest.mark.parametrize("name", ["a", "a b", "a\tb", 'q"\\', "\udcff", "\u00fc\n", "\x01"])
def test_names_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    repository(tmp_path, a="")
    (tmp_path / f"x{name}").write_text("")
    done = REAL.run(commands.command(tmp_path, "ls-files", "--others", timeout=60))
    assert commands.names(done.stdout) == [f"x{name}"]
