"""Commands beside the processes of a job there, over a real ssh."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.remotes.server import Laptop
from tests.slurm.process import until

pytestmark = [pytest.mark.real, pytest.mark.extended]

HANGS = "import time; open('up', 'w').close(); time.sleep(1000)"


@pytest.fixture
def job(here: Laptop) -> Iterator[str]:
    """A run there that waits in Python, under a variable of its own."""
    path = f"{Path(sys.executable).parent}:$PATH"  # with py-spy
    cmd = f'cd "$HPCDIST_RUN_DIR"; export OWN=\'a b\' PATH="{path}"; exec python -c "{HANGS}"'
    here.write("hangs", cmd)
    here.hpcdist("submit", "hangs.yml", "--on", "box")
    until((here.there / "hangs-1" / "up").exists, "the job to begin")
    yield "hangs-1"
    here.hpcdist("cancel", "hangs-1")


def test_exec_runs_there_with_what_is_typed_here(here: Laptop, job: str) -> None:
    script = 'echo "$OWN in $PWD: $1"; cat; kill -0 "${HPCDIST_PIDS%% *}" && exit 9'
    done = subprocess.run(
        [sys.executable, "-m", "hpcdist", "exec", job, "--", "bash", "-c", script, "x", "it's $HOME"],
        cwd=here.work, env=here.environment, input="a b", capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (
        9,
        f"a b in {here.there}/hangs-1: it's $HOME\na b",
        "",
    )


def test_debug_shows_where_it_is(here: Laptop, job: str) -> None:
    shown = here.hpcdist("debug", job).stdout
    assert shown.splitlines()[0] == "hangs-1: 1 rank on 1 node, 1 stack"
    assert "<module> (<string>:1)" in shown
