"""Recording a metric, alone and in a training; reading points; comparing runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hpcdist.runs import finding, rundir
from hpcdist.runs.rundir import Phase, Record, RunDirectory
from hpcdist.tracking import comparison, series

CHECKOUT = Path(__file__).resolve().parents[1]
POINTS = 1_000_000
RUNS = 1_000
CALLS = 20_000

RECORDING = """
import sys, time
from hpcdist_tracking import log_metrics
line = b'{"metrics":{"loss":0.123456,"accuracy":0.95},"step":1000,"at":1732333333.123}\\n'
def ours(): log_metrics(step=1000, loss=0.123456, accuracy=0.95)
def bare():
    with open("bare", "ab") as file: file.write(line)
for call in (ours, bare):
    call()
    begun = time.perf_counter()
    for _ in range(CALLS): call()
    print((time.perf_counter() - begun) / CALLS)
""".replace("CALLS", str(CALLS))

TRAINING = """
import hashlib, statistics, time
from hpcdist_tracking import log_metrics
data = bytes(1000)
def step(rounds):
    for _ in range(rounds): hashlib.sha256(data)
begun = time.process_time(); step(100_000)
rounds = int(100_000 * 0.001 / (time.process_time() - begun))  # a millisecond
def steps(count, log):
    begun = time.process_time()
    for number in range(count):
        step(rounds)
        if log: log_metrics(step=number, loss=0.123456, accuracy=0.95)
    return time.process_time() - begun
pairs = [(steps(200, True), steps(200, False)) for _ in range(25)]
for times in zip(*pairs): print(statistics.median(times) / 200)
"""
"""The time of the process, which other work on this machine does not lengthen much."""

Compare = Callable[[Callable[[], float], Callable[[], float], int], tuple[float, float]]
Line = Callable[[str, float, float, str], None]


def timed(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def timed_program(folder: Path, program: str) -> list[float]:
    """Run a program that records, and return the seconds that it prints."""
    environment = {"PYTHONPATH": str(CHECKOUT / "templates" / "python"), "HPCDIST_TRACKING": str(folder)}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return [*map(float, done.stdout.split())]


def recording(folder: Path, line: Line) -> None:
    """Print what a call costs beyond the bare write, in microseconds; and what it costs a training."""
    ours, bare = (seconds * 1e6 for seconds in timed_program(folder, RECORDING))
    beyond = f"beyond: {ours - bare:.1f} us   goal <= 20"
    print(f"log_metrics: {ours:.1f} us; open, append and write: {bare:.1f} us; {beyond}", flush=True)
    with_tracking, without = timed_program(folder, TRAINING)
    line("a step of 1 ms that is recorded / not recorded", with_tracking, without, "<= 1.01")


def points(folder: Path, count: int) -> Path:
    """Write a run of so many points, two a line; return its file."""
    place = folder / "tracking" / "1" / "0.0"
    place.mkdir(parents=True)
    file = place / "rank-0.n.1.jsonl"
    with file.open("w") as stream:
        for step in range(count // 2):
            entry = {"metrics": {"loss": 1 / (step + 1), "accuracy": 0.5}, "step": step, "at": 1.8e9 + step}
            stream.write(json.dumps(entry, separators=(",", ":")) + "\n")
    return file


def reading(folder: Path, compare: Compare, line: Line) -> None:
    """Compare with msgspec's own reading of the same lines."""
    file = points(folder, POINTS)
    decoder = msgspec.json.Decoder()
    line(
        f"{POINTS:,} points read / parsed by msgspec",
        *compare(
            lambda: timed(lambda: series.read(RunDirectory(folder), RunDirectory(folder).plan())),
            lambda: timed(lambda: decoder.decode_lines(file.read_bytes())),
            3,
        ),
        "<= 3",
    )


def comparing(folder: Path) -> None:
    """Print the time for many runs of a hundred points each."""
    text = json.dumps({"identity": {"params": {"lr": 0.1}, "tags": []}})
    for number in range(RUNS):
        run = rundir.create(folder, "a")
        record = Record(
            run.name, "t", "slurm", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, str(number)
        )
        rundir.save(run, record)
        run.write("plan.json", text)
        points(run.path, 100)
    seconds = timed(
        lambda: [comparison.tracked(run, run.directory.plan()) for run in finding.list_runs(folder)[0]]
    )
    print(f"compare {RUNS:,} runs of 100 points: {seconds:.2f} s   goal <= 2")


def main(compare: Compare, line: Line) -> None:
    """Measure all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("recording", "points", "runs"):
            (folder / part).mkdir(mode=0o700)
        recording(folder / "recording", line)
        reading(folder / "points", compare, line)
        comparing(folder / "runs")
