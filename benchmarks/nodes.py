"""Evidence against nodes in many runs; and the report of a large run."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from hpcdist.checks.nodes import known_nodes
from hpcdist.cli.jobs.report import content as report_content
from hpcdist.runs import rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.schedulers.job import JobState, Status
from hpcdist.tracking import report as report_page
from tests.checks import records

RUNS = 10_000
NODES = 2_000
RANKS, STEPS = 8, 40


def made(folder: Path, now: float) -> None:
    """Write so many runs, each with a node that it lost."""
    record = Record("train", "", "slurm", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    for number in range(RUNS):
        directory = RunDirectory(folder / f"train-{number}")
        directory.path.mkdir(mode=0o700)
        at = int(now - number * 60)
        (directory.path / "events").write_text(f"started 7 {at} 0\nlost 7 {at} n{number % NODES}\n")
        rundir.save(directory, replace(record, token=f"t{number}"))


def main() -> None:
    """Print the time to read all of them, and that of the report of a large run."""
    with tempfile.TemporaryDirectory() as name:
        folder, now = Path(name), time.time()
        made(folder, now)
        begun = time.perf_counter()
        nodes = len(known_nodes(folder, now))
        spent = time.perf_counter() - begun
    print(f"{RUNS:,} runs that lost {nodes:,} nodes read: {spent:.1f} s   goal <= 5", flush=True)
    large_run()


def large_run() -> None:
    """Print the CPU time of a report of a run with many ranks."""
    with tempfile.TemporaryDirectory() as name:
        names = tuple(f"n{node}" for node in range(NODES))
        directory = records.run(Path(name), tasks=NODES * RANKS, nodes=names)
        folder = directory.path / "tracking" / "12" / "0.0"
        folder.mkdir(parents=True)
        for rank in range(NODES * RANKS):
            rows = (
                {"metrics": {"compute_seconds": 0.5}, "step": step, "at": records.BEGAN + step}
                for step in range(STEPS)
            )
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            (folder / f"rank-{rank}.{names[rank // RANKS]}.{100 + rank}.jsonl").write_text(text)
        spent, size = report_of(directory)
    print(
        f"report of {NODES:,} nodes of {RANKS} ranks: {spent:.1f} s of a core, {size / 1e6:.1f} MB   "
        "goal <= 10 s, 10 MB",
        flush=True,
    )


def report_of(directory: RunDirectory) -> tuple[float, int]:
    """Return the CPU time of a report of this run, and its size."""
    ended, at = Status(JobState.COMPLETED, "COMPLETED", 0), "2026-01-01T00:00:00+00:00"
    record = Record("train-1", "t", "slurm", "slurm", "d", at, Phase.SUBMITTED, "12", at, ended=ended)
    rundir.save(directory, record)
    began = int(records.BEGAN)
    (directory.path / "events").write_text(f"started 12 {began} 0\nended 12 {began + STEPS} 0\n")
    begun = time.process_time()
    shown = report_content([Report(Run(directory, record), ended)], time.time())
    text = report_page.html(shown, report_page.library()).encode()
    return time.process_time() - begun, len(text)
