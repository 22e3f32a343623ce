"""The part of a script that writes jsrun's explicit resource file, run by a real bash."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hpcdist.words import join
from tests.tasks import called


def resource_file(job: str, hosts: Sequence[str], folder: Path) -> str:
    """Return what the launch line of this script writes for jsrun on these hosts."""
    (call,) = re.findall(r"--erf_input=\"\$\((resource_file [^)]*)\)", job)
    line = f"hpcdist_nodes=({join(hosts)})\n{call}"
    assert called(job, line, HPCDIST_JOB_DIR=str(folder)) == f"{folder}/resources.erf\n"
    return (folder / "resources.erf").read_text()
