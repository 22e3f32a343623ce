"""`check` and what lies beside the file of an experiment."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.conftest import Hpcdist
from tests.wording import Wording


def test_a_script_that_would_train_alone_warns(tmp_path: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    file = tmp_path / "exp.yml"
    file.write_text(
        "framework: mpi\nrun: {cmd: python t.py}\nbatch: {walltime: 1h}\n"
        "environment: {replicas: {n_workers: 1}}\n"
    )
    assert hpcdist("check", str(file), "--site", "testbed").err == ""
    (tmp_path / "t.py").write_text("import lightning\n")
    wording(hpcdist("check", str(file), "--site", "testbed").err)
    (tmp_path / "t.py").unlink()
    os.mkfifo(tmp_path / "t.py")
    assert hpcdist("check", str(file), "--site", "testbed").err == ""


def test_a_command_that_bash_does_not_parse_warns(tmp_path: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    file = tmp_path / "exp.yml"
    file.write_text("name: x\nrun: {cmd: 'if true; then'}\nbatch: {walltime: 1h}\n")
    message = hpcdist("check", str(file), "--site", "testbed").err
    wording(message.replace(str(tmp_path), "TMP"))
    assert message in hpcdist("submit", "--dry-run", str(file), "--site", "testbed").err
