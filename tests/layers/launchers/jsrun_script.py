"""The part of a script that writes jsrun's explicit resource file, run by a real bash."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hpcdist.base.words import join


def resource_file(script: str, hosts: Sequence[str], folder: Path) -> str:
    """Return what the launch line of this script writes for jsrun on these hosts."""
    (call,) = re.findall(r"^erf=\$\((resources [^)]*)\)", script, re.MULTILINE)
    begin, end = script.index("# Writes the tasks' resources"), script.index("# jsrun sets OMP")
    text = f"{script[begin:end]}\nnodes=({join(hosts)})\n{call}"
    environ = {"PATH": os.environ["PATH"], "HPCDIST_RUN_DIR": str(folder), "LSB_JOBID": "7"}
    done = subprocess.run(["bash"], input=text, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder}/resources.7\n", "")
    return (folder / "resources.7").read_text()
