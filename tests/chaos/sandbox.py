"""Scenes of a driver, some at once, in namespaces of their own: no process and no mount is left."""

from __future__ import annotations

import concurrent.futures
import importlib
import json
import multiprocessing
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.chaos import people
from tests.chaos.result import Result

_SANDBOX: Final = "unshare --mount --map-root-user --pid --fork --kill-child --mount-proc bash -c"
_AT_ONCE: Final = 3


def play(driver: str, count: int, seed: int, folder: Path) -> Result:
    """Play so many scenes of a driver, a module beside this one, where a bash is the parent of orphans.

    Its ``scene`` takes a folder and a seed, and returns how often each outcome came, and what was wrong.
    """
    call = ("bash", sys.executable, "-m", __spec__.name, driver, str(count), str(seed), str(folder))
    words = (*_SANDBOX.split(), '"$@"; exit', *call)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return Result(driver, Counter(), [done.stderr])
    outcomes, wrong = json.loads(done.stdout)
    return Result(driver, Counter(outcomes), wrong)


def _scenes(driver: str, count: int, seed: int, folder: Path) -> None:
    """Play them, and print what came of them."""
    people.import_all()
    scene = importlib.import_module(f"tests.chaos.{driver}").scene
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with concurrent.futures.ProcessPoolExecutor(_AT_ONCE, multiprocessing.get_context("fork")) as pool:
        numbers = range(1000 * seed, 1000 * seed + count)
        for outcome, found in pool.map(scene, (folder / str(number) for number in numbers), numbers):
            outcomes += outcome
            wrong += found
    sys.stdout.write(json.dumps([outcomes, wrong]))


if __name__ == "__main__":
    _scenes(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
