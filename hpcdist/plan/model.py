"""The plan: experiment + site + placement, everything decided, in pieces; each value has its origin."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args

from hpcdist.base.errors import Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import ArraySpec, Dependency, Mail, SignalSpec
from hpcdist.experiment.model import Tracking
from hpcdist.plan.placement import Placement
from hpcdist.plan.trials import Sweep
from hpcdist.plan.values import TASK_WRAPPER, Directive, Origin, Variable, Word
from hpcdist.site.fabric import JobFacts, Library
from hpcdist.site.model import RankVariables
from hpcdist.site.settings import Lsf, Sge

# --- A step of a job: what the script runs before, next to or after the program

Place = Literal["job", "node", "last_node", "own_node"]
"""Where a step runs: with the script, on each node of the tasks, on the last, or on one without tasks."""


class JobStep(Model, frozen=True, kw_only=True):
    """One command, when and where it runs."""

    time: Literal["before", "beside", "after"]
    on: Place
    command: str
    origin: Origin


# --- What a rehearsal of restarts does to its run

End = Literal["notice", "write", "node", "rank"]
ENDS: tuple[End, ...] = get_args(End)


class Rehearsal(Model, frozen=True, kw_only=True):
    """How a rehearsal ends the attempts of a run; ``hpcdist rehearse`` plans it, no key of a file does.

    ``ends``: what ends each attempt but the last: ``notice`` the signal before a time limit, ``write`` KILL
    to a rank of the first node while a checkpoint is written, ``node`` KILL to all ranks of a node, ``rank``
    KILL to a rank of another node. ``seed``: of their moments. ``nodes``: how many the real run has.
    ``node_mtbf_hours``: the mean time between failures of a node, where it is known.
    """

    ends: tuple[End, ...]
    seed: int
    nodes: int
    node_mtbf_hours: float | None = None

    @property
    def words(self) -> str:
        """The seed and the ends, as the script reads them."""
        return " ".join((str(self.seed), *self.ends))


# --- The plan


class Identity(Model, frozen=True, kw_only=True):
    """What the job is: its name, where it runs, what it runs.

    ``number``: which job of its run it is, from 1, if that has several.
    """

    name: str
    description: str | None = None
    tags: tuple[str, ...] = ()
    site: str
    scheduler: str
    framework: str | None = None
    command: str
    params: dict[str, Any] = {}
    tracking: Tracking = Tracking()
    number: int = 1


class SchedulerRequest(Model, frozen=True, kw_only=True):
    """The request to the scheduler besides nodes, and how it is written on its site.

    ``submit_environment``: whether the job inherits the variables of the shell that submits it.
    ``site_directives``: what the site requires of such a job; ``extra_directives``: the experiment's own.
    ``exclude_nodes``: the nodes that the job must not get.
    ``submit_options``: options of the submit command.
    ``output`` and ``error``: the job's own log files, with ``%j`` and the like. ``gpu_request`` and
    ``gpu_name``: how GPUs are requested on the site. ``lsf`` and ``sge`` are for those
    schedulers alone.
    """

    walltime: Walltime | None = None
    account: str | None = None
    qos: str | None = None
    exclusive: bool = False
    dependency: tuple[Dependency, ...] = ()
    array: ArraySpec | None = None
    signal: SignalSpec | None = None
    requeue: bool | None = None
    mail: Mail | None = None
    output: str | None = None
    error: str | None = None
    submit_environment: Literal["inherit", "clean"] = "inherit"
    site_directives: tuple[Word, ...] = ()
    extra_directives: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    submit_options: tuple[str, ...] = ()
    gpu_request: str = "gres"
    gpu_name: str = "gpu"
    lsf: Lsf = Lsf()
    sge: Sge = Sge()


class GpuVisibility(Model, frozen=True, kw_only=True):
    """Who chooses the GPUs that a task sees, and by which variable.

    ``library``: the communication library of the job's GPUs, None without GPUs. ``shared_nodes``: other jobs
    may have GPUs of the same nodes; ``named``: the batch system itself assigns each job its GPUs.
    ``reserved``: how many no other job can have while the job, or an element, runs: of whole nodes all.
    """

    visibility: Literal["task", "node", "launcher"] = "task"
    variable: str = "CUDA_VISIBLE_DEVICES"
    library: Library | None = None
    shared_nodes: bool = False
    named: bool = True
    reserved: int = 0


RemoteShell = Literal["ssh", "agent"]
"""By what a launcher reaches other nodes: by ssh alone, or by any program that is named to it, else ssh."""


class Launch(Model, frozen=True, kw_only=True):
    """How tasks are started.

    ``mode`` ``once``: one program on the head node starts everything, without each task's shell; its
    ``launcher`` is ``once`` where the user's own command is that program (``by_user``).
    ``starts_processes``: each task is a launch of the processes of its node (torchrun). ``connects_by_mpi``:
    the tasks find each other over MPI; ``mpi`` and ``needs_pmi``: by which PMI, and whether each checks
    that it is there. ``hostfile_line``: a printf format for a host and its number of tasks.
    ``label_in_task``: each task's shell marks lines with the rank; ``labelled``: whether anything does,
    None where that is not known. ``remote_shell``, ``orders_nodes``: the launcher's. ``components``: the
    groups of nodes are components of a heterogeneous job. ``arguments``: the words that the site and the
    experiment add to the launcher's own. ``role``: the only role whose tasks this launch starts.
    """

    launcher: str
    mode: Literal["tasks", "once"] = "tasks"
    starts_processes: bool = False
    connects_by_mpi: bool = False
    mpi: str | None = None
    needs_pmi: bool = False
    rank_variables: RankVariables | None = None
    hostfile_line: str = "%s slots=%s"
    label_in_task: bool = False
    labelled: bool | None = None
    remote_shell: RemoteShell | None = None
    orders_nodes: bool = False
    components: bool = False
    arguments: tuple[Word, ...] = ()
    role: str = ""

    @property
    def by_user(self) -> bool:
        """Whether the user's own command starts all tasks."""
        return self.launcher == "once"


