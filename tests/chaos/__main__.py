"""``make chaos``: hostile files, values, run directories, disks, kills, restarts, in numbers no test has.

    python -m tests.chaos [--seed N] [--share PERCENT] [DRIVER ...]

Prints a table, then what was wrong, and exits with 1 for that. The seed is the day's, so that each day tries
others; a line says how to meet its fault again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.corrupt import runs
from tests.chaos.disks import disks
from tests.chaos.fields import fields
from tests.chaos.files import files
from tests.chaos.kills import kills
from tests.chaos.result import Result
from tests.chaos.searches import searches
from tests.chaos.trainings import trainings
from tests.chaos.values import values


class Driver(NamedTuple):
    """A function of a count, a seed and an empty folder, and how often `make chaos` has it try."""

    run: Callable[[int, int, Path], Result]
    tries: int


DRIVERS: Final = {
    "files": Driver(files, 10_000),
    "fields": Driver(fields, 3_000),
    "values": Driver(values, 5_000),
    "runs": Driver(runs, 2_000),
    "disks": Driver(disks, 220),
    "kills": Driver(kills, 300),
    "searches": Driver(searches, 300),
    "trainings": Driver(trainings, 300),
}


def main(words: Sequence[str]) -> int:
    """Run the drivers that are named, else all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86_400))
    parser.add_argument("--share", type=float, default=100, help="percent of the tries")
    parser.add_argument("driver", nargs="*", choices=[[], *DRIVERS])
    options = parser.parse_args(words)
    found = []
    for name in options.driver or DRIVERS:
        driver = DRIVERS[name]
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-"))
        began = time.monotonic()
        result = driver.run(max(1, int(driver.tries * options.share / 100)), options.seed, folder)
        found.append(result)
        if not result.wrong:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {time.monotonic() - began:.0f} s, seed {options.seed}, {folder}", flush=True)
    for name, number, outcome in (row for result in found for row in result.rows()):
        print(f"{name:8}  {number:>7}  {outcome}")
    wrong = [line for result in found for line in result.wrong]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
