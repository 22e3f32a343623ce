"""What `control.submit` is asked to submit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hpcdist.code.prepare import Code
from hpcdist.runs.rundir import RunDirectory


class SubmitRequest(NamedTuple):
    """What to submit; ``files`` returns the run's files (name and text) for its directory.

    ``code`` puts the code of the job into the run directory, or records that of the current folder.
    ``options``: those of the submission, as in the plan. ``jobs``: the trials of each of its jobs, as in
    `Record`; ``one_by_one``: each begins when the one before has ended; ``followed``: it does, too, and
    goes on with what that did not complete. ``after``: the id of a job of another run that must have ended,
    in whatever way, before the first one begins. ``restart_of``, ``copy_of``, ``operation``, ``remote``: as
    in `Record`; ``there``: the folder of all runs there.
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