class Restarts(Model, frozen=True, kw_only=True):
    """After which ends of the program another attempt follows.

    ``by``: how it gets nodes again; None where the batch system gives the job none. ``notice``: seconds
    before the time limit at which the program gets ``signal``.
    """

    by: Literal["requeue", "follow"] | None = None
    on: tuple[str, ...]
    max: int
    notice: int
    signal: str
    no_progress: int
    stop_on_exit: tuple[int, ...] = ()
    stop_file: str | None = None
    spare_nodes: int = 0
    exclude_bad_nodes: bool = True
    rehearsal: Rehearsal | None = None

    @property
    def is_followed(self) -> bool:
        """Whether its attempts are jobs that follow each other."""
        return self.by == "follow"

    @property
    def summary(self) -> str:
        """How many attempts there may be, and where: ``at most 4 attempts by requeue, 1 spare node``."""
        where = {"requeue": "by requeue", "follow": "in jobs that follow each other", None: "in this job"}
        can_follow = self.max and (self.on if self.by else "failure" in self.on)
        text = f"at most {self.max + 1} attempts {where[self.by]}" if can_follow else "1 attempt"
        spare = f", {self.spare_nodes} spare node{'s' * (self.spare_nodes != 1)}" if self.spare_nodes else ""
        return f"{text}{spare}"


class Completion(Model, frozen=True, kw_only=True):
    """When the job is over.

    ``required_roles``: roles that must finish for the job to finish; empty for all. ``elastic``: the job
    continues when it loses a node. ``kill_on_failure``: the launcher ends all other tasks when one fails.
    ``max_restarts``: how often the program runs again in the same allocation, where ``restarts`` do not say.
    """

    required_roles: tuple[str, ...] = ()
    elastic: bool = False
    kill_on_failure: bool = True
    max_restarts: int = 0
    restarts: Restarts | None = None


class Rendezvous(Model, frozen=True, kw_only=True):
    """How tasks reach the first node: its name with this suffix, or its address; ``ports`` are the job's."""

    suffix: str = ""
    by_address: bool = False
    ports: int = 16


class Container(Model, frozen=True, kw_only=True):
    """The runtime in which tasks find the image, named as the runtime wants it.

    ``binds``: each ``SRC:DST`` as it stands between double quotes. ``entrypoint``: the program is the image's
    own, which starts in ``workdir`` if there is one. ``fetch``: the suffix of the file that the job makes of
    the image, and the words that make it, with the image behind the file's name; empty for none. ``key``:
    the runtime's section in the site file.
    """

    runtime: str
    image: str
    binds: tuple[Word, ...] = ()
    entrypoint: bool = False
    workdir: str | None = None
    fetch: tuple[str, ...] = ()
    key: str = "container"


class JobEnvironment(Model, frozen=True, kw_only=True):
    """The setup of the job, and the variables of all tasks and of each task.

    ``modules`` and ``spack_env``: what ``setup`` loads and activates. ``framework_variables``: the names of
    the variables that the framework gives. Each name is once in ``variables``, as it was set last.
    """

    modules: tuple[str, ...] = ()
    spack_env: str | None = None
    setup: tuple[Word, ...] = ()
    task_setup: tuple[Word, ...] = ()
    variables: tuple[Variable, ...] = ()
    task_variables: tuple[Variable, ...] = ()
    framework_variables: tuple[str, ...] = ()


