"""What the machine must offer before a Grid Engine can be booted."""

from __future__ import annotations

import shutil

from tests.slurm import requirements
from tests.slurm.process import SYSTEM_PATH

PACKAGES = {"qsub": "gridengine-client", "sge_execd": "gridengine-exec", "sge_qmaster": "gridengine-master"}


def missing(*, path: str = SYSTEM_PATH) -> str:
    """What this machine lacks, as one sentence; empty where nothing is missing."""
    if problem := requirements.missing(path=path):
        return problem
    lacking = {
        program: package for program, package in PACKAGES.items() if not shutil.which(program, path=path)
    }
    if not lacking:
        return ""
    words = " ".join(lacking.values())
    programs = ", ".join(lacking)
    return f"The test grid needs {programs}: apt-get install --no-install-recommends dma {words}"
