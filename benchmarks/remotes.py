"""Round trips to remotes, counted as sessions of ssh to a real sshd on this machine."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record, RunDirectory
from tests.runs.remotes.server import Laptop, laptop

RUNS = 100
REMOTES = {"box": "there", "box2": "there2", "box3": "there3"}


def main() -> None:
    """Print the round trips of a submission, and of the states of many runs."""
    here = laptop(Path(tempfile.mkdtemp(prefix="hpcd-")))
    try:
        remote = {"directory": str(here.there), "site": "local"}
        here.configure(**{name: {"host": host, **remote} for name, host in REMOTES.items()})
        submit(here)
        status(here)
    finally:
        here.close()
        shutil.rmtree(here.folder)


def submit(here: Laptop) -> None:
    """Submit once over a new connection, and once over one that is open."""
    here.write("hello", "true")
    for state in ("a new connection", "an open one"):
        before, begun = here.calls(), time.perf_counter()
        here.hpcdist("submit", "hello.yml", "--on", "box", "--again")
        trips, seconds = here.calls() - before, time.perf_counter() - begun
        print(f"submit --on over {state}: {trips} round trips   goal <= 4; {seconds:.2f} s", flush=True)


def status(here: Laptop) -> None:
    """Ask for the states of runs on several remotes at once, as if each had its mirror here."""
    for number in range(RUNS):
        made(here, number, [*REMOTES][number % len(REMOTES)])
    here.hpcdist("status")
    before, begun = here.calls(), time.perf_counter()
    here.hpcdist("status")
    trips, seconds = here.calls() - before, time.perf_counter() - begun
    what = (
        f"status of {RUNS} runs on {len(REMOTES)} remotes: {trips / len(REMOTES):g} round trips each   goal 1"
    )
    print(f"{what}; {seconds:.2f} s", flush=True)


def made(here: Laptop, number: int, remote: str) -> None:
    """Make a run whose job is elsewhere, so that its state stays unknown."""
    there = here.there / f"many-{number}"
    there.mkdir(parents=True)
    (there / "events").write_text(f"submitted {number + 1} {int(time.time())} elsewhere\n")
    at = rundir.timestamp(time.time())
    record = Record("many", f"t{number}", "local", "local", "d", at, Phase.SUBMITTED, f"{number + 1}", at)
    directory = RunDirectory(here.work / "runs" / f"many-{number}")
    directory.path.mkdir(mode=0o700, parents=True)
    rundir.save(directory, replace(record, remote=remote, there=str(there)))
