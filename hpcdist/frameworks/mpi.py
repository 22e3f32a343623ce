"""MPI: the program calls MPI_Init itself; the launcher gives it everything."""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.errors import Problem
from hpcdist.experiment import Experiment
from hpcdist.plan import Plan, Variable, Word


class Mpi:
    """Plain MPI."""

    name = "mpi"
    roles = frozenset({"master", "worker"})
    needs_mpi = True
    launcher: str | None = None

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield nothing: there is no section."""
        del experiment
        return ()

    def words(self, plan: Plan) -> tuple[Word, ...]:
        """Return nothing: the command is started as it is."""
        del plan
        return ()

    def variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return nothing: MPI finds its world by its launcher."""
        del plan, experiment
        return ()

    def task_variables(self, plan: Plan, experiment: Experiment) -> tuple[Variable, ...]:
        """Return nothing."""
        del plan, experiment
        return ()


MPI = Mpi()
