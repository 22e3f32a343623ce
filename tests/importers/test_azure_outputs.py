"""On Azure a command runs in a copy of its code, and what it writes to ./outputs and ./logs is kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist import importers
from hpcdist.base import source

from .remarks import remarks_of

JOB = "type: command\ncode: src\ncommand: {}\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a b.py").write_text("code")
    (folder / ".hidden").write_text("hidden")
    return folder


def run(code: Path, command: str, text: str = JOB, **variables: str) -> str:
    """Run a command as hpcdist's task does; return its output and its error messages."""
    data = importers.read(source.parse(text.format(command), "job.yml").data).data
    job = code.parent / "runs/job-1/jobs/7"
    job.mkdir(parents=True, exist_ok=True)
    outputs = code.parent / "runs/job-1/outputs"
    environment = {"PATH": os.environ["PATH"], "HPCDIST_JOB_DIR": str(job), "HPCDIST_OUTPUTS": str(outputs)}
    words = ["bash", "-c", data["run"]["cmd"]]
    done = subprocess.run(
        words, cwd=code.parent, env=environment | variables, text=True, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def files_of(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def test_outputs_and_logs_of_the_program_are_those_of_the_run(code: Path) -> None:
    written = run(code, "'cat a*.py .hidden; printf x > outputs/x; printf y > ./logs/y; printf z > z'")
    assert (written, files_of(code.parent / "runs/job-1/outputs"), files_of(code)) == (
        "codehidden",
        {"x": "x", "logs/y": "y"},
        {"a b.py": "code", ".hidden": "hidden"},
    )


def test_outputs_of_the_code_are_neither_shown_nor_changed(code: Path) -> None:
    (code / "outputs").mkdir()
    (code / "outputs/x").write_text("old")
    outputs = code.parent / "runs/job-1/outputs"
    message = f"./outputs and ./logs are those of {outputs}, and not of {code}\n"
    command = "'ls outputs; printf new > outputs/x'"
    assert run(code, command, HPCDIST_RANK="0", HPCDIST_NODE="0") == f"{message}logs\n"
    assert run(code, command, HPCDIST_RANK="1", HPCDIST_NODE="0") == "logs\nx\n"
    assert (files_of(code / "outputs"), files_of(outputs)) == ({"x": "old"}, {"x": "new"})


def test_tasks_of_a_node_share_a_directory_that_a_restart_keeps(code: Path) -> None:
    nodes = [run(code, "'touch $HPCDIST_NODE; ls'", HPCDIST_NODE=node) for node in "0110"]
    listed = "{}\na b.py\nlogs\noutputs\n"
    assert nodes == [listed.format(node) for node in "0110"]


def test_a_folder_without_files_has_no_links(code: Path) -> None:
    (code.parent / "empty").mkdir()
    assert run(code, "ls -A", "type: command\ncode: empty\ncommand: {}\n") == "logs\noutputs\n"


def test_additional_files_stand_beside_the_code(code: Path) -> None:
    library = code.parent.parent / "lib"
    library.mkdir()
    (library / "m.py").write_text("module")
    text = "type: command\ncode: src\nadditional_includes: [../lib, 'https://e.org/x']\ncommand: {}\n"
    assert run(code, "cat lib/m.py", text) == "module"
    why = "1 has no effect on a batch machine: it is not fetched: add a copy of it to the code"
    assert remarks_of(text.format("x")) == [f"warning: f.yml:3:31: additional_includes[1]: {why}"]
