"""A layer puts words in front of a command and variables around it: launcher, container, framework.

The launch line is ``launcher words + task wrapper + container words + framework words + the user's command``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from hpcdist.errors import Problem
from hpcdist.experiment import Experiment
from hpcdist.plan import Plan, Variable, Word
from hpcdist.site import LauncherOptions, RankVariables


@runtime_checkable
class Framework(Protocol):
    """What one framework adds; one file each in ``hpcdist/frameworks/``.

    ``needs_mpi``: its tasks meet over MPI, unless ``launcher``, its own, starts them.
    """

    name: str
    roles: frozenset[str]
    needs_mpi: bool
    launcher: str | None

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the framework's own section of the file."""
        ...

    def words(self, plan: Plan) -> tuple[Word, ...]:
        """Return the words before the user's command."""
        ...

    def variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return the variables that are the same for all tasks."""
        ...

    def task_variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return the variables that differ by task: bash expressions that the task wrapper expands."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """What starts the tasks; one file each in ``hpcdist/launchers/``.

    ``hostfile_line`` is a printf format for a host and its number of tasks. ``labels_output``: it marks each
    line with its rank by itself; otherwise the task wrapper does. ``brings_mpi``: tasks that call MPI_Init
    find one world; ``gives_pmi``: by a PMI that each task can check.
    """

    name: str
    rank_variables: RankVariables | None
    schedulers: frozenset[str]
    hostfile_line: str
    brings_mpi: bool
    gives_pmi: bool
    labels_output: bool

    def words(self, plan: Plan, options: LauncherOptions) -> tuple[Word, ...]:
        """Return the words before the task wrapper.

        Raises:
            PlanError: when this launcher cannot start such a placement.
        """
        ...
