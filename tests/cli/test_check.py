"""`check` and what lies beside the file of an experiment."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.conftest import Hpcdist


def test_a_script_that_would_train_alone_warns(tmp_path: Path, hpcdist: Hpcdist) -> None:
    file = tmp_path / "exp.yml"
    file.write_text(
        "framework: mpi\nrun: {cmd: python t.py}\nbatch: {walltime: 1h}\n"
        "environment: {replicas: {n_workers: 1}}\n"
    )
    assert hpcdist("check", str(file), "--site", "testbed").err == ""
    (tmp_path / "t.py").write_text("import lightning\n")
    assert hpcdist("check", str(file), "--site", "testbed").err == (
        "warning: t.py imports lightning, and each of the 2 tasks would train alone; "
        "write `framework: lightning`\n"
    )
    (tmp_path / "t.py").unlink()
    os.mkfifo(tmp_path / "t.py")
    assert hpcdist("check", str(file), "--site", "testbed").err == ""


def test_a_command_that_bash_does_not_parse_warns(tmp_path: Path, hpcdist: Hpcdist) -> None:
    file = tmp_path / "exp.yml"
    file.write_text("name: x\nrun: {cmd: 'if true; then'}\nbatch: {walltime: 1h}\n")
    message = (
        f"warning: {file}:2:12: run.cmd: bash does not parse this command: line 2: syntax error: "
        "unexpected end of file; correct it, or the job fails\n"
    )
    assert hpcdist("check", str(file), "--site", "testbed").err == message
    assert message in hpcdist("submit", "--dry-run", str(file), "--site", "testbed").err
