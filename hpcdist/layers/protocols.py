"""The protocols of layers: what launchers, container runtimes and frameworks add to a job.

The launch line is ``launcher words + task wrapper + container words + framework words + the user's command``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from hpcdist.documents.fields import Model
from hpcdist.errors import Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.replicas import ROLES
from hpcdist.experiment.sources import Image
from hpcdist.plan.model import Container, Environment, JobSpec, PreparedJob, RemoteShell
from hpcdist.plan.values import Variable, Word
from hpcdist.site.model import LauncherOptions, RankVariables, Site
from hpcdist.site.settings import Runtime


class Topology(Model, frozen=True, kw_only=True):
    """What a framework requires of placement and launch.

    ``task``: whether a replica is one task or one for each of its GPUs, or all processes of a node are one
    task, which starts them. ``launchers``: those that can start it, the preferred one first; empty: any.
    ``spread``: each replica has a node of its own. ``needs_mpi``: its tasks connect over MPI;
    ``allows_non_mpi``: or by a launcher that has this framework among its ``frameworks``.
    ``required_roles``: the roles whose end is the end of the job; the others, servers, are ended then.
    ``elastic``: the job survives the loss of a node. ``by_address``: tasks reach each other by addresses, not
    by names. ``gpu_visibility``: the GPUs that a task sees (its own, or the node's) unless the file sets it.
    ``lockstep_roles``: the roles whose tasks do equal work, at the pace of the slowest. ``required_by``: the
    key of the file that requires these launchers or this task.
    """

    task: Literal["replica", "gpu", "node"] = "replica"
    spread: bool = False
    launchers: tuple[str, ...] = ()
    needs_mpi: bool = False
    allows_non_mpi: bool = True
    required_roles: frozenset[str] = ROLES
    elastic: bool = False
    by_address: bool = False
    gpu_visibility: Literal["task", "node"] = "task"
    lockstep_roles: frozenset[str] = frozenset({"master", "worker"})
    required_by: str | None = None


@runtime_checkable
class Framework(Protocol):
    """A framework; one file each in ``layers/frameworks/``, most on top of ``plain.Plain``.

    ``section`` is the model of its section of the file, the top-level key of its name; ``roles`` are those
    of the replicas that it knows.
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

    def words(self, job: PreparedJob, experiment: Experiment, site: Site) -> tuple[Word, ...]:
        """Return the words before the user's command.

        Raises:
            PlanError: where it cannot run so.
        """
        ...

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the variables that are the same for all tasks."""
        ...

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the variables that differ by task: ``Variable.filled``, with placeholders for its place."""
        ...

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield warnings."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """A program that starts the tasks; one file each in ``layers/launchers/``.

    ``reserved_options``: those that hpcdist sets, and that no file may give. ``lists_cpus``: it takes a list
    of CPUs for each task. ``can_go_on``: it can leave the other tasks running when one fails.

    ``rank_variables`` None: it starts the program itself, without each task's shell. ``frameworks``: those
    whose processes it connects itself; empty: it starts all, and connects none. ``site_options`` are the keys
    that it reads of its section in a site file. ``hostfile_line`` is a printf format for a host and its
    number of tasks; ``unequal_nodes``: that number may differ by node. ``labels_output``: it marks each line
    with its rank by itself; otherwise each task's shell does. ``labels_single``: it may do so for a single
    task as well. ``provides_mpi``: tasks that call MPI_Init share one MPI_COMM_WORLD; ``provides_pmi``: by a
    PMI that each task can check; ``pmi_over_components``: the type of PMI of a job of several components that
    needs no MPI. ``remote_shell``: how it reaches other nodes, None: through the batch system.
    ``orders_nodes``: its ranks follow its own order of nodes, which the script's function
    ``order_nodes_NAME`` finds out; ``prepare_NAME``, if there is one, runs in the shell that starts it. Those
    of a plug-in are in a template ``launchers/NAME.sh.j2``.

    ``program``: what must be on PATH where the job runs; ``version_words``: the options that print its
    version (empty: none do). ``mpi_flavours``: the MPIs whose options it takes (empty: any). ``substitutes``:
    on a machine without a batch system where the program is missing, the first of these launchers that can
    start the framework is used, else the last.
    """

    name: str
    program: str
    version_words: tuple[str, ...]
    mpi_flavours: tuple[str, ...]
    substitutes: tuple[str, ...]
    rank_variables: RankVariables | None
    schedulers: frozenset[str]
    frameworks: frozenset[str]
    site_options: frozenset[str]
    reserved_options: frozenset[str]
    lists_cpus: bool
    can_go_on: bool
    hostfile_line: str
    unequal_nodes: bool
    provides_mpi: bool
    provides_pmi: bool
    pmi_over_components: str | None
    labels_output: bool
    labels_single: bool
    remote_shell: RemoteShell | None
    orders_nodes: bool

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return the words before each task's shell.

        Raises:
            PlanError: when this launcher cannot start such a placement.
        """
        ...


@runtime_checkable
class AdvisingLauncher(Protocol):
    """What a launcher may have besides: warnings about jobs that it starts."""

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterable[Problem]:
        """Yield what the user should know before submitting."""
        ...


@runtime_checkable
class AbbreviatingLauncher(Protocol):
    """What a launcher may have besides: options in short forms, as getopt_long(3) reads them.

    ``bare_options``: the letters of those without a value, behind which others may stand (``-uN2``). Long
    ones may be abbreviated.
    """

    bare_options: str


@runtime_checkable
class ContainerRuntime(Protocol):
    """A container runtime; one file each in ``layers/containers/``.

    ``program``: what must be on PATH where the job runs, "" for nothing. ``launchers``: those that start
    tasks in it; empty: all. ``single_options``: launcher options that it sets, and takes only once, with
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
        self, job: JobSpec, container: Container, environment: Environment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return options for the launcher."""
        ...

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return the words between each task's shell and what runs inside."""
        ...


@runtime_checkable
class PreparesContainers(Protocol):
    """What a container runtime may have besides: lines that the job's shell runs before its tasks."""

    def prepare(
        self, job: JobSpec, container: Container, variables: Sequence[Variable], runtime: Runtime
    ) -> Iterable[Word]:
        """Yield these lines; ``variables``: those of all tasks."""
        ...


@runtime_checkable
class FetchesImages(Protocol):
    """What a container runtime may have besides: it makes a file of an image, once for all tasks."""

    def fetch(self, container: Container) -> tuple[str, ...]:
        """Return the file's suffix and what makes it, without its name, which stands before the last word.

        Nothing, where the image is a file already. The runtime's own words name the file ``$hpcdist_image``.
        """
        ...


@runtime_checkable
class StartsEntrypoints(Protocol):
    """What a container runtime may have besides: it starts the entrypoint of an image.

    ``in_workdir``: in the image's WORKDIR, where the experiment names no other folder; else in the submit
    directory.
    """

    in_workdir: bool

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return what starts it inside, before its arguments.

        Nothing, where the runtime itself does: ``words`` of such a container then end before the arguments,
        and set the site's variables (``site_words.variables``).
        """
        ...
