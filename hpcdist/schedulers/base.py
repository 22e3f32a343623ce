"""The interface of a batch system: what a scheduler must be able to do, and what is optional.

A scheduler returns commands and reads their output; it starts no process. What a batch system must have is
abstract; each fact has the value of most batch systems; an ability that some batch systems lack returns None,
or nothing, here. A `BatchSystem` finds what needs a plan in the module ``directives`` of its folder.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import Problem, SchedulerError
from hpcdist.schedulers.job import Job, Status, Usage

if TYPE_CHECKING:
    from hpcdist.plan.model import Plan, PreparedJob
    from hpcdist.plan.values import Directive, Origin
    from hpcdist.schedulers.directives import DirectiveSyntax, HeaderSyntax
    from hpcdist.site.model import Site


class Installation(NamedTuple):
    """How to detect a batch system: its command is on PATH, and one further sign confirms it."""

    title: str
    command: str
    variable: str
    """A variable that is set where it is installed."""
    files: tuple[str, ...] = ()
    """One of these files exists there; relative ones are below the prefix of the command."""
    question: Command | None = None
    """A command whose output does not deny it."""
    denials: tuple[str, ...] = ()
    """Texts by which that output denies it."""

    def is_confirmed_by(self, completed: Completed) -> bool:
        """Return whether the command's output does not deny it: a missing program denies nothing."""
        return completed.missing or not any(text in completed.stderr for text in self.denials)


RUN_DIR: Final = "{run}"
"""The run directory in an option of a submission, which is stored before that exists."""


class Submission(NamedTuple):
    """A script about to be submitted; ``token`` is unique and lets the job be found again.

    ``after``: the ids of jobs that must have ended, in any way, before this one begins.
    ``options``: options of the command that the script cannot hold.
    """

    script: str
    directory: str
    token: str
    after: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class ShellRequest(NamedTuple):
    """A script that runs in the foreground; ``directives``: what its header asks for.

    ``terminal``: whether this process has one; else the script shares its standard streams.
    """

    submission: Submission
    directives: tuple[Directive, ...] = ()
    terminal: bool = False


class Nodes(NamedTuple):
    """Nodes of a running job, with their numbers in its plan.

    ``job``: the job or the element of an array as the batch system knows it: ``12``, ``12_3``, ``12[3]``.
    """

    job: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]


class NodeRequest(NamedTuple):
    """The request of a job for nodes by name; it gets all or most of each node.

    ``directive``: for the batch system; ``constraint``: on all its nodes; ``of_each``: on each one.
    """

    directive: str = ""
    constraint: str = ""
    of_each: tuple[str, ...] = ()


class ArrayLimit(NamedTuple):
    """The largest index of an array that a batch system accepts by default, and its setting for it."""

    largest: int
    setting: str


class LibraryStatus(NamedTuple):
    """The state on this host of a Python library that reads a batch system, and what to do about it."""

    name: str
    detail: str
    hint: str = ""


class Query(Protocol):
    """A query for the states of jobs; a scheduler has several, the cheapest first."""

    @property
    def provisional(self) -> bool:
        """Whether a later query must confirm what this one calls final."""
        return False

    @property
    def one_by_one(self) -> bool:
        """Whether it needs a command for each job; if so, the job's event log is read first."""
        return False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield the commands that ask for all these jobs, as few as the scheduler allows."""
        ...

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return states by job id; jobs that the output does not name are left out.

        Where the id has been reused for another job, the state is ``UNKNOWN`` without a native word.
        Unreadable output gives an empty mapping: a state is never guessed.
        """
        ...


class Accounting(Protocol):
    """Queries for the starts of jobs that a batch system keeps."""

    @property
    def at_once(self) -> bool:
        """Whether a command asks for all these jobs; else it asks for one job."""
        return False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield the commands that show them; none for an id that the batch system cannot have."""
        ...

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts of one job in an answer; none for unreadable output."""
        ...


class Left(NamedTuple):
    """What an account has left, in a unit such as ``GPU-hours``; ``total``: its limit, None if unknown."""

    amount: float
    unit: str
    total: float | None = None


