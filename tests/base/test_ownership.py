from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError
from tests.strangers import USER, given
from tests.wording import Wording


def weakness(folder: Path, user: int | None = None) -> str:
    handle = os.open(folder, os.O_RDONLY)
    try:
        return ownership.weakness(folder, handle, user)
    finally:
        os.close(handle)


@pytest.fixture
def above(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def runs(above: Path) -> Path:
    path = above / "runs"
    path.mkdir(mode=0o700)
    return path


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777, 0o2770, 0o3775])
def test_parents_may_be_group_writable_or_sticky(above: Path, runs: Path, mode: int) -> None:
    above.chmod(mode)
    assert weakness(runs) == ""


@pytest.mark.parametrize("mode", [0o775, 0o2770, 0o757, 0o1777], ids=oct)
def test_runs_writable_by_others_are_refused(runs: Path, mode: int, wording: Wording) -> None:
    runs.chmod(mode)
    wording(weakness(runs).replace(str(runs), "RUNS"))


def test_runs_of_another_user_are_refused(runs: Path, wording: Wording) -> None:
    owner = given(runs)
    wording(weakness(runs, USER).replace(str(runs), "RUNS").replace(owner, "OWNER"))


def test_runs_that_others_may_rename_are_refused(above: Path, runs: Path, wording: Wording) -> None:
    above.chmod(0o777)
    wording(weakness(runs).replace(str(above), "ABOVE"))


def test_parents_that_others_may_rename_are_refused(above: Path, runs: Path, wording: Wording) -> None:
    (runs / "deep").mkdir(mode=0o700)
    above.chmod(0o777)
    wording(weakness(runs / "deep").replace(str(above), "ABOVE"))


def test_sticky_parent_of_another_user_is_refused(above: Path, runs: Path, wording: Wording) -> None:
    above.chmod(0o1777)
    owner = given(above)
    wording(weakness(runs, USER).replace(str(above), "ABOVE").replace(owner, "OWNER"))


@pytest.mark.usefixtures("runs")
def test_folders_of_links_are_checked_too(tmp_path: Path, above: Path, wording: Wording) -> None:
    (tmp_path / "link").symlink_to("project/../project/runs")
    assert weakness(tmp_path / "link") == ""
    above.chmod(0o777)
    wording(weakness(tmp_path / "link").replace(str(above), "ABOVE"))


def test_link_of_another_user_in_a_public_folder_is_refused(tmp_path: Path, above: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (above / "runs").symlink_to(mine)
    above.chmod(0o1777)
    assert weakness(above / "runs") == ""
    owner = given(above / "runs")
    if os.geteuid() != 0:  # then all is one's own, and the folder itself is the stranger's
        assert owner in weakness(above / "runs", USER)
    else:
        assert weakness(above / "runs", USER) == f"the link {above / 'runs'} belongs to {owner}"


def test_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    handle = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="Too many levels"):
        ownership.weakness(tmp_path / "a", handle)
    os.close(handle)


def test_the_user_may_trust_a_folder(runs: Path, wording: Wording) -> None:
    runs.chmod(0o2770)
    handle = os.open(runs, os.O_RDONLY)
    ownership.check(runs, handle, trusts=lambda folder: folder == runs)
    with pytest.raises(ConfigError) as raised:
        ownership.check(runs, handle)
    os.close(handle)
    wording(str(raised.value).replace(str(runs), "RUNS"))


def test_a_user_without_a_name() -> None:
    assert ownership.name_of(0) == "root"
    assert ownership.name_of(2**31 - 5) == f"user {2**31 - 5}"


def test_new_folders_are_not_writable_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ownership.make(tmp_path / "a" / "b" / "c")
        ownership.make(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o7777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o755, 0o755, 0o700]


@pytest.mark.parametrize("error", [KeyError, OSError])  # the second since Python 3.13
def test_a_user_without_a_name_is_a_number(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise error(4_242_424)

    assert ownership.own_name(unknown) == str(os.getuid())
    monkeypatch.setenv("LOGNAME", "ada")
    assert ownership.own_name() == "ada"
