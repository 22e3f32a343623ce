"""The command that finds the last whole checkpoint does so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hpcdist.base import source
from tests.docs.pages import block

FIXED = ["run_clm.py", "--output_dir", "checkpoints", "--save_steps", "500"]


def words(folder: Path) -> list[str]:
    """Return the words that the program is started with."""
    command = source.parse(block("restarts last"), "last").data["run"]["cmd"]
    lines = f"python() {{ printf '%s\\n' \"$@\"; }}\n{command}"
    env = {"PATH": os.environ["PATH"], "HPCDIST_CHECKPOINTS": "checkpoints"}
    return subprocess.check_output(["bash", "-c", lines], cwd=folder, env=env, text=True).splitlines()


def test_a_program_goes_on_from_its_last_whole_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "trainer_state.json").touch()  # at the end of a training
    for name, is_whole in (("checkpoint-9", True), ("checkpoint-10", True), ("checkpoint-11", False)):
        (tmp_path / "checkpoints" / name).mkdir()
        if is_whole:
            (tmp_path / "checkpoints" / name / "trainer_state.json").touch()
    assert words(tmp_path) == [*FIXED, "--resume_from_checkpoint", "checkpoints/checkpoint-10"]


def test_the_first_attempt_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    assert words(tmp_path) == FIXED
