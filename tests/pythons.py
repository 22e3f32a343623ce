"""The versions of Python that this machine has, besides that which runs the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

RUNNING: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


def python_of(version: str) -> str | None:
    """Return a Python of this version that runs: this one, pyenv's, one on PATH, or one of uv's."""
    for python in _candidates(version):
        asked = [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    return None


def _candidates(version: str) -> Iterator[str]:
    if version == RUNNING:
        yield sys.executable
    yield from map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True))
    if found := shutil.which(f"python{version}"):  # perhaps pyenv's, which may not run
        yield found
    uv = [sys.executable, "-m", "uv", "python", "find", "--managed-python", "--no-python-downloads"]
    yield from subprocess.run([*uv, version], capture_output=True, text=True, check=False).stdout.splitlines()
