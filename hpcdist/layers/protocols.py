"""The protocols of layers: what a launcher, a container runtime and a framework add to a job.

The launch line is ``launcher words + task wrapper + container words + framework words + the user's command``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

from hpcdist.base.errors import Problem
from hpcdist.base.fields import Model
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import ROLES
from hpcdist.experiment.sources import Image
from hpcdist.plan.model import Container, JobEnvironment, JobSpec, PreparedJob, RemoteShell
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.site.model import LauncherOptions, RankVariables, Site
from hpcdist.site.settings import Runtime


def words_of(origin: Origin, *texts: str) -> Iterator[Word]:
    """Yield words with this origin, each quoted for the shell where it is written."""
    return (Word(text=text, origin=origin) for text in texts)


class Layer:
    """The common base of built-in launchers, frameworks and container runtimes: their own words."""

    name: str
    kind: ClassVar[Literal["launcher", "framework", "container"]]

    @property
    def origin(self) -> Origin:
        """The origin of its own words and variables."""
        return Origin(self.kind, self.name)

    def own(self, *texts: str) -> Iterator[Word]:
        """Yield its own words."""
        return words_of(self.origin, *texts)


class Topology(Model, frozen=True, kw_only=True):
    """What a framework requires of placement and launch."""

    task: Literal["replica", "gpu", "node"] = "replica"
    """What a task is: a replica, one for each GPU of it, or the one on a node that starts its processes."""
    spread: bool = False
    """Whether each replica has a separate node."""
    launchers: tuple[str, ...] = ()
    """The launchers that can start it, the preferred one first; empty: any."""
    needs_mpi: bool = False
    """Whether its tasks connect over MPI."""
    allows_non_mpi: bool = True
    """Whether a launcher that has this framework among its ``frameworks`` will do instead."""
    required_roles: frozenset[str] = ROLES
    """The roles that must finish for the job to finish; the others, servers, are ended then."""
    elastic: bool = False
    """Whether the job survives the loss of a node."""
    by_address: bool = False
    """Whether tasks reach each other by addresses, not by names."""
    gpu_visibility: Literal["task", "node"] = "task"
    """The GPUs that a task sees unless the file sets it: its own, or the node's."""
    lockstep_roles: frozenset[str] = frozenset({"master", "worker"})
    """The roles whose tasks do equal work, at the pace of the slowest."""
    required_by: str | None = None
    """The key of the file that requires these launchers or this task."""


@runtime_checkable
class Framework(Protocol):
    """A framework, most on top of ``PlainFramework``.

    ``section`` is the model of its section of the file, the top-level key with its name; ``roles``: the roles
    of replicas that it knows.
    """

    name: str
    section: type[Model]
    roles: frozenset[str]

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the framework's own section of the file."""
        ...

    def topology(self, experiment: Experiment) -> Topology:
        """Return what it requires of placement and launch."""
        ...

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Word]:
        """Return the words before the user's command.

        Raises:
            PlanError: if it cannot run so.
        """
        ...

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the variables that are the same for all tasks."""
        ...

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> Iterable[Variable]:
        """Return the variables that differ by task: ``Variable.filled``, with placeholders for its place."""
        ...

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield warnings."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """A program that starts the tasks, most on top of ``PlainLauncher``.

    Templates of a plug-in are in ``launchers/NAME.sh.j2``; its function ``prepare_NAME``, if there is one,
    runs in the shell that starts it.
    """

    name: str
    program: str
    """What must be on PATH where the job runs."""
    version_words: tuple[str, ...]
    """The options that print its version; empty if there are none."""
    mpi_flavours: tuple[str, ...]
    """The MPIs whose options it accepts; empty: any."""
    substitutes: tuple[str, ...]
    """On a machine without a batch system where the program is missing, the first of these launchers that can
    start the framework is used, else the last."""
    rank_variables: RankVariables | None
    """None: it starts the program directly, without a shell for each task."""
    schedulers: frozenset[str]
    """The schedulers under which it starts tasks."""
    frameworks: frozenset[str]
    """The frameworks whose processes it connects itself; empty: it starts all, and connects none."""
    site_options: frozenset[str]
    """The keys that it reads of its section in a site file."""
    reserved_options: frozenset[str]
    """The options that hpcdist sets, and that files must not set."""
    lists_cpus: bool
    """Whether it takes a list of CPUs for each task."""
    can_go_on: bool
    """Whether it can leave the other tasks running when one fails."""
    hostfile_line: str
    """A printf format for a host and its number of tasks."""
    unequal_nodes: bool
    """Whether that number may differ by node."""
    provides_mpi: bool
    """Whether tasks that call MPI_Init share one MPI_COMM_WORLD."""
    provides_pmi: bool
    """Whether they do so by a PMI that each task can check."""
    pmi_over_components: str | None
    """The type of PMI of a job of several components that needs no MPI."""
    labels_output: bool
    """Whether it marks each line with its rank by itself; otherwise each task's shell does."""
    labels_single: bool
    """Whether it may do so for a single task as well."""
    remote_shell: RemoteShell | None
    """How it reaches other nodes; None: through the batch system."""
    orders_nodes: bool
    """Whether its ranks follow its own order of nodes, which the script's ``order_nodes_NAME`` finds out."""

    def words(self, job: PreparedJob, options: LauncherOptions) -> Iterable[Word]:
        """Return the words before each task's shell.

        Raises:
            PlanError: when this launcher cannot start such a placement.
        """
        ...


