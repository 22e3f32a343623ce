"""The section ``batch``: settings of the batch job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.units import Memory, Walltime

OF_BATCH: Final = "write it in `batch`"
_RESOURCES: Final = "write `environment.resources`, the resources of one replica"
_DIRECTIVES: Final = "write it in `directives`, in the scheduler's syntax"
_OF_REPLICAS: Final = "write it in `environment.replicas`"


class Mail(Model, frozen=True):
    """Mail from the scheduler.

    ``user``: an address, or the name of a user of the machine (sbatch(1), ``--mail-user``). ``events``:
    ``begin``, ``end``, ``fail``, ``requeue``, ``all`` and others of Slurm.
    """

    user: str
    events: tuple[str, ...] = ("end", "fail")


class LauncherChoice(Model, frozen=True):
    """The launcher, and further arguments for it.

    ``name``: the launcher, by default the site's. ``args``: further arguments, after those of hpcdist.
    """

    name: str | None = None
    args: tuple[str, ...] = ()


class Batch(Model, frozen=True):
    """Settings of the batch job; keys that are absent come from the site.

    ``site``: the machine. ``account``: the account that is charged. ``partition``: the partition or queue.
    ``qos``: the quality of service. ``walltime``: the time limit of the job. ``constraint``: the constraint
    on its nodes, in the scheduler's syntax. ``nodes``: the number of its nodes, over which its replicas are
    distributed evenly; by default the fewest that hold them. ``exclusive``: no other job on its
    nodes, and in Slurm all their memory where replicas set none.
    ``launcher``: the program that starts the tasks: a name, or keys. ``dependency``: the jobs that it waits
    for: an id or a run, ``afterok:ID:RUN/3``, ``singleton`` and others. ``array``: the indices of a job
    array: ``0-15``, ``0-15:4``, ``1,3,5``, with ``%4`` to run at most 4 at once. ``signal``: the signal that
    the program gets before the time limit, and how many seconds before: ``USR1@120``. ``requeue``: the job
    may be requeued after a node failure. ``kill_on_failure``: if false, the other tasks go on when one fails,
    and the job fails at its end. ``output``: the file of its output, instead of one in its run
    (``logs/%x-%j.out``; ``%j`` is the job's id, ``%A`` its array's, ``%a`` its element, ``%x`` its name,
    ``%u`` the user), whose folder is made. ``error``: the same for standard error, which then is apart.
    ``mail``: an address or the name of a user, or keys. ``directives``: further directives, in the
    scheduler's syntax. ``exclude_nodes``: names of nodes that the job must not get (not PBS).
    ``exclude_bad_nodes``: nor suspect ones (`doctor --nodes`); by default as in ``environment.restart``, and
    without that false. ``gpu_visibility``: whether a task sees its own GPUs or all GPUs of the job on its
    node; the default depends on the framework. ``container``: if false, the image of ``build`` is not used
    (``--no-container``). ``modules``: the modules that the job loads, in order, after those of the site;
    ``-NAME`` unloads one, ``purge`` all, the site's among them, and ``reset`` all but the machine's default
    ones. ``spack_env``: the Spack environment that it activates after the modules: a name, or the path of its
    folder, beginning with ``/`` or ``.``. ``code``: what the job runs: ``here``, the submit directory as
    it is when the job starts; ``snapshot``, a copy made by `submit`; ``git``, a commit: of ``build.git``
    with ``build.commit`` or ``build.branch``, else the last one of the submit directory.
    ``max_code_size``: the largest snapshot, by default
    ``100Mi``. ``pack``: the trials of a search share nodes, each on its own part of one, and the next begins
    where one ends; by default where jobs get whole nodes and several trials fit on one, and where the batch
    system has no arrays. ``budget``: the GPU-hours that it may take; no trial of a search starts that might
    exceed them, and any other job is refused whose cost may. ``max_gpu_hours``: the most GPU-hours that the
    job may take if all its elements, trials and attempts run to their time limit; one that may take more is
    refused.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "queue": "write `partition`",
        "project": "write `account`",
        **dict.fromkeys(("time", "time_limit", "timeout"), "write `walltime`"),
        **dict.fromkeys(("reservation", "filesystems", "alloc_flags"), _DIRECTIVES),
        **dict.fromkeys(("tasks", "ntasks", "n_workers", "per_node"), _OF_REPLICAS),
        **dict.fromkeys(("tasks_per_node", "ntasks_per_node"), "write `environment.replicas.per_node`"),
        **dict.fromkeys(("cpu", "cpus", "memory", "mem", "gpu", "gpus"), _RESOURCES),
        **dict.fromkeys(("env", "env_vars"), "write `environment.env_vars`"),
        "image": "write it in `build`",
        **dict.fromkeys(("log", "log_file", "stdout"), "write `output`"),
        "stderr": "write `error`",
        **dict.fromkeys(("name", "job_name"), "write `name` at the top of the file"),
    }

    site: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    walltime: Walltime | None = None
    constraint: str | None = None
    nodes: int | None = None
    exclusive: bool | None = None
    launcher: LauncherChoice | str | None = None
    dependency: str | tuple[str, ...] = ()
    array: str | int | None = None
    signal: str | None = None
    requeue: bool | None = None
    kill_on_failure: bool | None = None
    output: str | None = None
    error: str | None = None
    mail: str | Mail | None = None
    directives: tuple[str, ...] = ()
    exclude_nodes: tuple[str, ...] = ()
    exclude_bad_nodes: bool | None = None
    gpu_visibility: Literal["task", "node"] | None = None
    container: bool | None = None
    modules: tuple[str, ...] = ()
    spack_env: str | None = None
    code: Literal["here", "snapshot", "git"] | None = None
    max_code_size: Memory | None = None
    pack: bool | None = None
    budget: float | None = None
    max_gpu_hours: float | None = None

    @property
    def launcher_name(self) -> str | None:
        """The launcher that is set, if one is."""
        return self.launcher.name if isinstance(self.launcher, LauncherChoice) else self.launcher

    @property
    def launcher_args(self) -> tuple[str, ...]:
        """Further arguments of the launcher, after those of hpcdist."""
        return self.launcher.args if isinstance(self.launcher, LauncherChoice) else ()
