from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcdist.base import ownership


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link_to(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.symlink_to(target)

    return make


def a_large_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_fifo, "it is a FIFO, not a regular file"),
        (a_folder, "Is a directory"),
        (a_link_to("/dev/zero"), "it is a symbolic link"),
        (a_link_to("/etc/passwd"), "it is a symbolic link"),
        (a_link_to("nowhere"), "it is a symbolic link"),
        (a_large_file, "it is larger than 1 MiB"),
        (nothing, "No such file or directory"),
    ],
)
def test_only_regular_files_up_to_the_limit_are_read(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    make(tmp_path / "record")
    folder = os.open(tmp_path, os.O_RDONLY)
    for path, at in (("record", folder), (tmp_path / "record", None)):
        with pytest.raises(OSError, match=why):
            ownership.read(path, 1 << 20, at=at)
    os.close(folder)


def test_device_is_not_read() -> None:
    with pytest.raises(OSError, match="it is a device, not a regular file"):
        ownership.read("/dev/zero", 10)


def test_a_file_is_read_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert ownership.read(tmp_path / "a", 5) == b"12345"


def handles() -> set[str]:
    """Return this process's descriptors, with that by which they are listed."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = handles()
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match=r"FIFO|directory|device"):
            ownership.read(path, 10)
    assert handles() == before


def write_all(handle: int, text: bytes) -> None:
    """Write a text to a pipe and close it."""
    os.write(handle, text)
    os.close(handle)


def test_user_file_may_be_a_link_a_device_or_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "link").symlink_to("a")
    out, into = os.pipe()
    writer = threading.Timer(0.3, write_all, [into, b"slow"])
    writer.start()
    assert ownership.read_user_file(tmp_path / "link", 10) == b"text"
    assert ownership.read_user_file("/dev/zero", 10) == b"\0" * 10
    assert ownership.read_user_file("/dev/null", 10) == b""
    assert ownership.read_user_file(f"/dev/fd/{out}", 10) == b"slow"
    writer.join()
    os.close(out)


def test_an_empty_pipe_is_an_empty_file() -> None:
    out, into = os.pipe()
    os.close(into)
    assert ownership.read_user_file(f"/dev/fd/{out}", 10) == b""
    os.close(out)


def test_fifo_may_get_its_writer_late(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Timer(0.3, (tmp_path / "fifo").write_bytes, [b"late"])
    writer.start()
    assert ownership.read_user_file(tmp_path / "fifo", 10) == b"late"
    writer.join()


def test_fifo_without_a_writer_times_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="it is a FIFO without a writer"):
        ownership.read_user_file(tmp_path / "fifo", 10, timeout=10)
    with pytest.raises(IsADirectoryError):
        ownership.read_user_file(tmp_path, 10)


def test_write_replaces_and_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "record").symlink_to("mine")
    folder = os.open(tmp_path, os.O_RDONLY)
    ownership.write(folder, "record", b"new")
    ownership.write(folder, "job.sh", b"new", 0o700)
    os.close(folder)
    assert {path.name: (path.read_text(), path.lstat().st_mode) for path in tmp_path.iterdir()} == {
        "mine": ("mine", (tmp_path / "mine").stat().st_mode),
        "record": ("new", 0o100600),
        "job.sh": ("new", 0o100700),
    }


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="record"):
        ownership.write(folder, "record", b"new")
    os.close(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_a_link_is_followed_only_to_a_file_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x")
    (tmp_path / "own").symlink_to("log")
    (tmp_path / "loop").symlink_to("loop")
    assert ownership.own_target(tmp_path / "own") == (tmp_path / "log").resolve()
    assert ownership.own_target(tmp_path / "loop") == tmp_path / "loop"
    assert ownership.own_target(tmp_path / "log") == tmp_path / "log"
    os.lchown(tmp_path / "own", 65534, -1) if os.geteuid() == 0 else (tmp_path / "own").unlink()
    assert ownership.own_target(tmp_path / "own") == tmp_path / "own"
