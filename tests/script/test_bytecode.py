"""Compiled templates are code: they are taken from a folder only that nobody else can write."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from hpcdist.script.renderer import kept

COMPILER = Path(__file__)


def rendered(cache: Path, text: str = "{{ 1 + 1 }}", compiler: Path = COMPILER) -> str:
    """Render a template with what is kept in this cache."""
    loader = jinja2.DictLoader({"t": text})
    bytecode = kept(compiler, {"XDG_CACHE_HOME": str(cache)})
    environment = jinja2.Environment(loader=loader, bytecode_cache=bytecode, autoescape=True)
    return environment.get_template("t").render()


def files(cache: Path) -> list[bytes]:
    """Return what is kept."""
    return [path.read_bytes() for path in (cache / "hpcdist" / "templates").iterdir()]


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    assert rendered(tmp_path) == "2"
    before = files(tmp_path)
    assert (rendered(tmp_path), files(tmp_path)) == ("2", before)
    assert len(before) == 1
    folder = tmp_path / "hpcdist" / "templates"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_another_text_or_another_compiler_compiles_anew(tmp_path: Path) -> None:
    rendered(tmp_path)
    before = files(tmp_path)
    assert rendered(tmp_path, "{{ 2 + 2 }}") == "4"
    changed = files(tmp_path)
    assert changed != before
    compiler = tmp_path / "compiler.py"
    compiler.touch()
    assert rendered(tmp_path, "{{ 2 + 2 }}", compiler) == "4"
    assert files(tmp_path) != changed
    assert len(changed) == len(files(tmp_path)) == 1


@pytest.mark.parametrize("folder", ["hpcdist", "hpcdist/templates"])
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, folder: str) -> None:
    rendered(tmp_path)
    (tmp_path / folder).chmod(0o770)
    assert kept(COMPILER, {"XDG_CACHE_HOME": str(tmp_path)}) is None
    assert rendered(tmp_path) == "2"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "hpcdist").mkdir(mode=0o700)
    (tmp_path / "hpcdist" / "templates").symlink_to(tmp_path / "elsewhere")
    assert kept(COMPILER, {"XDG_CACHE_HOME": str(tmp_path)}) is None


def test_a_folder_that_others_may_rename_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    assert kept(COMPILER, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) is None
    (tmp_path / "cache").chmod(0o1777)
    assert kept(COMPILER, {"XDG_CACHE_HOME": str(tmp_path / "cache")}) is not None


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null"])
def test_without_a_folder_to_write_it_works_all_the_same(home: str) -> None:
    assert kept(COMPILER, {"XDG_CACHE_HOME": home}) is None
    assert rendered(Path(home)) == "2"


def test_broken_cache_is_ignored(tmp_path: Path) -> None:
    rendered(tmp_path)
    (file,) = (tmp_path / "hpcdist" / "templates").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert rendered(tmp_path) == "2"
    file.unlink()
    file.mkdir()
    assert rendered(tmp_path) == "2"
