"""From the end of an attempt to the first step of the next, by requeue and in the same allocation."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.clusters import booted
from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.process import until
from tests.slurm.requirements import missing

_TASKS: Final = 2
_ROUNDS: Final = 5

_PROGRAM: Final = """\
now() { date +%s.%N >"$1.new" && mv "$1.new" "$1"; }
[[ ! -e ended.$SLURM_PROCID ]] || { now "first.$SLURM_PROCID" && exit; }
trap 'now "ended.$SLURM_PROCID"; exit 75' USR1 TERM
touch "up.$SLURM_PROCID"
until [[ $SLURM_PROCID == 1 && -e kill ]]; do sleep 0.05; done
now "ended.$SLURM_PROCID"
kill -KILL $$
"""
"""Each task of the second attempt writes when it begins; those of the first one when they end."""

_BY_HAND: Final = """\
#!/bin/bash
#SBATCH --partition=a100 --nodes=1 --ntasks=2 --cpus-per-task=1 --requeue
#SBATCH --open-mode=append --output=by-hand.out
trap 'kill -USR1 $program; wait $program; scontrol requeue $SLURM_JOB_ID' USR1
srun --mpi=pmix --kill-on-bad-exit=1 bash step.sh &
program=$!
wait $program
"""

_EXPERIMENT: Final = {
    "name": "ours",
    "framework": "pytorch",
    "pytorch": {"launch": "env"},
    "environment": {"replicas": {"n_workers": _TASKS - 1}, "restart": {"notice": "1m", "no_progress": 0}},
    "run": {"cmd": "exec bash step.sh"},
    "batch": {"partition": "a100", "walltime": "10m"},
}

Compare = Callable[[Callable[[], float], Callable[[], float], int], tuple[float, float]]
Line = Callable[[str, float, float, str], None]


class Trial:
    """A folder of a user on the cluster, in which one job at a time runs."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        files = {"step.sh": _PROGRAM, "by-hand.sh": _BY_HAND, "ours.yml": json.dumps(_EXPERIMENT)}
        for name, text in files.items():
            (self._folder / name).write_text(text)
        words = ("-m", "hpcdist", "render", "ours.yml", "--site", "testbed")
        (self._folder / "ours.sh").write_text(self._run(str(CHECKOUT / ".venv" / "bin" / "python"), *words))

    def _run(self, *words: str) -> str:
        return self._cluster.run(words, cwd=self._folder, check=True).stdout.strip()

    def _times(self, name: str) -> list[float]:
        """Return what the tasks wrote, once all have."""

        def found() -> list[Path]:
            return [file for file in self._folder.glob(f"{name}.*") if file.suffix != ".new"]

        until(lambda: len(found()) == _TASKS, f"the tasks to write {name}", 300, every=0.05)
        return [float(file.read_text() or 0) for file in found()]

    def measure(self, script: str, end: Callable[[str], object]) -> float:
        """Run one job, end its first attempt; return the seconds from then to the begin of the last task."""
        for name in ("up", "ended", "first", "kill"):
            for old in self._folder.glob(f"{name}*"):
                old.unlink()
        job = self._run("sbatch", "--parsable", script)
        self._times("up")
        end(job)
        first = max(self._times("first"))
        until(lambda: not self._run("squeue", "-h", "-j", job), "the job to end", 300)
        return first - max(self._times("ended"))

    def requeue(self, script: str, signal: str) -> float:
        """Return the seconds where the script gets this signal, as before its time limit."""
        return self.measure(script, lambda job: self._run("scancel", "--batch", f"--signal={signal}", job))

    def kill(self) -> float:
        """Return the seconds where a task is killed."""
        return self.measure("ours.sh", lambda _: (self._folder / "kill").touch())


def main(compare: Compare, line: Line) -> None:
    """Boot the test cluster, compare and print."""
    if problem := missing(accounting=False):
        print(f"restarts: not measured: {problem}")
        return
    with booted() as (cluster, folder):
        trial = Trial(cluster, folder)
        ours, theirs = compare(
            lambda: trial.requeue("ours.sh", "URG"), lambda: trial.requeue("by-hand.sh", "USR1"), _ROUNDS
        )
        line("end of an attempt to the next by requeue / script by hand", ours, theirs, "<= 1.05")
        killed = [trial.kill() for _ in range(_ROUNDS)]
    each = " ".join(f"{seconds:.2f}" for seconds in killed)
    load = os.getloadavg()[0]
    median = f"median {statistics.median(killed):.2f} s ({each}; load {load:.0f})"
    print(f"relaunch after a killed task: {median}   goal <= 5", flush=True)
