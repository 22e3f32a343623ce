"""A Slurm of one file that stands in on the other machine: it lists jobs that never start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.runs.remotes.server import Laptop

_PROGRAMS: Final = ("sbatch", "squeue", "sacct", "scontrol", "scancel")

# A line a job: its id, its state, its comment. While there is `held`, sbatch makes no job.
_PROGRAM: Final = """\
#!/bin/bash
cd '{folder}' || exit
case ${{0##*/}} in
sbatch)
  echo called >>calls
  while [[ -e held ]]; do sleep 0.1; done
  exec 9>lock && flock 9
  for word; do [[ $word != --comment=* ]] || comment=${{word#*=}}; done
  id=$((101 + $(wc -l <jobs)))
  echo "$id PENDING $comment" >>jobs
  echo "$id"
  ;;
squeue)
  while read -r id state comment; do
    case ${{!#}} in *T*) echo "$id|$state|None|$comment" ;; *) echo "$id|$comment" ;; esac
  done <jobs
  ;;
esac
"""

SITE: Final = """\
name: queued
description: a queue on the other machine
scheduler: slurm
launcher: srun
node_types: {big: {cpus: 8, memory: 16000}}
partitions: {batch: {nodes: {big: 20}, max_walltime: 1-00:00:00}}
default_partition: batch
replica: {cpus: 1}
"""


class Queue:
    """The other machine's Slurm, and a site file that describes it."""

    def __init__(self, here: Laptop) -> None:
        self.folder = here.folder / "queue"
        self.folder.mkdir()
        self._write("jobs", "")
        for name in _PROGRAMS:
            self._write(name, _PROGRAM.format(folder=self.folder)).chmod(0o755)
        self.site = self._write("queued.yaml", SITE)
        start = f'PATH={self.folder}:$PATH exec sh -c "$SSH_ORIGINAL_COMMAND"'
        here.server(login=f"#!/bin/sh\n{start}\n")
        remote = {"directory": str(here.there), "site": str(self.site)}
        here.configure(box={"host": "there", **remote}, box2={"host": "there2", **remote})

    def _write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def hold(self) -> Path:
        """Let each further sbatch hang until the file that is returned is removed."""
        return self._write("held", "")

    @property
    def calls(self) -> int:
        """How often sbatch was called."""
        file = self.folder / "calls"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @property
    def jobs(self) -> list[str]:
        """The ids of its jobs."""
        return [line.split()[0] for line in (self.folder / "jobs").read_text().splitlines()]
