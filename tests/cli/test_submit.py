"""``hpcdist submit``, broken off by its user."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from .conftest import argv

SBATCH = "#!/bin/bash\n: >asked\nexec sleep 60\n"


def test_a_break_while_sbatch_runs_says_that_the_job_may_exist(folder: Path) -> None:
    (folder / "sbatch").write_text(SBATCH)
    (folder / "sbatch").chmod(0o755)
    words = (
        "submit",
        "ranks.yml",
        "--site=toy",
        "--site-path=sites",
        "--set=batch={site: toy, launcher: srun, walltime: 1h}",
    )
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv(words), env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        deadline = time.monotonic() + 20
        while not (folder / "asked").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (
        130,
        "",
        "note: the job of ranks-1 may exist; do not submit it again: `hpcdist status ranks-1` will tell\n",
    )
