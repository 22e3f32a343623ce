"""A report of many runs: its time, and its size."""

from __future__ import annotations

import json
import math
import tempfile
import time
from pathlib import Path

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.runs import rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Record, Run
from hpcdist.schedulers.job import JobState, Status
from hpcdist.tracking import report as report_page

RUNS = 100
POINTS = 10_000


def made(folder: Path, number: int) -> Report:
    """Write a run of so many points of each of two metrics."""
    directory = rundir.create(folder, "train")
    ended = Status(JobState.COMPLETED, "COMPLETED", 0)
    at = "2026-01-01T00:00:00+00:00"
    record = Record(
        directory.name, "t", "slurm", "slurm", "d", at, Phase.SUBMITTED, str(number), at, ended=ended
    )
    rundir.save(directory, record)
    directory.write("plan.json", json.dumps({"identity": {"params": {"lr": number / 10}}}))
    directory.write("events", f"started {number} 1800000000 0\nended {number} 1800010000 0\n")
    (directory.logs / "job.out").write_text("".join(f"step {step} of {POINTS}\n" for step in range(POINTS)))
    place = directory.path / "tracking" / str(number) / "0.0"
    place.mkdir(parents=True)
    with (place / "rank-0.n.1.jsonl").open("w") as stream:
        for step in range(POINTS):
            metrics = {"loss": math.exp(-step / 999) + number, "accuracy": 1 - math.exp(-step / 777)}
            stream.write(json.dumps({"at": 1.8e9 + step, "step": step, "metrics": metrics}) + "\n")
    return Report(Run(directory, record), ended)


def main() -> None:
    """Print the time to write a page about all of them, and its size."""
    with tempfile.TemporaryDirectory() as name:
        reports = [made(Path(name) / "runs", number) for number in range(RUNS)]
        begun = time.perf_counter()
        text = report_page.html(report_content(reports, time.time()), report_page.library()).encode()
        seconds = time.perf_counter() - begun
    what = f"report {RUNS} runs of 2 metrics of {POINTS:,} points"
    print(f"{what}: {seconds:.1f} s, {len(text) / 1e6:.1f} MB   goal <= 10 s, 10 MB", flush=True)
