"""hpcdist in the process of a test, which has imported it: its start takes longer than most of its work."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from hpcdist.cli import main


def hpcdist(
    *words: str | Path, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run hpcdist to its end as in a process that has this folder and no other variables."""
    before, place = dict(os.environ), Path.cwd()
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        result = CliRunner().invoke(main, [*map(str, words)], prog_name="hpcdist")
    finally:
        os.chdir(place)
        os.environ.clear()
        os.environ.update(before)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)