class JobSpec(Model, frozen=True, kw_only=True):
    """What is decided before the job's command words and variables: the input of layers.

    ``facts``: what the conditions of the site's fabric settings check. ``own_nodes``: the number of nodes
    without tasks. ``origins``: where each value of these pieces was decided, by the name of its field.
    """

    identity: Identity
    placement: Placement
    facts: JobFacts
    request: SchedulerRequest = SchedulerRequest()
    gpus: GpuVisibility = GpuVisibility()
    launch: Launch
    completion: Completion = Completion()
    rendezvous: Rendezvous = Rendezvous()
    container: Container | None = None
    steps: tuple[JobStep, ...] = ()
    own_nodes: int = 0
    sweep: Sweep | None = None
    origins: dict[str, Origin] = {}

    @property
    def required_tasks(self) -> int:
        """The number of tasks that must finish for the job to finish."""
        return sum(row.tasks for row in self.placement.rows if row.role in self.completion.required_roles)

    @property
    def has_servers(self) -> bool:
        """Whether some role never ends by itself: the job is over when the others have ended."""
        required = self.completion.required_roles
        return bool(required) and any(row.role not in required for row in self.placement.rows)

    @property
    def labels_output(self) -> bool:
        """Whether lines of output get their rank; workers of packed trials print no such lines."""
        return self.placement.size > 1 and not (self.sweep and self.sweep.pack)

    @property
    def summary(self) -> str:
        """A short summary: ``8 tasks by srun, 2 nodes, 8 GPUs``."""
        tasks, nodes = self.placement.size, self.placement.nodes
        gpus = sum(shape.nodes * shape.gpus for shape in self.placement.shapes())
        launcher = "the command" if self.launch.by_user else self.launch.launcher
        text = f"{tasks} task{'s' * (tasks != 1)} by {launcher}"
        if self.sweep and (pack := self.sweep.pack):
            text, gpus = f"{pack.workers} at once by {launcher}", gpus * pack.nodes // nodes
            nodes = pack.nodes
        text = f"{text}, {nodes} node{'s' * (nodes != 1)}"
        text = f"{text}, {gpus} GPU{'s' * (gpus != 1)}" if gpus else text
        text = f"{text}, {self.completion.restarts.summary}" if self.completion.restarts else text
        return f"{self.sweep.number}, {'each of ' * (not self.sweep.pack)}{text}" if self.sweep else text


class PreparedJob(JobSpec, frozen=True, kw_only=True):
    """The job with its variables: the input of launchers and schedulers.

    ``arguments``: the launch's, and the launcher options that the container needs.
    """

    environment: JobEnvironment = JobEnvironment()
    arguments: tuple[Word, ...] = ()


class RoleLaunch(Model, frozen=True, kw_only=True):
    """The words that start the tasks of one role, up to each task's shell."""

    role: str
    words: tuple[Word, ...]


class Plan(PreparedJob, frozen=True, kw_only=True):
    """The whole plan; templates only write it down.

    ``words``: the launch line. ``shell``: what runs in its place, on the first node and in the foreground.
    ``role_launches``: where servers never end by themselves, a launch for each role.
    ``directives``: what the scheduler made of the request. ``notes``: warnings about what is unusual, and
    notes on what is right and yet rare.
    """

    words: tuple[Word, ...] = ()
    shell: tuple[Word, ...] = ()
    role_launches: tuple[RoleLaunch, ...] = ()
    directives: tuple[Directive, ...] = ()
    notes: tuple[Problem, ...] = ()

    @property
    def launcher_words(self) -> tuple[Word, ...]:
        """The words in front of those by which each task starts."""
        return self.words[: self.words.index(TASK_WRAPPER)] if TASK_WRAPPER in self.words else self.words[:-1]

    @property
    def task_words(self) -> tuple[Word, ...]:
        """The words by which each task starts the user's program, such as torchrun's; empty without any."""
        place = self.words.index(TASK_WRAPPER) + 1 if TASK_WRAPPER in self.words else len(self.words)
        return self.words[place:-1]


P = TypeVar("P", bound=JobSpec)


def extended(to: type[P], job: JobSpec, **pieces: Any) -> P:
    """Return the job with further pieces."""
    return to(**{name: getattr(job, name) for name in job.__struct_fields__}, **pieces)
