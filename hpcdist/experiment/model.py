"""The experiment: what the user asks for, as one frozen value.

``Experiment`` is the native form (Polyaxon 0.5 to 0.6 plus ``batch``); older generations are brought to it
by ``hpcdist.importers.polyaxon``. Every key that Polyaxon knows is a field here, so that nothing a user
wrote is lost: ``remarks`` tells which of them mean nothing on a batch machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.experiment.amounts import Resources
from hpcdist.units import Walltime
from hpcdist.words import join_commands

Scalar = str | int | float | bool


MOST: Final = 1_000_000
"""More replicas, processes or restarts than this are a slip of the finger."""


_NODES: Final = "nodes follow from `environment.replicas` and the `resources` of each replica"
_RESOURCES: Final = "write `environment.resources`, which are those of one replica"
_OF_REPLICAS: Final = "write it in `environment.replicas`"
_OF_BATCH: Final = "write it in `batch`"


class ReplicaEntry(Model, frozen=True):
    """The section of one worker or parameter server, or of all that have none of their own.

    ``index``: the one that it is for, from 0; only in ``worker`` and ``ps``, and needed there. ``resources``:
    what it needs. ``node_selector``: as that of ``environment``.
    """

    index: int | None = None
    resources: Resources | None = None
    node_selector: dict[str, Scalar] = {}
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}


class Replicas(Model, frozen=True):
    """The replicas beside the master.

    ``n_workers``: how many workers. ``n_ps``: how many parameter servers. ``default_worker``: what workers
    without an entry of their own need; they inherit nothing from the master. ``default_ps``: the same of
    parameter servers. ``worker``: entries of single workers, whose keys are in place of the default
    entry's. ``ps``: the same of parameter servers. ``evaluator``: one that evaluates beside the training.
    ``ps_on``: where parameter servers go; unsaid, to nodes without GPUs where the site has such.
    """

    main = "n_workers"
    elsewhere: ClassVar[Mapping[str, str]] = {"workers": "write `n_workers`", "nodes": _NODES}

    n_workers: int = 0
    n_ps: int = 0
    default_worker: ReplicaEntry | None = None
    default_ps: ReplicaEntry | None = None
    worker: tuple[ReplicaEntry, ...] = ()
    ps: tuple[ReplicaEntry, ...] = ()
    evaluator: ReplicaEntry | None = None
    ps_on: Literal["cpu_nodes", "worker_nodes"] | None = None


class Persistence(Model, frozen=True):
    """Named volumes; on a batch machine, paths that the site file gives.

    ``data``: names from the site's ``volumes``, told to the program as ``POLYAXON_RUN_DATA_PATHS``.
    ``outputs``: not used; outputs lie in the run's directory.
    """

    data: tuple[str, ...] = ()
    outputs: str | None = None


class References(Model, frozen=True):
    """Other runs whose outputs this one reads.

    ``jobs`` and ``experiments``: not used; they name runs of another system.
    """

    jobs: tuple[Scalar, ...] = ()
    experiments: tuple[Scalar, ...] = ()


class Environment(Model, frozen=True):
    """Resources, replicas and variables.

    ``resources``: those of the master. ``replicas``: all others. ``processes_per_replica``: how many tasks a
    replica is, where the framework's own number is not meant. ``env_vars``: variables of the program; they
    win over those of the site and of the framework. ``node_selector``: the master's: ``partition`` or
    ``constraint``, in place of ``batch``'s, or a label of the site's ``node_selectors``. ``max_restarts``:
    how often a failed launch is tried again in the same allocation. ``persistence``, ``data_refs``: volumes.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "env": "write `env_vars`",
        "nodes": _NODES,
        "image": "write it in `build`",
        **dict.fromkeys(("cpu", "memory", "gpu", "gpus"), "write it in `resources`"),
        **dict.fromkeys(("n_workers", "n_ps"), "write it in `replicas`"),
        **dict.fromkeys(("modules", "spack_env", "partition", "walltime", "account", "site"), _OF_BATCH),
    }

    resources: Resources | None = None
    replicas: Replicas | None = None
    processes_per_replica: int | None = None
    env_vars: dict[str, Scalar] = {}
    node_selector: dict[str, Scalar] = {}
    max_restarts: int | None = None
    persistence: Persistence | None = None
    outputs: References | None = None
    data_refs: tuple[str, ...] = ()
    artifact_refs: tuple[str, ...] = ()
    secret_refs: tuple[str, ...] = ()
    config_map_refs: tuple[str, ...] = ()
    configmap_refs: tuple[str, ...] = ()
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}
    service_account: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    cluster_uuid: str | None = None


class Build(Model, frozen=True):
    """The container image and how it is made.

    ``image``: a name (``nvcr.io/nvidia/pytorch:24.08-py3``) or a path (``./torch.sif``), run by the site's
    container runtime. ``env_vars``: pairs of name and value, which are set like those of ``environment``.
    """

    main = "image"

    image: str | None = None
    dockerfile: str | None = None
    ref: Scalar | None = None
    backend: str | None = None
    context: str | None = None
    build_steps: tuple[str, ...] = ()
    lang_env: str | None = None
    env_vars: tuple[tuple[Scalar, ...], ...] = ()
    commit: str | None = None
    branch: str | None = None
    git: str | None = None
    nocache: bool = False


class Run(Model, frozen=True):
    """The command: one text, or several joined by ``&&``.

    ``cmd``: what bash runs in each task, with ``{{ param }}`` filled in; an own ``mpirun``, ``srun`` or
    ``horovodrun`` line runs once, on the first node.
    """

    main = "cmd"

    cmd: str | tuple[str, ...]

    @property
    def command(self) -> str:
        """The text that bash runs, byte for byte as it was written."""
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


