"""Schedulers: each returns the commands of its batch system and reads their output; none starts a process.

One scheduler is one file or folder here, and functions of its name in ``templates/runtime``;
``schedulers.get("slurm")`` imports it when asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from hpcdist.host.command import Command, Completed, Runner
from hpcdist.registry import Registry
from hpcdist.schedulers.installations import Installation
from hpcdist.schedulers.job import Job, Status

if TYPE_CHECKING:
    from hpcdist.errors import Problem
    from hpcdist.plan.model import Plan, PreparedJob
    from hpcdist.plan.origin import Origin
    from hpcdist.plan.values import Directive
    from hpcdist.site.model import Site


class Submission(NamedTuple):
    """A script about to be submitted; ``token`` is unique and lets the job be found again.

    ``after``: the ids of jobs that must have ended before this one begins, in whatever way.
    ``options``: those of the command that the script cannot hold.
    """

    script: str
    directory: str
    token: str
    after: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class Query(Protocol):
    """A query for the states of jobs; a scheduler has several, the cheapest first."""

    @property
    def provisional(self) -> bool:
        """Whether a later query must confirm what this one calls final."""
        ...

    @property
    def one_by_one(self) -> bool:
        """Whether it needs a command for each job, so that the job's own event log is read first."""
        ...

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield the commands that ask for all these jobs, as few as the scheduler allows."""
        ...

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return states by job id; jobs that the output does not name are left out.

        Where the id has been reused for another job, the state is ``UNKNOWN`` without a native word.
        Unreadable output gives an empty mapping: a state is never guessed.
        """
        ...


@runtime_checkable
class Scheduler(Protocol):
    """The interface of a batch system."""

    @property
    def name(self) -> str:
        """Its name in site files."""
        ...

    @property
    def is_batch_system(self) -> bool:
        """Whether jobs are queued by a batch system; else they are processes of this machine.

        Those need no account, walltime or defaults of the user's config, and a status query costs nothing.
        """
        ...

    @property
    def installation(self) -> Installation | None:
        """How to detect that it is installed on a machine; None where that is not possible.

        Where it is, and no site is named or recognised, the site file with the scheduler's name is used.
        """
        ...

    @property
    def names_gpus(self) -> bool:
        """Whether it sets the GPU variable of each job with GPUs, so that none uses another job's."""
        ...

    @property
    def gpu_hook(self) -> str:
        """Its component that sets it where a site has configured it, for messages; empty for none."""
        ...

    @property
    def sets_threads(self) -> bool:
        """Whether it sets OMP_NUM_THREADS to a number that is not that of a task."""
        ...

    @property
    def has_components(self) -> bool:
        """Whether nodes of different kinds are components of a heterogeneous job.

        Its first component alone is the job for a launcher that asks the batch system; empty lines of its
        script do not reach it (both tried on Slurm 22.05).
        """
        ...

    @property
    def has_arrays(self) -> bool:
        """Whether a job may be an array."""
        ...

    @property
    def rounds_cpus(self) -> bool:
        """Whether it requests CPUs in proportion to GPUs where a site has ``cpus_per_gpu``."""
        ...

    @property
    def requeues(self) -> bool:
        """Whether a script can put its own job into the queue again, by ``requeue_NAME`` of the runtime."""
        ...

    @property
    def open_mpi_support(self) -> str:
        """What an Open MPI must be built with to find the job's nodes; empty where every one finds them."""
        ...

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the site file that prevents memory requests, empty where jobs can make them."""
        ...

    def directives(self, job: PreparedJob, site: Site) -> tuple[Directive, ...]:
        """Return the lines for the scheduler.

        Raises:
            PlanError: when the plan holds something that this scheduler cannot express; it names the field.
        """
        ...

    def header(self, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
        """Yield each line at the head of the script with its origin, quoted as the scheduler reads it.

        The output goes to ``logs/`` in the run directory, else beside where the script is submitted.
        """
        ...

    def submit(self, submission: Submission) -> Command:
        """Return the command that submits the script with its token."""
        ...

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id.

        Raises:
            SchedulerError: when the job was certainly not made; the scheduler's words are in the message.
            SubmissionUnknown: when it may have been made.
        """
        ...

    def find(self) -> Iterator[Command]:
        """Yield the commands that list this user's jobs with their tokens."""
        ...

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        ...

    def queries(self) -> tuple[Query, ...]:
        """Return the queries for states, in the order in which to try them."""
        ...

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that ends these jobs."""
        ...


@runtime_checkable
class Waits(Protocol):
    """What a scheduler may have besides: a command of the batch system's own that waits for a job."""

    def wait(self, job: Job) -> Command:
        """Return the command that ends with exit code 0 when the job is over; it is stopped after a time.

        Any other exit code means that it cannot wait here, and it is not run again.
        """
        ...


