"""Jobs on this machine, each by its script and a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcdist.plan.model import Plan
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import runtime
from hpcdist.script.renderer import files_of_job
from hpcdist.site.model import Site
from tests.plans import LOCAL, changed, planned

BASH = shutil.which("bash") or "bash"
ONE_PROCESS = changed(LOCAL, launcher="processes")
NO_CHANGE: Mapping[str, str] = {}


def write(run: Path, plan: Plan) -> None:
    """Write the files of a run, as `hpcdist submit` does."""
    run.mkdir(mode=0o700, exist_ok=True)
    directory = RunDirectory(run)
    for name, text in files_of(plan, directory).items():
        directory.write(name, text)


def files_of(plan: Plan, directory: RunDirectory) -> dict[str, str]:
    """Return the texts of the files of a run of one job."""
    own = {f"{runtime.FOLDER}/{name}": text for name, text in runtime.files().items()}
    return {**own, **files_of_job(plan, str(directory.path), directory.own)}


def started(
    folder: Path, machine: Site = ONE_PROCESS, environ: Mapping[str, str] = NO_CHANGE, **data: Any
) -> subprocess.Popen[str]:
    """Start a submitted job's script in this folder, with no signal ignored."""
    write(folder / "run", planned(machine, **data))
    words: list[str | Path] = ["env", "--default-signal", BASH, "run/job.sh"]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
