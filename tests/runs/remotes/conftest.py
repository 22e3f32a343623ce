"""A laptop and its other machine, whose connections end with the test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.remotes.server import Laptop, laptop


@pytest.fixture
def here() -> Iterator[Laptop]:
    """Yield a laptop in a folder whose path is short, as the path of a socket must be."""
    folder = Path(tempfile.mkdtemp(prefix="hpcd-"))
    made = laptop(folder)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)  # a job there may still write
