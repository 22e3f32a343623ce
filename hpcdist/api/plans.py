"""A plan: what runs where, decided, and its submission."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcdist.api import values
from hpcdist.api.finding import runs_directory
from hpcdist.api.runs import Run
from hpcdist.base.errors import Problem
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.runs import requests, this_machine
from hpcdist.runs.submission import SubmitOutput
from hpcdist.script.renderer import render

if TYPE_CHECKING:
    from rich.table import Table

    from hpcdist.runs.remotes.machines import Target


@dataclass(frozen=True, repr=False)
class Plan:
    """Everything decided about a job: its tasks, nodes, variables and script; nothing was submitted."""

    _made: Planned
    _options: ExperimentOptions
    _beside: Mapping[str, str] = field(default_factory=dict)
    _remote: Target | None = None

    @property
    def name(self) -> str:
        """The name of the experiment, with which those of its runs begin."""
        return self._made.plan.identity.name

    @property
    def site(self) -> str:
        """The machine."""
        return self._made.plan.identity.site

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self._made.plan.placement.nodes

    @property
    def tasks(self) -> int:
        """The number of tasks that the launcher starts."""
        return self._made.plan.placement.size

    @property
    def elements(self) -> int:
        """The number of elements of its array, or of trials of its search; 1 without these."""
        array = self._made.plan.request.array
        return max(1, len(self._made.trials), array.size if array else 1)

    @property
    def summary(self) -> str:
        """What runs where, in a few words: ``8 tasks by srun, 2 nodes, 8 GPUs (site perlmutter)``."""
        return self._made.summary

    @property
    def cost(self) -> str:
        """What it takes at most, as `hpcdist plan` prints it; empty where that is not known."""
        return self._made.cost.summary if self._made.cost else ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The warnings and notes, with their places."""
        return self._made.problems

    @property
    def unusual(self) -> tuple[Problem, ...]:
        """Notes about what is valid and yet rare, such as a variable for debugging."""
        return self._made.unusual

    def render(self) -> str:
        """Return the job script, which runs without hpcdist, also by ``sbatch FILE``."""
        return render(self._made.plan)

    def submit(self, runs_dir: str | os.PathLike[str] | None = None, *, again: bool = False) -> Run:
        """Submit it exactly once, as `hpcdist submit`; the job runs in the current folder.

        A plan that was made ``on`` a remote is submitted there, over ssh, where no such folder is:
        ``batch.code`` takes one along.

        An earlier submission of the same experiment that was interrupted is completed, and its run returned,
        unless ``again``. ``runs_dir``: by default $HPCDIST_RUNS_DIR, else ``runs``. What a verb would print
        is in ``Run.notes``. On Ctrl-C the job may exist; the next submission finds it.

        Raises:
            ConfigError: if the run cannot be written, or other users could replace its files.
            SchedulerError: if the batch system refused, or another process keeps submitting it.
            SubmissionUnknown: if there was no answer: the job may exist, do not submit it again blindly.
        """
        services, notes = this_machine.services(), list[str]()
        request = requests.of(self._made, self._options, services.runner)
        own = request.files
        request = request._replace(files=lambda directory: {**own(directory), **self._beside})
        folder, output = runs_directory(runs_dir), SubmitOutput(note=notes.append)
        if self._remote:
            request, services = self._remote.prepare(request, self._made, folder, services)
        run = this_machine.submit(request, folder, services, output, again=again)
        return Run(run, tuple(notes))

    def __repr__(self) -> str:
        return f"<Plan {self.name}: {self.summary}>"

    def __rich__(self) -> Table:
        return values.table(self._rows())

    def _repr_html_(self) -> str:
        return values.html(self._rows()) + values.folded("job script", self.render())

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "plan", self.name
        yield "site", self.site
        yield "runs", self._made.plan.summary
        if self.cost:
            yield "cost", self.cost
        yield from ((problem.severity, str(problem)) for problem in self.problems)
