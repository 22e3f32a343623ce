"""The files of jobs: for each its plan, its script, and of a search the table of its trials."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hpcdist.loading.planning import Planned
from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import runtime, trial_table
from hpcdist.script.renderer import files_of_job


def texts(jobs: Iterable[Planned], directory: RunDirectory) -> dict[str, str]:
    """Return the texts of the files that each job has, by file name, from that of the directory on.

    With them come the files of the run, where it has none yet, or those of another version of hpcdist.
    """
    files = {f"{runtime.FOLDER}/{name}": text for name, text in runtime.files().items()}
    own = files[f"{runtime.FOLDER}/{runtime.LIST}"].encode()
    with suppress(OSError):  # also of one that is longer
        files = {} if directory.read(f"{runtime.FOLDER}/{runtime.LIST}", len(own)) == own else files
    for number, made in enumerate(jobs, directory.number):
        name_of = directory._replace(number=number).own
        files |= files_of_job(made.plan, str(directory.path), name_of)
        files |= {name_of(trial_table.FILE): trial_table.table(made.trials)} if made.trials else {}
    return files
