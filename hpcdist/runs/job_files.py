"""The files of jobs: for each its plan, its script, and of a search the table of its trials."""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.loading.planning import Planned
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import runtime, trial_table
from hpcdist.script.renderer import files_of_job


def texts(jobs: Iterable[Planned], directory: RunDirectory) -> dict[str, str]:
    """Return the texts of the files that each job has, by file name, from that of the directory on.

    With those of its first job come the files of the run, which all its jobs use; a later version of hpcdist,
    whose jobs know its own alone, writes them anew.
    """
    shared, known = runtime.files(), directory.path / runtime.FOLDER / runtime.LIST
    is_known = known.is_file() and known.read_text() == shared[runtime.LIST]
    files = {} if is_known else {f"{runtime.FOLDER}/{name}": text for name, text in shared.items()}
    for number, made in enumerate(jobs, directory.number):
        own = directory._replace(number=number).own
        files |= files_of_job(made.plan, str(directory.path), own)
        files |= {own(trial_table.FILE): trial_table.table(made.trials)} if made.trials else {}
    return files