@runtime_checkable
class AdvisingLauncher(Protocol):
    """Optional for a launcher: warnings about jobs that it starts."""

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterable[Problem]:
        """Yield what the user should know before submitting."""
        ...


@runtime_checkable
class AbbreviatingLauncher(Protocol):
    """Optional for a launcher: options in short forms, as getopt_long(3) reads them.

    ``bare_options``: the letters of options without a value, after which others may follow (``-uN2``). Long
    options may be abbreviated.
    """

    bare_options: str


@runtime_checkable
class ContainerRuntime(Protocol):
    """A container runtime.

    ``program``: what must be on PATH where the job runs, "" for nothing. ``launchers``: those that can
    start tasks in it; empty: all. ``single_options``: launcher options that it sets, and takes once, with
    what to write instead. ``runtime`` is the ``container`` section of the site file.
    """

    name: str
    program: str
    launchers: frozenset[str]
    single_options: Mapping[str, str]

    def image(self, image: Image) -> str:
        """Return the image as the runtime names it.

        Raises:
            PlanError: where it cannot run such an image.
        """
        ...

    def launcher_words(
        self, job: JobSpec, container: Container, environment: JobEnvironment, runtime: Runtime
    ) -> Iterable[Word]:
        """Return options for the launcher."""
        ...

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> Iterable[Word]:
        """Return the words between each task's shell and what runs inside."""
        ...


@runtime_checkable
class PreparesContainers(Protocol):
    """Optional for a container runtime: lines that the job's shell runs before its tasks."""

    def prepare(
        self, job: JobSpec, container: Container, variables: Sequence[Variable], runtime: Runtime
    ) -> Iterable[Word]:
        """Yield these lines; ``variables``: the variables of all tasks."""
        ...


@runtime_checkable
class FetchesImages(Protocol):
    """Optional for a container runtime: it makes a file of an image, once for all tasks."""

    def fetch(self, container: Container) -> tuple[str, ...]:
        """Return the file's suffix and the command that makes it: the file's name goes before the last word.

        Empty if the image is already a file. The runtime's own words name the file ``$hpcdist_image``.
        """
        ...


@runtime_checkable
class StartsEntrypoints(Protocol):
    """Optional for a container runtime: it starts the entrypoint of an image.

    ``in_workdir``: in the image's WORKDIR, if the experiment names no other folder; else in the submit
    directory.
    """

    in_workdir: bool

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return the words that start it inside, before its arguments.

        Empty if the runtime itself starts it: ``words`` of such a container then end before the arguments,
        and set the site's variables (``containers.site_variables``).
        """
        ...
