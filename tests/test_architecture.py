"""The rooms of hpcdist's docstring are the truth: who may import whom, and who alone starts processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import hpcdist

PACKAGE = Path(hpcdist.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = sorted(file.parent for file in FILES if file.name == "__init__.py")
LINES = re.findall(r"^    (\S+(?: \S+)*)    \S", hpcdist.__doc__ or "", re.MULTILINE)
ROOMS = [room for line in LINES for room in line.split()]
"""Every package, and the modules that lie flat beside them, in the order of the table."""
EDGE = {"shell", "alarm", "locks", "ownership", "resources"}
"""Modules of `base` that know this machine."""
PURE = {"experiment", "site", "plan", "layers", "schedulers", "planner", "importers"}
"""Rooms without clock, environment, process or network: an argv is all that they know of the edge."""


def name(file: Path) -> str:
    """Return what a file is called in the package."""
    return str(file.relative_to(PACKAGE))


def room(file: Path) -> str:
    """Return the room of a file."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Return the full name of everything that a file imports, at its head or in a function."""
    return (*_imports(file),)


@cache
def tree(file: Path) -> ast.Module:
    """Return what a file says."""
    return ast.parse(file.read_text())


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module(name: str) -> Path | None:
    """Return the file of a module of hpcdist, or of the module in which an imported name stands."""
    for parts in (name.split(".")[1:], name.split(".")[1:-1]):
        place = PACKAGE.joinpath(*parts)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return file
    return None


@cache
def reached(file: Path) -> set[Path]:
    """Return the modules of hpcdist that a module imports."""
    found = {module(name) for name in imports(file) if name.startswith("hpcdist.")}
    return {other for other in found if other is not None} - {PACKAGE / "__init__.py", file}


def test_every_room_stands_in_the_table_once_and_no_module_lies_flat() -> None:
    there = {room(file) for file in FILES} - {"__init__", "__main__"}
    assert sorted(ROOMS) == sorted(there)
    assert {file.stem for file in PACKAGE.glob("*.py")} == {"__init__", "__main__"}


def test_a_module_imports_only_from_rooms_before_its_own() -> None:
    before = {own: {own, *ROOMS[: ROOMS.index(own)]} for own in ROOMS}
    found = ((file, {room(other) for other in reached(file)}) for file in FILES)
    assert [
        (name(file), rooms)
        for file, rooms in found
        if not rooms <= before.get(room(file), {room(file), *ROOMS})
    ] == []


def test_rooms_that_stand_beside_each_other_on_runs_do_not_know_each_other() -> None:
    siblings = {"checks", "searches", "studies"}
    found = ((file, {room(other) for other in reached(file)} & siblings) for file in FILES)
    assert [name(file) for file, rooms in found if room(file) in siblings and rooms - {room(file)}] == []


def test_the_command_line_and_the_python_interface_do_not_know_each_other() -> None:
    sides = [file for file in FILES if room(file) in {"api", "cli"}]
    assert [
        name(file)
        for file in sides
        if {room(other) for other in reached(file)} & {"api", "cli"} - {room(file)}
    ] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {file: reached(file) for file in FILES}
    while free := [file for file, others in left.items() if not others & left.keys()]:
        for file in free:
            del left[file]
    assert {*map(name, left)} == set()


@pytest.mark.parametrize("package", PACKAGES[1:], ids=lambda package: str(package.relative_to(PACKAGE)))
def test_the_page_of_a_room_names_its_modules(package: Path) -> None:
    there = {file.stem for file in package.glob("*.py")} | {
        file.parent.name for file in package.glob("*/__init__.py")
    }
    page = ast.get_docstring(tree(package / "__init__.py")) or ""
    listed = [
        name for line in re.findall(r"^(\w+(?: \w+)*)    ", page, re.MULTILINE) for name in line.split()
    ]
    assert listed == [] or sorted(listed) == sorted(there - {"__init__"})


def test_a_pure_room_knows_the_edge_by_commands_alone() -> None:
    edge = {file for file in FILES if room(file) == "base" and file.stem in EDGE}
    assert [name(file) for file in FILES if room(file) in PURE and edge & reached(file)] == []


def test_a_file_can_be_read_in_one_sitting() -> None:
    assert [name(file) for file in FILES if len(file.read_text().splitlines()) > 600] == []


def test_one_module_starts_processes() -> None:
    starts = re.compile(
        r"(subprocess|pty|multiprocessing|concurrent)\b|os\.(system|popen|exec\w+|spawn\w+|fork)"
    )
    found = [file for file in FILES if any(map(starts.match, imports(file)))]
    assert found == [PACKAGE / "base" / "shell.py"]
    calls = re.compile(r"\bos\.(system|popen|exec\w*|spawn\w*|fork\w*|posix_spawn\w*)\(")
    assert [file for file in FILES if calls.search(file.read_text())] == []


def test_no_decision_reads_the_text_of_an_origin() -> None:
    """An ``Origin`` has none of the methods of a text, as mypy sees; its text is only shown."""
    text = r"\bstr\([^()]*origin\)"
    read = re.compile(rf"{text}\s*(?:\.|==|!=|in\b|not in\b)|(?:==|!=|\bin)\s+{text}")
    assert [name(file) for file in FILES if read.search(file.read_text())] == []


def test_a_named_tuple_is_not_generic() -> None:
    # That is legal from Python 3.11 on; neither mypy nor ruff minds it for 3.10.
    bad = re.compile(r"^class \w+\((?=.*\bGeneric\b).*\b(?:NamedTuple|TypedDict)\b", re.MULTILINE)
    assert [name(file) for file in FILES if bad.search(file.read_text())] == []
