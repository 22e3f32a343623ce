"""Jobs on this machine, each by its script and a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from tests.plans import LOCAL, changed, planned

BASH = shutil.which("bash") or "bash"
ONE_PROCESS = changed(LOCAL, launcher="processes")
NO_CHANGE: Mapping[str, str] = {}


def started(
    folder: Path, machine: Site = ONE_PROCESS, environ: Mapping[str, str] = NO_CHANGE, **data: Any
) -> subprocess.Popen[str]:
    """Start a job's script in this folder, with no signal ignored."""
    (folder / "job.sh").write_text(render(planned(machine, **data), run_dir=str(folder / "run")))
    words: list[str | Path] = ["env", "--default-signal", BASH, "job.sh"]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
