"""What `control.submit` is asked to submit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hpcdist.code.prepare import Code
from hpcdist.runs import rundir
from hpcdist.runs.rundir import RunDirectory


class SubmitRequest(NamedTuple):
    """What to submit; ``files`` returns the run's files (name and text) for its directory.

    ``code`` puts the code of the job into the run directory, or records that of the current folder.
    ``options``: those of the submission, as in the plan. ``jobs``: the trials of each of its jobs, as in
    `Record`; ``one_by_one``: each begins when the one before has ended; ``followed``: it does, too, and
    goes on with what that did not complete. ``after``: the id of a job of another run that must have ended,
    in whatever way, before the first one begins. ``restart_of``, ``copy_of``, ``operation``, ``remote``: as
    in `Record`, and ``file``; ``there``: the folder of all runs there. ``changes``: the options with which
    the experiment is read, as command-line words. ``mark``: what else tells it from a submission of the same
    experiment.
    """

    name: str
    site: str
    scheduler: str
    experiment: str
    files: Callable[[RunDirectory], Mapping[str, str]]
    code: Callable[[RunDirectory], Code] = lambda _: Code()
    options: tuple[str, ...] = ()
    jobs: Sequence[str] = ("",)
    one_by_one: bool = False
    followed: bool = False
    after: str = ""
    restart_of: str = ""
    copy_of: str = ""
    operation: str = ""
    remote: str = ""
    there: str = ""
    changes: tuple[str, ...] = ()
    mark: str = ""
    file: str = ""

    @property
    def digest(self) -> str:
        """What identifies the submission: the hash of its experiment, options and mark."""
        return rundir.digest(json.dumps([self.experiment, self.changes, self.mark]))

    @property
    def texts(self) -> dict[str, str]:
        """The files that say what was submitted: the user's, and the options, which only hpcdist writes."""
        return {"experiment.yml": self.experiment, rundir.OPTIONS: f"{json.dumps(self.changes)}\n"}
