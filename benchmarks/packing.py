"""How busy GPUs are when trials share nodes, and how long a worker takes to claim the next trial."""

from __future__ import annotations

import heapq
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hpcdist.base.resources import template_folders

_BASH = shutil.which("bash") or "bash"
_NODES, _GPUS, _TRIALS = 4, 4, 200
_PAUSE = 0.185
"""Seconds from the end of a trial to the program of the next: the median on the test cluster, all of whose
nodes, with eight workers, have two CPUs (``tests/slurm/test_packed.py``)."""

_CLAIM = r"""
eval "$1"
shopt -s extglob
hpcdist_fail_task() { echo "$*" >&2; exit 86; }
declare -A hpcdist=([trials]=trials.tsv [run_dir]=$PWD)
HPCDIST_RUN_DIR=$PWD HPCDIST_JOB_ID=1 hpcdist_restarts=0 HPCDIST_RANK=$2 hpcdist_worker=$2 LC_ALL=C
hpcdist_read_trials
exec {never}<> <(:) # from which nothing comes: read -t sleeps without a process
until [[ -e go ]]; do read -rt 0.05 -u "$never"; done
while
  begin=${EPOCHREALTIME/./}
  hpcdist_claim_next
do
  times+=" $((${EPOCHREALTIME/./} - begin))"
  printf -v pause '%d.%03d' $((RANDOM % (2 * ($3 / 1000) + 1))) $((RANDOM % 1000))
  (($3 == 0)) || read -rt "$pause" -u "$never"
done
echo "$times"
"""


def lengths(seed: int) -> list[float]:
    """Return skewed durations of trials, as those of the test on the cluster."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    return [3 * chance.lognormvariate(0, 1) + 1.5 for _ in range(_TRIALS)]


Spans = list[tuple[float, float]]
"""When each trial begins and ends."""


def in_turn(durations: Sequence[float], workers: int) -> Spans:
    """Return the trials where each worker takes the next one when one ends."""
    free, spans = [0.0] * workers, []
    for one in durations:
        begin = free[0]
        spans.append((begin, begin + one))
        heapq.heapreplace(free, begin + one + _PAUSE)
    return spans


def divided(durations: Sequence[float], workers: int) -> Spans:
    """Return the trials where each worker has its own beforehand."""
    return [span for first in range(workers) for span in in_turn(durations[first::workers], 1)]


def shares(seed: int) -> dict[str, tuple[float, float, float]]:
    """Return the time of each way, how busy GPUs are in it, and how busy until the last trial begins."""
    durations, gpus = lengths(seed), _NODES * _GPUS
    ways = {
        "packed": in_turn(durations, gpus),
        "static division": divided(durations, gpus),
        "a whole node each": in_turn(durations, _NODES),
    }
    found = {}
    for name, spans in ways.items():
        time, last = max(end for _, end in spans), max(begin for begin, _ in spans)
        until = sum(min(end, last) - begin for begin, end in spans) / (last * gpus)
        found[name] = time, sum(durations) / (time * gpus), until
    return found


def claims(trials: int, workers: int, length: int) -> list[float]:
    """Return how many milliseconds each claim took, in trials of so many milliseconds on average."""
    pieces = (folder / "runtime" / "pack.sh" for folder in template_folders())
    runtime = next(piece.read_text(encoding="utf-8") for piece in pieces if piece.exists())
    with tempfile.TemporaryDirectory() as folder:
        for name in ("claims", "again"):
            (Path(folder) / name).mkdir()
        rows = "".join(f"{trial}\n" for trial in range(1, trials + 1))
        (Path(folder) / "trials.tsv").write_text(f"trial\n{rows}")
        started = [
            subprocess.Popen(
                [_BASH, "-c", _CLAIM, "claim", runtime, str(rank), str(length)],
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(workers)
        ]
        (Path(folder) / "go").touch()
        times = [int(word) / 1000 for one in started for word in one.communicate()[0].split()]
        made = {name.name for name in (Path(folder) / "claims").glob("*.0")}
    if not len(times) == len(made) == trials:
        raise SystemExit(f"{len(made)} of {trials} trials were claimed, in {len(times)} claims")
    return times


def main() -> None:
    """Print both."""
    print(f"{_TRIALS} one-GPU trials of skewed length on {_NODES} nodes of {_GPUS} GPUs, 20 seeds (medians):")
    every = [shares(seed) for seed in range(20)]
    for name in every[0]:
        time, busy, until = (statistics.median(one[name][place] for one in every) for place in range(3))
        print(f"  {name:<20} time {time:6.1f}   GPUs busy {busy:6.1%}   until the last begins {until:6.1%}")
    for trials, workers, length in ((1_000, 1, 0), (320, 64, 4_000), (640, 64, 4_000)):
        times = sorted(claims(trials, workers, length))
        print(
            f"claim of a trial by {workers} workers, {trials} of {length / 1000:g} s: "
            f"median {statistics.median(times):.1f} ms, 99 % below {times[int(len(times) * 0.99)]:.1f} ms"
        )
