"""From the start of a job to the first line of the user's program, against a script written by hand.

Once for what `hpcdist render` prints, and once for what `hpcdist submit` submits, with the files of its run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.clusters import booted
from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.requirements import missing

BY_HAND = """#!/bin/bash
#SBATCH --partition=a100 --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --output=by-hand.out
date +%s.%N >begun
srun --ntasks=4 --cpus-per-task=1 --mpi=pmix --kill-on-bad-exit=1 bash -c 'date +%s.%N >first.$SLURM_PROCID'
"""
EXPERIMENT = """version: 1
name: ours
framework: mpi
environment:
  resources: {cpu: {limits: 8}}
  replicas: {n_workers: 3, default_worker: {resources: {cpu: {limits: 8}}}}
run: {cmd: "date +%s.%N >first.$SLURM_PROCID"}
batch: {partition: a100}
"""

SUBMITTED = """\
from pathlib import Path
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from tests.script.jobs import write
write(Path.cwd() / "run", plan_experiment(ExperimentOptions("ours.yml", site="testbed")).plan)
Path("run/logs").mkdir()
"""
BEGUN = "date +%s.%N >begun"
"""The first command of a script; that of the run, which the supervisor runs, is as it was submitted."""

Compare = Callable[[Callable[[], float], Callable[[], float], int], tuple[float, float]]
Line = Callable[[str, float, float, str], None]


def elapsed(cluster: Cluster, directory: Path, script: str) -> float:
    """Run one job; return the seconds from its script's first command to the last task's first line."""
    for old in directory.glob("first.*"):
        old.unlink()
    cluster.run(["sbatch", "--wait", script], cwd=directory, check=True)
    first = [float(file.read_text()) for file in directory.glob("first.*")]
    return max(first) - float((directory / "begun").read_text())


def main(compare: Compare, line: Line) -> None:
    """Boot the test cluster and compare."""
    if problem := missing(accounting=False):
        print(f"job start: not measured: {problem}")
        return
    with booted() as (cluster, directory):
        (directory / "by-hand.sh").write_text(BY_HAND)
        (directory / "ours.yml").write_text(EXPERIMENT)
        python = CHECKOUT / ".venv" / "bin" / "python"
        render: list[str | Path] = [python, "-m", "hpcdist", "render", "ours.yml", "--site", "testbed"]
        (directory / "plain.sh").write_text(cluster.run(render, cwd=directory, check=True).stdout)
        cluster.run(["env", f"PYTHONPATH={CHECKOUT}", python, "-c", SUBMITTED], cwd=directory, check=True)
        for name, timed in (("plain.sh", "plain.sh"), ("run/job.sh", "submitted.sh")):
            head, first, body = (directory / name).read_text().partition("\nset +efu")
            (directory / timed).write_text(f"{head}\n{BEGUN}{first}{body}")
        time.sleep(1)
        for name, most in (("plain.sh", "<= 1.05"), ("submitted.sh", "<= 1.3")):
            ours, theirs = compare(
                partial(elapsed, cluster, directory, name),
                partial(elapsed, cluster, directory, "by-hand.sh"),
                10,
            )
            what = "rendered" if name == "plain.sh" else "submitted"
            line(f"job start to first user line / script by hand (4 tasks, {what})", ours, theirs, most)
