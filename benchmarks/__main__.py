"""Speed, as ratios within one run: `make bench`. Nothing passes or fails; goals stand beside the numbers.

Machines are noisy, so the two sides of a ratio take turns, and the medians are compared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import (
    nodes,
    packing,
    remotes,
    report,
    restarts,
    scale,
    scaling,
    search,
    staging,
    start,
    sweeps,
    tracking,
)
from hpcdist.runs import finding, rundir
from hpcdist.runs.rundir import Phase, Record
from hpcdist.schedulers.local import LOCAL

CHECKOUT = Path(__file__).resolve().parents[1]
ROUNDS = 15
HPCDIST = str(Path(sys.executable).with_name("hpcdist"))
IMPORT_CLICK = (sys.executable, "-c", "import click")

JOB = "run: {cmd: echo hello}\nbatch: {site: local, launcher: processes}\n"


def seconds(argv: Sequence[str], directory: Path, **variables: str) -> float:
    """How long a command takes from start to end; as users have it, with modules compiled before."""
    ours = ("PYTHONDONTWRITEBYTECODE", "HPCDIST_SITE")
    environment = {name: value for name, value in os.environ.items() if name not in ours} | variables
    begun = time.perf_counter()
    subprocess.run(argv, cwd=directory, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def compare(
    one: Callable[[], float], other: Callable[[], float], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Return both medians, in seconds, of measurements that took turns."""
    one(), other()
    pairs = [(one(), other()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def line(what: str, ours: float, theirs: float, goal: str) -> None:
    """Print one ratio."""
    print(
        f"{what:<58} {ours * 1000:8.1f} ms {theirs * 1000:8.1f} ms   x{ours / theirs:.3g}   goal {goal}",
        flush=True,
    )


def cold_starts(directory: Path) -> None:
    """Compare commands with what any such command must import."""
    render = [HPCDIST, "render", str(CHECKOUT / "examples" / "quickstart.yml")]
    floor = [sys.executable, "-c", "import click, jinja2, yaml"]
    line(
        "hpcdist render, the site named / import click, jinja2, yaml",
        *compare(lambda: seconds(render, directory, HPCDIST_SITE="slurm"), lambda: seconds(floor, directory)),
        "<= 1.3",
    )
    line(
        "hpcdist render, the site found / import click, jinja2, yaml",
        *compare(lambda: seconds(render, directory), lambda: seconds(floor, directory)),
        "<= 1.3",
    )
    line(
        "hpcdist status, no runs / import click",
        *compare(lambda: seconds([HPCDIST, "status"], directory), lambda: seconds(IMPORT_CLICK, directory)),
        "<= 1.2",
    )
    for runs in (1, 20):
        status_of(runs, directory / str(runs))
    check_of_pipelines(directory)
    status_of_arrays(directory)
    describe_of_attempts(directory)
    sweeps.main(directory, compare, line, without_batch_system)


def check_of_pipelines(directory: Path) -> None:
    """Compare `check` of a pipeline of 4,000 operations, each after the first, with ten times one of 400."""
    one = "- {name: op%d, run: {cmd: 'true'}, params: {all: '{{ ops.first.outputs.path }}'}}\n"
    for count in (400, 4000):
        text = "kind: pipeline\nname: q\noperations:\n- {name: first, run: {cmd: 'true'}}\n"
        (directory / f"{count}.yml").write_text(text + "".join(one % place for place in range(1, count)))
    many, few = (
        partial(seconds, [HPCDIST, "check", f"{count}.yml"], directory, HPCDIST_SITE="slurm")
        for count in (4000, 400)
    )
    line("hpcdist check, 4,000 operations / 10 x 400", *compare(many, lambda: 10 * few(), 3), "<= 1.1")


def without_batch_system(*words: str, folder: Path) -> float:
    """How long hpcdist takes where there is no program of a batch system."""
    return seconds([HPCDIST, *words], folder, PATH=str(folder))


def status_of(runs: int, directory: Path) -> None:
    """Compare `status` of runs that are over with its floor and the one command that asks for their jobs."""
    directory.mkdir()
    (directory / "hello.yml").write_text(JOB)
    for _ in range(runs):
        seconds([HPCDIST, "submit", "hello.yml", "--again", "--wait"], directory)
    found, _ = finding.list_runs(directory / "runs")
    query = next(LOCAL.queries()[0].commands([run.job for run in found if run.job])).argv
    line(
        f"hpcdist status, {runs} local runs / import click, the query",
        *compare(
            lambda: seconds([HPCDIST, "status"], directory),
            lambda: seconds(IMPORT_CLICK, directory) + seconds(query, directory),
        ),
        "<= 1.2",
    )


def status_of_arrays(directory: Path) -> None:
    """Compare `status` of an array of a million elements with that of one of ten, where no squeue answers."""
    folders = {last: directory / f"array-{last}" for last in (9, 999_999)}
    for last, folder in folders.items():
        record = Record("a", "t", "slurm", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "1")
        run = rundir.create(folder / "runs", "a")
        rundir.save(run, record)
        run.write("plan.json", f'{{"array": "0-{last}"}}')
    few, many = (
        partial(seconds, [HPCDIST, "status"], folder, PATH=str(folder)) for folder in folders.values()
    )
    line("hpcdist status, an array of 1,000,000 elements / of 10", *compare(many, few), "<= 1.1")


def describe_of_attempts(directory: Path) -> None:
    """Compare `describe` of a training of a hundred attempts with that of one of one attempt."""
    folders = {count: directory / f"attempts-{count}" for count in (1, 100)}
    for count, folder in folders.items():
        folder.mkdir()
        (folder / "hello.yml").write_text(JOB)
        seconds([HPCDIST, "submit", "hello.yml", "--wait"], folder)
        [[run], _] = finding.list_runs(folder / "runs")
        job = run.event_id
        starts = [f"started {job} {1000 + 10 * number} {number}\n" for number in range(count)]
        (run.directory.path / "events").write_text("".join([*starts, f"ended {job} 9999 0\n"]))
        for number in range(count):
            steps = run.directory.path / "tracking" / job / f"{number}.0"
            steps.mkdir(parents=True)
            points = (f'{{"metrics":{{"loss":0.5}},"step":{step},"at":1.0}}\n' for step in range(10_000))
            (steps / "rank-0.n1.12.jsonl").write_text("".join(points))
            (run.directory.path / "attempts" / str(number)).write_text(f"{job} {number}.0 {job}\n")
    one, many = (partial(seconds, [HPCDIST, "describe", "hello-1"], folder) for folder in folders.values())
    line("hpcdist describe, 100 attempts / 1 attempt", *compare(many, one), "<= 2")


def main() -> None:
    """Run all benchmarks; those that need the test Slurm say so where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        cold_starts(Path(folder))
    scale.main(compare, line)
    with tempfile.TemporaryDirectory() as folder:
        staging.main(Path(folder), line)
    packing.main()
    scaling.main()
    print()
    search.main()
    tracking.main(compare, line)
    report.main()
    nodes.main()
    remotes.main()
    start.main(compare, line)
    restarts.main(compare, line)


if __name__ == "__main__":
    main()