class Balances(Protocol):
    """Limits of accounts, and how much of them is used."""

    def ask(self, account: str) -> Command:
        """Return the command that shows what this account has left."""
        ...

    def read(self, completed: Completed, account: str, user: str) -> Iterator[Left]:
        """Yield what is left for a job of the user, of each resource that is limited; none for junk."""
        ...


class Estimate(NamedTuple):
    """When a job would start, in seconds since 1970; None if unknown, and ``why`` has the reason."""

    start: float | None = None
    why: str = ""


class Starts(Protocol):
    """When a batch system expects jobs to start: a script that is not submitted, and jobs that wait."""

    def test(self, script: str) -> Command | None:
        """Return the command that asks when a script with this text would start; None if there is none."""
        return None

    def read_test(self, completed: Completed) -> Estimate:
        """Return its answer; a refusal is an unknown time, and ``why`` has the batch system's words."""
        return Estimate()

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield the commands that ask for all these jobs."""
        ...

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return times in seconds since 1970 by job id; jobs without an estimate are left out."""
        ...


class Scheduler(ABC):
    """A batch system."""

    name: str
    """Its name in site files."""

    is_batch_system: bool = True
    """Whether jobs are queued by a batch system; else they are processes of this machine.

    Such jobs need no account, walltime or defaults of the user's config; status queries are free.
    """

    installation: Installation | None = None
    """How to detect that it is installed on a machine; None if that is impossible.

    If it is detected, and no site is named or recognised, the site file with the scheduler's name is used.
    """

    names_gpus: bool = True
    """Whether it sets the GPU variable of each job with GPUs, so that none uses another job's."""

    sets_threads: bool = False
    """Whether it sets OMP_NUM_THREADS to something other than the CPUs per task."""

    has_components: bool = False
    """Whether nodes of different kinds are components of a heterogeneous job.

    A launcher that asks the batch system finds only the first component; empty lines of the script
    are dropped (both tried on Slurm 22.05).
    """

    has_arrays: bool = True
    """Whether a job may be an array."""

    array_limit: ArrayLimit | None = None
    """The limit of arrays, which a site may have changed."""

    rounds_cpus: bool = False
    """Whether it requests CPUs in proportion to GPUs where a site has ``cpus_per_gpu``."""

    requeues: bool = False
    """Whether a job can requeue itself, by ``requeue`` of its module in the run's files."""

    open_mpi_support: str = ""
    """What Open MPI must be built with to find the job's nodes; empty if any build finds them."""

    node_flags: Sequence[str] = ()
    """The flags that name nodes which a job must not get, or must get."""

    orphan_directive: str = ""
    """The directive by which a job ends as soon as it can never start, if there is one.

    Without it the job waits for ever, unless the site configured otherwise; PBS and Flux end such jobs.
    """

    accounting: Accounting | None = None
    """The records of the starts of jobs."""

    balances: Balances | None = None
    """The limits of accounts."""

    starts: Starts | None = None
    """The estimates of when jobs start."""

    pmi_launcher: str = ""
    """The launcher whose option ``--mpi`` takes a type of PMI; empty for none."""

    @abstractmethod
    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the lines for the scheduler.

        Raises:
            PlanError: when the plan holds something that this scheduler cannot express; it names the field.
        """

    @abstractmethod
    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield each line at the head of the script with its origin, quoted as the scheduler reads it.

        The output goes to ``logs/`` in the run directory, else into the folder of submission.
        """

    @abstractmethod
    def submit(self, submission: Submission) -> Command:
        """Return the command that submits the script with its token."""

    @abstractmethod
    def read_submit(self, completed: Completed) -> str:
        """Return the job's id.

        Raises:
            SchedulerError: when the job was certainly not made; the scheduler's words are in the message.
            SubmissionUnknown: when it may have been made.
        """

    @abstractmethod
    def find(self) -> Iterator[Command]:
        """Yield the commands that list this user's jobs with their tokens."""

    @abstractmethod
    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""

    @abstractmethod
    def queries(self) -> tuple[Query, ...]:
        """Return the queries for states, in the order in which to try them."""

    @abstractmethod
    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that ends these jobs."""

    def cancel_element(self, job: Job, index: int) -> Command | None:
        """Return the command that ends one element of an array; one that is over is no failure."""
        return None

    def wait(self, job: Job) -> Command | None:
        """Return the command that ends with exit code 0 when the job is over; hpcdist stops it after a time.

        Any other exit code means that it cannot wait here; it is not run again.
        """
        return None

    def shell(self, request: ShellRequest) -> Command | None:
        """Return the command that waits for the allocation, says so, and runs the script on its first node.

        It ends with the script's exit code and releases the allocation; so do signals.
        """
        return None

    def login_shell(self, request: ShellRequest) -> Command:
        """Return the command that waits for the allocation, and runs the user's login shell there.

        For batch systems without `shell`: the user starts the script.

        Raises:
            SchedulerError: where hpcdist knows no shell of the batch system.
        """
        raise SchedulerError(Problem(f"hpcdist knows no shells of {self.name}"))

    def inside(self, nodes: Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield the commands that run these words once on each of these nodes, as few as possible.

        Each prints what the words print, whole lines at a time, and ends with their exit code: for several
        nodes one that is not 0, if any. ``terminal``: the words get a terminal, where possible.

        Raises:
            SchedulerError: where hpcdist knows no way into a running job.
        """
        raise SchedulerError(Problem(f"hpcdist knows no way into the running jobs of {self.name}"))

    def has_leftovers(self, status: Status) -> bool:
        """Return whether a job that is over, with this status, left processes, which `cancel` ends."""
        return False

    def lost_nodes(self, status: Status) -> tuple[str, ...]:
        """Return the nodes that the reason for the end of a job names as lost."""
        return ()

    def ask_nodes(self, nodes: Sequence[str]) -> Command | None:
        """Return the command that shows the states of these nodes; a job may have lost one of them."""
        return None

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the nodes that are down or do not answer; none for unreadable output."""
        return ()

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the site file that prevents memory requests, empty where jobs can make them."""
        return ""

    def cannot_exclude(self, site: Site) -> str:
        """Return why jobs cannot exclude nodes by name; empty if they can."""
        return "" if self.node_flags else f"hpcdist cannot exclude nodes from a job of {self.name}"

    def request_nodes(self, names: Sequence[str]) -> NodeRequest | None:
        """Return what a job requests to get these nodes; None where hpcdist knows no way."""
        return None

    def advice(self, job: PreparedJob, site: Site) -> Iterator[Problem]:
        """Yield what the user should know before submitting."""
        return iter(())

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield the directives in a site file that no job can use, each with its path in the file."""
        return iter(())

    def library_status(self, runner: Runner) -> LibraryStatus | None:
        """Return whether a library that reads the batch system works on this host."""
        return None

    def list_pmi_types(self) -> Command | None:
        """Return the command that lists the types of PMI of `pmi_launcher`; a site file names one type."""
        return None

    def read_pmi_types(self, completed: Completed) -> tuple[str, ...]:
        """Return the types that it lists, the most common ones first; none for unreadable output."""
        return ()


class _DirectiveModule(Protocol):
    """The module that writes a batch system's directives; importing it loads the plan package."""

    HEADER: HeaderSyntax

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the lines for the scheduler."""
        ...

    def syntax_of(self, site: Site) -> DirectiveSyntax:
        """Return how its directives are written on this site."""
        ...


class BatchSystem(Scheduler):
    """A batch system with a separate module for directives, which is imported only for plans."""

    directive_module: str
    """The full name of that module, with ``directives``, ``HEADER`` and ``syntax_of``."""

    @property
    def _module(self) -> _DirectiveModule:
        return cast("_DirectiveModule", importlib.import_module(self.directive_module))

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the lines for the scheduler."""
        return self._module.directives(job, site)

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield the lines with their origins.

        Raises:
            PlanError: for a value that no directive can hold.
        """
        from hpcdist.schedulers.directives import header  # with all of a plan

        return header(self._module.HEADER, plan, run_dir)

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield a problem for each directive of a site file that no job can use."""
        from hpcdist.schedulers.directives import site_directive_problems

        return site_directive_problems(self._module.syntax_of(site), site)
