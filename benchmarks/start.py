"""From the start of a job to the first line of the user's program, against a script written by hand."""

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
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from hpcdist.script.renderer import render
print(render(plan_experiment(ExperimentOptions("ours.yml", site="testbed")).plan))
"""

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
        texts: dict[str, tuple[str, list[str | Path]]] = {
            "plain.sh": ("set +efu", [python, "-m", "hpcdist", "render", "ours.yml", "--site", "testbed"]),
            "submitted.sh": ("# Made by", [python, "-c", SUBMITTED]),
        }
        for name, (first, words) in texts.items():
            text = cluster.run(words, cwd=directory, check=True).stdout
            head, _, body = text.partition(f"\n{first}")
            (directory / name).write_text(f"{head}\ndate +%s.%N >begun\n{first}{body}")
        time.sleep(1)
        for name, most in (("plain.sh", "<= 1.05"), ("submitted.sh", "<= 1.3")):
            ours, theirs = compare(
                partial(elapsed, cluster, directory, name),
                partial(elapsed, cluster, directory, "by-hand.sh"),
                10,
            )
            what = "rendered" if name == "plain.sh" else "submitted"
            line(f"job start to first user line / script by hand (4 tasks, {what})", ours, theirs, most)
