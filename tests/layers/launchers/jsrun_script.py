"""The part of a script that writes jsrun's explicit resource file, run by a real bash."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hpcdist.words import join


def resource_file(job: str, hosts: Sequence[str], folder: Path) -> str:
    """Return what this script, or its ``launch`` function, writes for jsrun on these hosts."""
    function = job[job.index("  numbers() {") : job.index("  type jsrun >")]
    (call,) = re.findall(r"--erf_input=\"\$\((resource_file [^)]*)\)", job)
    keep = job[job.index("keep() {") : job.index("# The nodes; and hosts")]
    (folder / "new").mkdir(exist_ok=True)
    before = f"unwritten() {{ exit 86; }}\n{keep}\nhpcdist_nodes=({join(hosts)})\n"
    text = f"{before}start() {{\n{function}\n{call}\n}}\nstart"
    done = subprocess.run(
        ["bash", "-c", text],
        env={"HPCDIST_JOB_DIR": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{folder}/resources.erf\n", "")
    return (folder / "resources.erf").read_text()