class Logging(Model, frozen=True):
    """How much the program should log.

    ``level``: such as ``INFO``, told to the program as ``POLYAXON_LOG_LEVEL``.
    """

    main = "level"

    level: str | None = None
    formatter: str | None = None


class Mail(Model, frozen=True):
    """Whom the scheduler writes to, and when.

    ``user``: an address, or the name of a user of the machine (sbatch(1), ``--mail-user``). ``events``: when:
    ``begin``, ``end``, ``fail``, ``requeue``, ``all`` and others of Slurm.
    """

    user: str
    events: tuple[str, ...] = ("end", "fail")


class LauncherChoice(Model, frozen=True):
    """A launcher other than the site's, or words for it that nobody foresaw.

    ``name``: the launcher, the site's if it is not said. ``args``: words that it is given beside hpcdist's
    own.
    """

    name: str | None = None
    args: tuple[str, ...] = ()


class Batch(Model, frozen=True):
    """Everything that only a batch system needs; what is absent comes from the site.

    ``site``: the machine. ``account``: who pays. ``partition``: the partition or queue. ``qos``: the quality
    of service. ``walltime``: how long the job may run. ``constraint``: what its nodes must have, in the words
    of the scheduler. ``exclusive``: no other job on its nodes. ``launcher``: what starts the tasks: a name,
    or keys. ``dependency``: what it waits for: an id, ``afterok:ID:ID``, ``singleton`` and others. ``array``:
    its elements: ``0-15``, ``0-15:4``, ``1,3,5``, with ``%4`` for so many at once. ``signal``: what the
    program gets before the end, and how many seconds before: ``USR1@120``. ``requeue``: the job may be run
    again after a fault of a node. ``mail``: an address or the name of a user, or keys. ``directives``: lines
    for the scheduler that nobody foresaw, in its own words. ``gpu_visibility``: whether a task sees its own
    GPUs or all of the job's on its node; unsaid, what programs of the framework expect. ``container``: where
    it is false, the image of ``build`` is not used (``--no-container``). ``modules``: those that the job
    loads, in order, after the site's own. ``spack_env``: the Spack environment that it activates after those:
    a name, or the path of its folder, which begins with ``/`` or ``.``.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "queue": "write `partition`",
        "project": "write `account`",
        **dict.fromkeys(("time", "time_limit", "timeout"), "write `walltime`"),
        "reservation": "write it in `directives`, in the scheduler's own words",
        "nodes": _NODES,
        **dict.fromkeys(("tasks", "ntasks", "n_workers"), _OF_REPLICAS),
        **dict.fromkeys(("cpu", "cpus", "memory", "mem", "gpu", "gpus"), _RESOURCES),
        **dict.fromkeys(("env", "env_vars"), "write `environment.env_vars`"),
        "image": "write it in `build`",
        **dict.fromkeys(("name", "job_name"), "write `name` at the top of the file"),
    }

    site: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    walltime: Walltime | None = None
    constraint: str | None = None
    exclusive: bool | None = None
    launcher: LauncherChoice | str | None = None
    dependency: str | tuple[str, ...] = ()
    array: str | int | None = None
    signal: str | None = None
    requeue: bool | None = None
    mail: str | Mail | None = None
    directives: tuple[str, ...] = ()
    gpu_visibility: Literal["task", "node"] | None = None
    container: bool | None = None
    modules: tuple[str, ...] = ()
    spack_env: str | None = None

    @property
    def launcher_name(self) -> str | None:
        """The launcher that is asked for, if one is."""
        return self.launcher.name if isinstance(self.launcher, LauncherChoice) else self.launcher

    @property
    def launcher_args(self) -> tuple[str, ...]:
        """The words that the launcher is given beside hpcdist's own."""
        return self.launcher.args if isinstance(self.launcher, LauncherChoice) else ()


class Experiment(Model, frozen=True, kw_only=True):
    """One experiment file; ``sections`` are all further top-level keys: those of frameworks, by name.

    ``version``: that of the form, for Polyaxon's sake. ``kind``: what ``POLYAXON_*_INFO`` calls it. ``name``:
    the name of the job and of its runs; unsaid, that of the file, or the default where it has none (stdin).
    ``description`` and ``tags`` are kept with the run. ``framework``: what the replicas are to each other;
    without one there is only the master. ``backend``: Polyaxon's; under ``mpi`` the workers are all replicas,
    and the command starts them itself. ``logging``: how much the program should log. ``params``: names with
    values, for ``{{ name }}`` anywhere below and for ``-p name=value``; Polyaxon's ``declarations``.
    ``inputs``: declared params, each with its type and default. ``environment``: resources, replicas and
    variables. ``build``: the container image. ``run``: the command. ``batch``: what only a batch system
    needs.
    """

    rest = "sections"
    may_be_empty = frozenset({"description"})

    version: int = 1
    kind: Literal["experiment", "job"] = "experiment"
    name: str = "experiment"
    description: str | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None
    framework: str | None = None
    backend: str | None = None
    logging: Logging = Logging()
    params: dict[str, Any] = {}
    inputs: tuple[dict[str, Any], ...] = ()
    outputs: tuple[dict[str, Any], ...] = ()
    environment: Environment = Environment()
    build: Build | None = None
    run: Run
    sections: dict[str, Any] = {}
    batch: Batch = Batch()
