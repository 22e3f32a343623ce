from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.cli.experiment import new_file
from tests.strangers import USER, given


def test_ones_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("a longer text")
    (tmp_path / "link").symlink_to("target")
    new_file.overwrite(tmp_path / "link", b"new")
    assert ((tmp_path / "target").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)


def test_another_users_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to("target")
    owner = given(tmp_path / "link")
    with pytest.raises(ConfigError, match=f"the link .*/link belongs to {owner} and is not overwritten"):
        new_file.overwrite(tmp_path / "link", b"new", user=USER)
    assert (tmp_path / "target").read_text() == "mine"


def test_a_script_does_not_overwrite_another_users_file(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("theirs")
    owner = given(tmp_path / "job.sh")
    with pytest.raises(ConfigError, match=f"the file .*/job.sh belongs to {owner}"):
        new_file.overwrite(tmp_path / "job.sh", b"new", script=True, user=USER)
    assert (tmp_path / "job.sh").read_text() == "theirs"


def test_a_script_is_private(tmp_path: Path) -> None:
    for before in ("", "a longer text"):
        (tmp_path / "job.sh").write_text(before)
        new_file.overwrite(tmp_path / "job.sh", b"new", script=True)
        found = (tmp_path / "job.sh").stat()
        assert (stat.S_IMODE(found.st_mode), found.st_size) == (0o700, 3)


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    new_file.overwrite(tmp_path / "null", b"new", script=True)
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
