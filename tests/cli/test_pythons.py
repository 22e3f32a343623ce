"""No Python that hpcdist or its runtime starts runs a module that lies in the current folder.

Python puts that folder first for ``-``, ``-c`` and ``-m``; a shared folder has files of other users.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import hpcdist as package
from hpcdist.base import source
from hpcdist.base.resources import shipped
from hpcdist.importers.mlrun import command
from tests.chaos import slurm

from .conftest import Hpcdist

PACKAGE: Final = Path(package.__file__).parent
PYTHON: Final = re.compile(r"(?:.*/)?python[\d.]*")
IN_TEXT: Final = re.compile(r"\bpython[\d.]*[\"'}]*(?: -[A-Za-z]+)* -(?:[A-Za-z]*[cm])?(?= |$)", re.MULTILINE)
ISOLATED: Final = re.compile(r" -[A-Za-z]*I")
ALLOWED: Final = {
    "hpcdist/base/command.py": "python -c",  # drops the folder before any import
    "hpcdist/importers/launch_lines.py": "python -u -m",  # the module of the user's own line
    "hpcdist/base/resources.py": "python -m",  # a line for the user to copy
}


def starts(file: Path) -> Iterator[str]:
    """Yield what starts a Python by ``-``, ``-c`` or ``-m`` in a file of the package."""
    tree = ast.parse(file.read_text())
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List):
            yield from _of_words(node.elts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            yield from IN_TEXT.findall(node.value)


def _of_words(words: list[ast.expr]) -> Iterator[str]:
    """Yield the options if the words begin with a Python, or with a name or call, which may be one."""
    texts = [word.value if isinstance(word, ast.Constant) else None for word in words]
    options = [text for text in texts[1:] if isinstance(text, str) and re.fullmatch("-[A-Za-z]*", text)]
    is_python = texts and (texts[0] is None or PYTHON.fullmatch(str(texts[0])))
    if is_python and not isinstance(words[0], ast.Starred) and {"-", "-c", "-m"} & {*options}:
        yield " ".join(["python", *options])


def test_every_python_is_started_without_the_current_folder() -> None:
    found = {f"hpcdist/{file.relative_to(PACKAGE)}": [*starts(file)] for file in PACKAGE.rglob("*.py")}
    for file in shipped("templates").rglob("*"):
        if file.suffix in (".sh", ".yml", ".j2"):
            found[f"templates/{file.name}"] = IN_TEXT.findall(file.read_text())
    assert len(found) > 250
    opened = {name: each for name, lines in found.items() for each in lines if not ISOLATED.search(each)}
    assert opened == ALLOWED


def plant(folder: Path, *names: str) -> None:
    """Put modules into a folder that leave a mark there when they are imported."""
    for name in names:
        (folder / f"{name}.py").write_text("open(__file__ + '.was-run', 'w').close()\n")


def marks(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.was-run")]


def test_doctor_imports_nothing_of_the_current_folder(hpcdist: Hpcdist, folder: Path) -> None:
    plant(folder, "json", "__future__")
    hpcdist("doctor", "--site", "local")
    assert marks(folder) == []


def test_the_job_of_a_search_imports_nothing_of_its_folder(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{slurm.make(folder / 'slurm')}:{os.environ['PATH']}")
    (folder / "sites" / "toy.yaml").write_text(slurm.SITE)
    bo = {"n_initial_trials": 2, "n_iterations": 4, "metric": {"name": "loss", "optimization": "minimize"}}
    search = {"concurrency": 2, "matrix": {"lr": {"uniform": [0, 1]}}, "bo": bo}
    experiment = {
        "run": {"cmd": "x {{ lr }}"},
        "hptuning": search,
        "batch": {"site": "toy", "walltime": "1h"},
    }
    (folder / "x.yml").write_text(json.dumps(experiment))
    hpcdist("submit", "x.yml", "--site-path=sites")
    done = hpcdist("sweep", "advance", "x-1", "--by-job")
    [stored] = folder.glob("runs/*advance*/experiment.yml")
    assert done.code == 0, done.err
    plant(folder, "click", "runpy", "json")
    command = str(source.parse(stored.read_text(), "x.yml").data["run"]["cmd"])
    ended = subprocess.run(
        ["bash", "-c", command.replace(" --by-job", " --help")],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage: hpcdist sweep advance" in ended.stdout
    assert marks(folder) == []


def test_the_program_of_a_call_finds_modules_of_the_folder_last(folder: Path) -> None:
    """What the function imports may lie there, but nothing there takes the place of another module."""
    plant(folder, "colorsys", "cloudpickle", "mine")

    def work() -> None:
        import colorsys  # noqa: F401

        import mine  # type: ignore[import-not-found]  # noqa: F401

    work.__module__ = "__main__"
    package.call(work, on=package.define(name="here", site="local"))
    assert marks(folder) == ["mine.py.was-run"]


def test_a_handler_of_mlrun_finds_modules_of_the_folder_last(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "call").mkdir()
    (tmp_path / "call" / "run_handler.py").write_text(command.program_text("run_handler"))
    plant(folder, "colorsys", "mine")
    (folder / "train.py").write_text("import colorsys, mine\ndef fit(): pass\n")
    variables = os.environ | {
        "PYTHONPATH": str(shipped("templates") / "python"), "HPCDIST_OUTPUTS": str(tmp_path / "outputs"),
        "HPCDIST_TRACKING": str(tmp_path / "tracking"),
    }  # fmt: skip
    words = [sys.executable, str(tmp_path / "call" / "run_handler.py"), "fit", "train.py"]
    subprocess.run(words, cwd=folder, env=variables, check=True)
    assert marks(folder) == ["mine.py.was-run"]
