"""The map in hpcdist's docstring is the truth: who may import whom, and who alone starts processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpcdist

PACKAGE = Path(hpcdist.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LINES = re.findall(r"^    (\S+(?: \S+)*)    \S", hpcdist.__doc__ or "", re.MULTILINE)
MAP = [module for line in LINES for module in line.split()]
"""Every module, in the order of the map."""


def room(file: Path) -> str:
    """Return the module or package of a file that stands in the map."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """Yield the full name of everything that a file imports, at its head or in a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_stands_in_the_map_once() -> None:
    there = {room(file) for file in FILES} - {"__init__", "__main__"}
    assert sorted(MAP) == sorted(there)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_module_imports_only_what_stands_before_it(file: Path) -> None:
    own = room(file)
    allowed = {"__version__", own, *(MAP[: MAP.index(own)] if own in MAP else MAP)}
    assert {name.split(".")[1] for name in imports(file) if name.startswith("hpcdist.")} <= allowed


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_file_can_be_read_in_one_sitting(file: Path) -> None:
    assert len(file.read_text().splitlines()) < 300


def test_one_module_starts_processes() -> None:
    starts = re.compile(
        r"(subprocess|pty|multiprocessing|concurrent)\b|os\.(system|popen|exec\w+|spawn\w+|fork)"
    )
    assert [room(file) for file in FILES if any(map(starts.match, imports(file)))] == ["shell"]
    calls = re.compile(r"\bos\.(system|popen|exec\w*|spawn\w*|fork\w*|posix_spawn\w*)\(")
    assert [room(file) for file in FILES if calls.search(file.read_text())] == []
