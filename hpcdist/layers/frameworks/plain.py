"""Plain: a framework that adds nothing, from which the others are derived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hpcdist.documents.fields import M, Model
from hpcdist.errors import Path, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import Template
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import Site


class NoSection(Model, frozen=True):
    """The section of a framework without keys."""


class Plain:
    """No framework: the program is started unchanged."""

    name = ""
    section: type[Model] = NoSection
    roles = frozenset({"master", "worker"})

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield the problems of the section."""
        _, problems = experiment.section(self.name, self.section)
        return (located(problem, self.name) for problem in problems)

    def topology(self, experiment: Experiment) -> Topology:
        """Return one task a replica, by any launcher."""
        del experiment
        return Topology()

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> tuple[Word, ...]:
        """Return nothing: the command is started unchanged."""
        del job, experiment, site
        return ()

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return nothing."""
        del job, experiment, site
        return ()

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return nothing."""
        del job, experiment, site
        return ()

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield nothing."""
        del job, experiment, site
        return ()


def section_of(model: type[M], experiment: Experiment, name: str) -> M:
    """Return a framework's section, an empty one where the file has none."""
    built, _ = experiment.section(name, model)
    return built if isinstance(built, model) else model()


def one_process(experiment: Experiment, name: str) -> Iterator[Problem]:
    """Yield a problem where a replica has several processes, and the framework gives it one address."""
    if (experiment.environment.processes_per_replica or 1) > 1:
        path: Path = ("environment", "processes_per_replica")
        yield Problem(f"a replica is one process under {name}", path, "write more workers instead")


def threads(job: JobSpec, origin: Origin) -> Iterator[Variable]:
    """Yield the variable for the threads of a process that each task's shell does not start itself."""
    each = min(max(1, row.cpus // row.processes) for row in job.placement.rows)
    yield Variable(name="OMP_NUM_THREADS", value=str(each), origin=origin)


def located(problem: Problem, *section: str) -> Problem:
    """Return a problem of a section as one of the file."""
    path: Path = (*section, *problem.path)
    return problem._replace(path=path)


def filled(table: Mapping[str, Template], origin: Origin) -> Iterator[Variable]:
    """Yield variables whose values the script fills in."""
    return (Variable.filled(name, value, origin) for name, value in table.items())


PLAIN = Plain()
