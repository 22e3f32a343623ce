"""A slice of each driver of ``make chaos``, always the same; that of disks is in ``tests/cli``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PERCENT: Final = {"files": 4, "fields": 6, "values": 6, "runs": 10, "kills": 8, "searches": 3, "trainings": 4}
SANDBOXED: Final = {"searches", "trainings"}


@pytest.mark.extended
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.namespaces] * (name in SANDBOXED)) for name in PERCENT],
)
def test_a_slice(name: str, tmp_path: Path) -> None:
    share = str(PERCENT[name])
    words = (sys.executable, "-m", "tests.chaos", name, "--seed", "1", "--share", share)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"{name:8}  {0:>7}  WRONG" in done.stdout
