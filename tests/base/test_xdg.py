"""The user's own folders, and that a user needs none."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base import resources
from hpcdist.base.errors import ConfigError
from hpcdist.base.ownership import expanded, user_folder
from hpcdist.loading import preferences
from tests.cli.conftest import Result, run_real

NO_HOME = "~"
"""What Path.home() makes of this $HOME is what it makes of a user whom the system does not know."""


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "/x/hpcdist"),
        ({"XDG_CACHE_HOME": ""}, "/h/.cache/hpcdist"),
        ({}, "/h/.cache/hpcdist"),
    ],
)
def test_user_folder_is_named_by_the_variable_or_in_the_home(
    environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/h")
    assert user_folder("XDG_CACHE_HOME", ".cache", environment) == Path(folder)


def test_user_without_a_home_has_no_user_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", NO_HOME)
    assert user_folder("XDG_CACHE_HOME", ".cache", {}) is None
    assert resources.user_cache("templates", {}) is None
    assert resources.site_folders([], {}) == (
        Path("/etc/hpcdist/sites"),
        resources.shipped("site_configs"),
    )
    assert preferences.file({}) is None


def test_a_user_without_a_home_can_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", NO_HOME)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HPCDIST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    file = str(tmp_path / "mine.yml")
    assert run_real("init", "--site", "local", "-o", file).code == 0
    assert run_real("check", file) == Result(0, f"ok: {file}: 2 tasks by mpirun, 1 node (site local)\n", "")


def test_a_home_in_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert [*map(expanded, ("~/runs", "runs", "/~x", "~root/a"))] == [
        Path("/home/me/runs"),
        Path("runs"),
        Path("/~x"),
        Path("/root/a"),
    ]
    with pytest.raises(ConfigError, match=r"'~nobody-here/x' is of a user that this machine does not know"):
        expanded("~nobody-here/x")
