"""What a snapshot has, and what it does with links, special files and files that change meanwhile."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.base.shell import Shell
from hpcdist.runs import code_copy
from hpcdist.runs.code_copy import FileListing
from hpcdist.testing import TIMED_OUT, FakeShell, failed

from .repositories import commit, git, repository, tree

REAL = Shell()
LIMIT = 1 << 20


def nothing(_: Path) -> bool:
    return False


def listed(folder: Path) -> FileListing:
    return code_copy.listing(folder, code_copy.read_state(folder, REAL, nothing), REAL, nothing)


def copied(found: FileListing, target: Path) -> list[str]:
    """Copy the files of a listing; return what is there."""
    code_copy.copy(found, code_copy.contents(found, LIMIT).files, target, LIMIT)
    return tree(target)


def test_a_snapshot_is_what_git_would_track(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(top, a__py="1", __gitignore="*.bin\n", gone="")
    (top / "sub").mkdir()
    for name in ("sub/new \u00fc.py", "weights.bin", "sub/x.bin"):
        (top / name).write_text("x")
    (top / os.fsdecode(b"\xff")).write_text("x")
    (top / "a.py").write_text("2")
    (top / "gone").unlink()
    found = listed(top / "sub")
    assert found[:2] == (top, "sub/")
    assert copied(found, tmp_path / "code") == [".gitignore", "a.py", "sub/new \u00fc.py", "\udcff"]
    assert (tmp_path / "code" / "a.py").read_text() == "2"


def test_a_folder_that_its_repository_ignores_is_taken_by_itself(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(top, __gitignore="*\n", a="")
    (top / "work").mkdir()
    (top / "work" / "x.py").write_text("")
    found = listed(top / "work")
    assert found == FileListing(top / "work", "", ("x.py",), by_git=False)


def test_submodules_and_work_trees_below_are_taken_as_git_would_track_them(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(tmp_path / "library", lib__py="1", __gitignore="*.o\n")
    repository(top, a="")
    git(top, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    repository(top / "inner", inner="", __gitignore="*.o\n")
    commit(top / "inner")
    (top / "inner" / "inner.o").write_text("")
    (top / "lib" / "lib.o").write_text("")
    (top / "lib" / "lib.py").write_text("2")
    assert copied(listed(top), tmp_path / "code") == [
        ".gitmodules", "a", "inner/.gitignore", "inner/inner", "lib/.gitignore", "lib/lib.py",
    ]  # fmt: skip
    assert (tmp_path / "code" / "lib" / "lib.py").read_text() == "2"


def test_without_git_all_but_plainly_no_code_is_taken(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in (
        "a.py", "sub/b.pyc", "sub/b.txt", "__pycache__/x", "venv/x", "runs/x-1/y", "env/pyvenv.cfg",
        "env/lib/z", "node_modules/x", "hpcdist-tracking/x", "empty/__pycache__/x",
    ):  # fmt: skip
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("")
    (top / "logs").mkdir()
    found = listed(top)
    assert found == FileListing(top, "", found.names, by_git=False)
    assert copied(found, tmp_path / "code") == ["a.py", "sub/b.txt"]
    assert (tmp_path / "code" / "logs").is_dir()


def test_links_lead_into_the_copy_or_to_where_they_led(tmp_path: Path) -> None:
    top, far = tmp_path / "top", tmp_path / "data"
    far.mkdir()
    repository(top, a="1")
    (top / "sub").mkdir()
    links = {
        "inside": "a",
        "sub/up": "../a",
        "absolute": str(top / "a"),
        "sub/out": "../../data",
        "far": str(far),
        "lost": "nowhere",
        "folder": "sub",
    }
    for name, target in links.items():
        (top / name).symlink_to(target)
    assert copied(listed(top), tmp_path / "elsewhere") == [
        "a",
        "absolute -> a",
        f"far -> {far}",
        "folder -> sub",
        "inside -> a",
        "lost -> nowhere",
        f"sub/out -> {far}",
        "sub/up -> ../a",
    ]


def test_modes_and_times_are_kept_for_the_user_alone(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for name, mode in {"run.sh": 0o777, "data": 0o444, "set": 0o4755}.items():
        (top / name).write_text("")
        (top / name).chmod(mode)
        os.utime(top / name, (1, 1))
    copied(listed(top), tmp_path / "code")
    found = {
        path.name: (oct(path.stat().st_mode & 0o7777), path.stat().st_mtime)
        for path in (tmp_path / "code").iterdir()
    }
    assert found == {"run.sh": ("0o755", 1), "data": ("0o644", 1), "set": ("0o755", 1)}
    assert (tmp_path / "code").stat().st_mode & 0o777 == 0o700


def test_special_files_are_left_out_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
    found = code_copy.contents(listed(tmp_path), LIMIT)
    assert (sorted(found.left_out), found.files) == (["pipe", "sock"], ())


def test_what_disappears_meanwhile_is_left_out(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(top, a="1", b="2", c="3")
    (top / "link").symlink_to("a")
    found = listed(top)
    (top / "a").unlink()
    there = code_copy.contents(found, LIMIT)
    (top / "b").unlink()
    (top / "link").unlink()
    code_copy.copy(found, there.files, tmp_path / "code", LIMIT)
    assert tree(tmp_path / "code") == ["c"]


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(top, a="1")
    found = listed(top)
    there = code_copy.contents(found, LIMIT)
    (top / "a").unlink()
    os.mkfifo(top / "a")
    with pytest.raises(ConfigError, match="a cannot be read: it is a FIFO"):
        code_copy.copy(found, there.files, tmp_path / "code", LIMIT)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    found = FileListing(Path("/proc/self"), "", ("mem",), by_git=False)  # for root, too
    with pytest.raises(ConfigError) as caught:
        code_copy.copy(found, code_copy.contents(found, LIMIT).files, tmp_path / "code", LIMIT)
    assert str(caught.value) == (
        "batch.code: /proc/self/mem cannot be read: Input/output error; "
        "make it readable, or list it in .gitignore"
    )


def test_the_limit_names_the_largest_files(tmp_path: Path) -> None:
    repository(tmp_path, small="x", data="x" * 900_000, more="x" * 300_000)
    with pytest.raises(ConfigError) as caught:
        code_copy.contents(listed(tmp_path), LIMIT)
    assert str(caught.value) == (
        f"batch.code: the code in {tmp_path} has 1.1 MiB, and the limit is 1.0 MiB: data (878.9 KiB), "
        "more (293.0 KiB), small (1 bytes); list what is no code in .gitignore, or write "
        "`max_code_size: 3Mi` in `batch`"
    )


def test_a_file_that_grows_meanwhile_keeps_to_the_limit(tmp_path: Path) -> None:
    top = tmp_path / "top"
    repository(top, a="1")
    found = listed(top)
    there = code_copy.contents(found, LIMIT)
    (top / "a").write_text("x" * (LIMIT + 1))
    with pytest.raises(ConfigError, match="grows while it is copied"):
        code_copy.copy(found, there.files, tmp_path / "code", LIMIT)


@pytest.mark.extended
def test_too_many_files_are_refused(tmp_path: Path) -> None:
    names = "".join(f"{number}\n" for number in range(code_copy.MOST_FILES + 1))
    shell = FakeShell([(("git",), names)])
    with pytest.raises(ConfigError, match=r"has more than 100000 files; submit in a folder"):
        code_copy.listing(tmp_path, code_copy.State(tmp_path, ""), shell, nothing)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(TIMED_OUT, "no answer in 60 s"), (failed(128, "fatal: bad index\n"), "fatal: bad index")],
)
def test_a_repository_that_cannot_be_listed_is_an_error(tmp_path: Path, answer: object, why: str) -> None:
    shell = FakeShell([(("git",), answer)])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=why):
        code_copy.listing(tmp_path, code_copy.State(tmp_path, ""), shell, nothing)
