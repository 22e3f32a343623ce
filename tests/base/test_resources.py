from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest

from hpcdist.base import resources
from hpcdist.base.errors import ConfigError
from tests.wording import Wording


def test_fifos_are_not_read_as_site_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    (tmp_path / "link.yaml").symlink_to("a.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "fifo.yaml")
    assert sorted(resources.site_files([tmp_path])) == ["a", "gone", "link"]


@pytest.mark.parametrize("folder", ["site_configs", "templates"])
def test_shipped_folders_exist(folder: str) -> None:
    assert list(resources.shipped(folder).iterdir())


@pytest.fixture
def archive(tmp_path: Path) -> zipfile.Path:
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as writer:
        writer.writestr("hpcdist/data/a.txt", "a")
        writer.writestr("hpcdist/data/below/b.txt", "b\n")
        writer.writestr("hpcdist/other.txt", "no")
    return zipfile.Path(tmp_path / "app.pyz", "hpcdist/data/")


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_archive_is_unpacked_once(archive: zipfile.Path, tmp_path: Path) -> None:
    copy = resources.unpack(archive, tmp_path / "cache")
    assert re.fullmatch("data-[0-9a-f]{16}", copy.name)
    assert contents(tmp_path / "cache") == {f"{copy.name}/a.txt": "a", f"{copy.name}/below/b.txt": "b\n"}
    assert copy.stat().st_mode & 0o777 == 0o700
    before = (copy / "a.txt").stat()
    (copy / "below" / "b.txt").unlink()
    assert resources.unpack(archive, tmp_path / "cache") == copy
    assert contents(copy) == {"a.txt": "a", "below/b.txt": "b\n"}
    assert (copy / "a.txt").stat() == before


def test_other_contents_are_unpacked_to_another_folder(archive: zipfile.Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("another")
    copy = resources.unpack(tmp_path / "data", tmp_path)
    assert copy != resources.unpack(archive, tmp_path)
    assert contents(copy) == {"a.txt": "another"}


def test_search_order_of_site_folders() -> None:
    environment = {"HPCDIST_SITE_PATH": "/a::/b", "XDG_CONFIG_HOME": "/config"}
    assert resources.site_folders(["/x", "y"], environment) == (
        Path("/x"),
        Path("y"),
        Path("/a"),
        Path("/b"),
        Path("/config/hpcdist/sites"),
        Path("/etc/hpcdist/sites"),
        resources.shipped("site_configs"),
    )
    assert resources.site_folders([], {})[0] == Path.home() / ".config/hpcdist/sites"


def test_search_order_of_template_folders() -> None:
    own = resources.template_folders({"HPCDIST_TEMPLATE_PATH": "/a:/b"})
    assert own == (Path("/a"), Path("/b"), resources.shipped("templates"))
    assert resources.template_folders({}) == (resources.shipped("templates"),)


def test_first_site_file_of_a_name_wins(tmp_path: Path, wording: Wording) -> None:
    for name in ("mine/a.yaml", "mine/b.yml", "mine/notes.txt", "shipped/a.yaml", "shipped/c.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folders = [tmp_path / "mine", tmp_path / "missing", tmp_path / "shipped"]
    assert resources.site_files(folders) == {
        "a": tmp_path / "mine/a.yaml",
        "b": tmp_path / "mine/b.yml",
        "c": tmp_path / "shipped/c.yaml",
    }
    assert resources.site_file("c", folders) == tmp_path / "shipped/c.yaml"
    with pytest.raises(ConfigError) as error:
        resources.site_file("d", folders)
    wording(str(error.value))


@pytest.mark.parametrize("name", ["site.yaml", "site.yml", "my-site"])
def test_site_given_as_a_file(tmp_path: Path, name: str, wording: Wording) -> None:
    file = tmp_path / name
    with pytest.raises(ConfigError) as error:
        resources.site_file(str(file), [])
    wording(str(error.value).replace(str(tmp_path), "TMP"))
    file.touch()
    assert resources.site_file(str(file), []) == file


def test_site_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.yaml").touch()
    assert resources.site_file("~/mine.yaml", []) == tmp_path / "mine.yaml"
    with pytest.raises(ConfigError) as caught:
        resources.site_file("~/mien.yaml", [])
    assert str(caught.value) == f"there is no site file '{tmp_path}/mien.yaml'; did you mean 'mine.yaml'?"


def test_site_file_in_the_home_of_an_unknown_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        resources.site_file("~no such user/mine.yaml", [])
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_hint_to_a_site_file_in_the_current_folder(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"mine.{ending}").touch()
    with pytest.raises(ConfigError) as caught:
        resources.site_file("mine", [])
    wording(str(caught.value))


def test_hint_to_the_closest_site_name(wording: Wording) -> None:
    with pytest.raises(ConfigError) as error:
        resources.site_file("perlmuter", [resources.shipped("site_configs")])
    wording(str(error.value))
