"""The ledger of nodes: taking up what many runs recorded; and a large run: who is slow, and its report."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.nodes import known, slowness
from hpcdist.runs import rundir
from hpcdist.runs.record import Record
from hpcdist.runs.rundir import Phase, Run, RunDirectory
from hpcdist.runs.states import Report
from hpcdist.schedulers.job import JobState, Status
from hpcdist.tracking import report as report_page
from tests.nodes import records

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
    """Print the time to take up all of them, and that of the next time."""
    with tempfile.TemporaryDirectory() as name:
        folder, now = Path(name), time.time()
        made(folder, now)
        times = []
        for _ in range(2):
            begun = time.perf_counter()
            found = known.read(folder, None, now)
            nodes = len(found.nodes())
            found.save()
            times.append(time.perf_counter() - begun)
    what = f"{RUNS:,} runs that lost {nodes:,} nodes taken up: {times[0]:.1f} s   goal <= 5"
    print(f"{what}; read again: {times[1]:.2f} s   goal <= 0.5", flush=True)
    ranks()


def ranks() -> None:
    """Print the CPU time to find the slow one among the ranks of one attempt, and that of a report of it."""
    with tempfile.TemporaryDirectory() as name:
        names = tuple(f"n{node}" for node in range(NODES))
        directory = records.run(Path(name), tasks=NODES * RANKS, nodes=names)
        for rank in range(NODES * RANKS):
            seconds = 0.9 if rank == NODES else 0.5 + rank % 7 / 1000
            calls: list[records.Call] = [(step, step, {"compute_seconds": seconds}) for step in range(STEPS)]
            records.record(directory, rank, names[rank // RANKS], calls)
        begun = time.process_time()
        found = slowness.of_attempt(directory, directory.plan(), records.ATTEMPT, ())
        spent = time.process_time() - begun
        page_spent, size = report_of(directory)
    named = found.text.partition(" is slower")[0] if found else "nobody"
    print(
        f"{NODES:,} nodes of {RANKS} ranks compared ({named}): {spent:.1f} s of a core   goal <= 10; "
        f"their report: {page_spent:.1f} s of a core, {size / 1e6:.1f} MB   goal <= 10 s, 10 MB",
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
