"""The files of jobs: for each its plan, its script, and of a search the table of its trials."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hpcdist.loading.planning import Planned
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import trial_table
from hpcdist.script.renderer import render


def texts(jobs: Iterable[Planned], directory: RunDirectory) -> dict[str, str]:
    """Return the texts of the files that each job has, by file name, from that of the directory on."""
    files: dict[str, str] = {}
    for number, made in enumerate(jobs, directory.number):
        own = directory._replace(number=number).own
        plan = msgspec.json.format(msgspec.json.encode(made.plan), indent=2).decode()
        script = render(made.plan, run_dir=str(directory.path))
        files |= {own("plan.json"): f"{plan}\n", own("job.sh"): script}
        files |= {own(trial_table.FILE): trial_table.table(made.trials)} if made.trials else {}
    return files
