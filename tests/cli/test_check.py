"""`check` and what lies beside the file of an experiment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("cmd", ["python -m t", "bash outer.sh"])
def test_a_script_behind_another_that_would_train_alone_warns(
    tmp_path: Path, hpcdist: Hpcdist, cmd: str
) -> None:
    (tmp_path / "t.py").write_text("import lightning\n")
    (tmp_path / "outer.sh").write_text("set -e\nsource inner.sh\n")
    (tmp_path / "inner.sh").write_text("bash outer.sh\npython t.py\n")
    (tmp_path / "exp.yml").write_text(
        f"framework: mpi\nenvironment: {{replicas: {{n_workers: 1}}}}\nrun: {{cmd: {cmd}}}\n"
    )
    checked = hpcdist("check", str(tmp_path / "exp.yml"), "--site", "slurm")
    assert checked.err.count("t.py imports lightning, and each of the 2 tasks would train alone") == 1


def test_a_command_that_bash_does_not_parse_warns(tmp_path: Path, hpcdist: Hpcdist, wording: Wording) -> None:
    file = tmp_path / "exp.yml"
    file.write_text("name: x\nrun: {cmd: 'if true; then'}\nbatch: {walltime: 1h}\n")
    message = hpcdist("check", str(file), "--site", "testbed").err
    wording(message.replace(str(tmp_path), "TMP"))
    assert message in hpcdist("submit", "--dry-run", str(file), "--site", "testbed").err
