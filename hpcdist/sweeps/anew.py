"""A new run of the experiment that an earlier run recorded: what `restart` and `copy` submit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcdist.code.prepare import Code
from hpcdist.errors import ConfigError, Problem
from hpcdist.host.command import Runner
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import copying, job_code, requests
from hpcdist.runs.control import SubmitRequest
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.sweeps import replanning

Pairs = Sequence[tuple[str, str]]


class Changes(NamedTuple):
    """What a new run is to have in another way than the earlier one."""

    site: str | None = None
    params: Pairs = ()
    settings: Pairs = ()
    update: bool = False


def options(run: Run, changes: Changes) -> ExperimentOptions:
    """Return the options of its experiment with these changes; of two with one name the later one counts.

    Raises:
        ConfigError: if its file cannot be read.
    """
    found = replanning.recorded(run)
    return found._replace(
        site=changes.site or found.site,
        params=(*dict([*found.params, *changes.params]).items(),),
        settings=(*dict([*found.settings, *changes.settings]).items(),),
    )


class Anew(NamedTuple):
    """The new run: of which one, its options and plan; with ``copies`` it begins with the outputs of that.

    ``update``: the code is taken anew from the folder where the run was submitted.
    """

    run: Run
    options: ExperimentOptions
    made: Planned
    copies: bool = False
    update: bool = False

    def request(self, runs_dir: Path, runner: Runner) -> SubmitRequest:
        """Return the submission request, with the run that it comes from as its mark.

        Raises:
            PlanError: as `requests.of`.
        """
        run, does = self.run, "copy" if self.copies else "restart"
        name = run.name if run.directory.path.parent == runs_dir else str(run.directory.path)
        text, mark = replanning.text_of(run), f"{does} of {name}"
        prepare = partial(job_code.recorded, run, self.made, runner=runner, update=self.update)
        return requests.of(self.made, self.options, runner, text=text, mark=mark)._replace(
            code=partial(self._code, prepare),
            restart_of="" if self.copies else name,
            copy_of=name if self.copies else "",
        )

    def _code(self, prepare: Callable[[RunDirectory], Code], directory: RunDirectory) -> Code:
        """Put the code into the new run, and the copies with which it begins."""
        found = prepare(directory)
        if self.copies:
            begin = copying.mark if self.run.record.remote else copying.copy  # a remote copies what is there
            try:
                begin(self.run.directory, directory)
            except OSError as error:
                place = error.filename or self.run.directory.path
                message = f"{place} cannot be copied: {error.strerror}"
                raise ConfigError(
                    Problem(message, hint="is the disk full, or your quota used up?")
                ) from error
        return found