@runtime_checkable
class KnowsNodes(Protocol):
    """What a scheduler may have besides: which nodes of a job that ended with a node are down."""

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return the command that shows the states of these nodes."""
        ...

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the nodes that are down or do not answer; none for unreadable output."""
        ...


@runtime_checkable
class NamesLostNodes(Protocol):
    """What a scheduler may have besides: the nodes that its reason for the end of a job names as lost."""

    def lost_nodes(self, status: Status) -> tuple[str, ...]:
        """Return these nodes; none for an end with another reason."""
        ...


@runtime_checkable
class ExcludesNodes(Protocol):
    """What a scheduler may have besides: its jobs can do without nodes that are named to it."""

    @property
    def node_flags(self) -> Sequence[str]:
        """The flags that name the nodes which a job must not get, or those that it must."""
        ...

    def cannot_exclude(self, site: Site) -> str:
        """Return why they cannot on this site; empty where they can."""
        ...


@runtime_checkable
class KnowsLeftovers(Protocol):
    """What a scheduler may have besides: whether a job that is over has left processes, for `cancel`."""

    def has_leftovers(self, status: Status) -> bool:
        """Return whether there are processes of the job with this status, though it is over."""
        ...


@runtime_checkable
class AdvisingScheduler(Protocol):
    """What a scheduler may have besides: warnings about a job."""

    def advice(self, job: PreparedJob, site: Site) -> Iterator[Problem]:
        """Yield what the user should know before submitting."""
        ...


@runtime_checkable
class ChecksDirectives(Protocol):
    """What a scheduler may have besides: a check of the directives in a site file."""

    def directive_problems(self, site: Site) -> Iterator[Problem]:
        """Yield the directives that no job can use, each with its path in the file."""
        ...


class LibraryStatus(NamedTuple):
    """A Python library beside a batch system's commands: what is known of it on this host, and what to do."""

    name: str
    detail: str
    hint: str = ""


@runtime_checkable
class HasLibrary(Protocol):
    """What a scheduler may have besides: a library that reads the batch system where commands are missing."""

    def library_status(self, runner: Runner) -> LibraryStatus:
        """Return whether the library works on this host; the runner runs the commands that show it."""
        ...


@runtime_checkable
class ListsPmiTypes(Protocol):
    """What a scheduler may have besides: the types of PMI of its launcher, one of which a site file names."""

    @property
    def pmi_launcher(self) -> str:
        """The launcher that provides them, by its option ``--mpi``."""
        ...

    def list_pmi_types(self) -> Command:
        """Return the command that lists the types."""
        ...

    def read_pmi_types(self, completed: Completed) -> tuple[str, ...]:
        """Return the types that it lists, the most common ones first; none for unreadable output."""
        ...


UNSUPPORTED: Final = {
    "torque": "Torque is not supported: of the PBS family only PBS Professional and OpenPBS (pbs) are",
}
"""Schedulers that hpcdist does not support, each with the reason."""

schedulers: Registry[Scheduler] = Registry(
    "scheduler",
    {
        "local": "hpcdist.schedulers.local:LOCAL",
        "slurm": "hpcdist.schedulers.slurm:SLURM",
        "pbs": "hpcdist.schedulers.pbs:PBS",
        "lsf": "hpcdist.schedulers.lsf:LSF",
        "flux": "hpcdist.schedulers.flux:FLUX",
        "sge": "hpcdist.schedulers.sge:SGE",
    },
)
