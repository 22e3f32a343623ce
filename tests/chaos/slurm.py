"""The Slurms for kills: a slow one of a few lines of bash, whose jobs are files; and a real one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

SITE: Final = """\
name: toy
description: a machine for tests
scheduler: slurm
launcher: srun
node_types: {big: {cpus: 8, memory: 16000}}
partitions: {batch: {nodes: {big: 20}, max_walltime: 1-00:00:00}}
default_partition: batch
replica: {cpus: 1}
"""

_SBATCH: Final = """\
#!/bin/bash
pause() { sleep "0.0$((RANDOM % 10))"; }
jobs=${0%/*}/../jobs
for word in "$@"; do
  [[ $word == --comment=* ]] && echo "${word#--comment=}" >"$jobs/.$$"
done
pause
for ((id = 100; ; id++)); do
  ln "$jobs/.$$" "$jobs/$id" 2>/dev/null && break
done
rm "$jobs/.$$"
pause
echo "$id"
"""

_SQUEUE: Final = """\
#!/bin/bash
cd "${0%/*}/../jobs" || exit
for id in [0-9]*; do
  [[ -e $id ]] || continue
  case ${*: -1} in
  '%i|%k') echo "$id|$(<"$id")" ;;
  *) echo "$id|PENDING|None|$(<"$id")" ;;
  esac
done
"""


def make(folder: Path) -> Path:
    """Make its programs and a site; return the folder of the programs."""
    programs = folder / "bin"
    for path in (programs, folder / "jobs", folder / "sites"):
        path.mkdir(parents=True)
    (folder / "sites" / "toy.yaml").write_text(SITE)
    for name, text in {"sbatch": _SBATCH, "squeue": _SQUEUE, "sacct": "#!/bin/sh\nexit 1\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs


class Slurm(NamedTuple):
    """Where jobs go: ``make`` returns what PATH begins with, ``jobs`` the ids of all jobs of a folder."""

    make: Callable[[Path], Path]
    jobs: Callable[[Path], list[str]]
    options: tuple[str, ...]


def is_asked(folder: Path) -> bool:
    """Whether an sbatch with a script of this folder lives."""
    found = map(_words, Path("/proc").glob("[0-9]*"))
    begin = bytes(folder / "runs")
    return any(
        any(word.endswith(b"sbatch") for word in words) and any(word.startswith(begin) for word in words)
        for words in found
    )


def _words(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def jobs(folder: Path) -> list[str]:
    """Return the ids of all jobs that were ever made."""
    return sorted(path.name for path in (folder / "jobs").iterdir() if path.name.isdigit())


def real_jobs(folder: Path) -> list[str]:
    """Return the ids of all jobs that a real Slurm knows of this folder."""
    words = ("squeue", "-h", "-t", "all", "-o", "%i %Z")
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = (line.partition(" ") for line in said.splitlines())
    return sorted(job for job, _, place in rows if place == str(folder))


TOY: Final = Slurm(make, jobs, ("--site=toy", "--site-path=sites"))
REAL: Final = Slurm(lambda _: Path("/usr/bin"), real_jobs, ("--site=testbed",))
