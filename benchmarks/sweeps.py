"""How long `sweep status` of 10,000 trials takes, beside `status` of the same run, which is one row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from hpcdist.plan.trials import TrialTexts
from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from hpcdist.script.trial_table import table

TRIALS = 10_000
AT = 1_767_225_600

Compare = Callable[[Callable[[], float], Callable[[], float]], tuple[float, float]]
Line = Callable[[str, float, float, str], None]


def made(folder: Path) -> Path:
    """Make a search of which nine tenths of the trials have ended; return the folder that has its run."""
    run = rundir.create(folder / "runs", "tune")
    record = Record("tune", "t", "slurm", "slurm", "d", rundir.timestamp(AT), Phase.SUBMITTED, "1")
    rundir.save(run, replace(record, trials=f"1-{TRIALS}"))
    plan = {"request": {"array": f"1-{TRIALS}%64"}, "placement": {"rows": [], "groups": []}}
    run.write("plan.json", json.dumps(plan))
    params = ({"POLYAXON_PARAMS": json.dumps({"lr": number / TRIALS})} for number in range(1, TRIALS + 1))
    run.write("trials.tsv", table([TrialTexts({}, "train", each, at) for at, each in enumerate(params, 1)]))
    ended = range(1, TRIALS * 9 // 10)
    run.write(
        "events", "".join(f"started 1_{at} {AT + at} 0\nended 1_{at} {AT + at + 60} 0\n" for at in ended)
    )
    return folder


def main(directory: Path, compare: Compare, line: Line, status: Callable[..., float]) -> None:
    """Compare both where no squeue answers, so that no time is that of a batch system."""
    folder = made(directory / "sweep")
    one, other = (
        lambda: status("sweep", "status", "tune-1", folder=folder),
        lambda: status("status", "tune-1", folder=folder),
    )
    line(f"hpcdist sweep status of {TRIALS:,} trials / status of the run", *compare(one, other), "<= 2")
