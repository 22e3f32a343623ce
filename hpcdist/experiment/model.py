"""The experiment: an experiment file as one frozen value.

``Experiment`` is the native form (Polyaxon 0.5 to 0.6 plus ``batch``); ``hpcdist.importers.polyaxon``
converts older generations. Every key of Polyaxon is a field here, so that nothing a user wrote is lost:
``remarks`` warns about keys without effect on a batch machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from hpcdist.documents.fields import Builder, Model, builder
from hpcdist.experiment.amounts import Resources
from hpcdist.experiment.batch import OF_BATCH, Batch
from hpcdist.experiment.program import Run
from hpcdist.experiment.restart import Restart
from hpcdist.experiment.search.model import Search
from hpcdist.experiment.search.trials import Trial, trials
from hpcdist.experiment.steps import Stage
from hpcdist.experiment.tracking import Tracking

Scalar = str | int | float | bool


class ReplicaEntry(Model, frozen=True):
    """The section of one worker or parameter server, or the default of all others.

    ``index``: the index of the replica, from 0; only in ``worker`` and ``ps``, and required there.
    ``resources``: its resources. ``cmd``: its command, instead of that of ``run``. ``node_selector``: as in
    ``environment``.
    """

    index: int | None = None
    resources: Resources | None = None
    cmd: str | tuple[str, ...] | None = None
    node_selector: dict[str, Scalar] = {}
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}


class Replicas(Model, frozen=True):
    """The replicas other than the master.

    ``n_workers``: the number of workers. ``n_ps``: the number of parameter servers. ``default_worker``: the
    entry of all workers without an own entry; they inherit nothing from the master. ``default_ps``: the same
    for parameter servers. ``worker``: entries of single workers, whose keys replace those of the default
    entry. ``ps``: the same for parameter servers. ``evaluator``: a replica that evaluates during the
    training. ``ps_on``: the nodes of parameter servers; by default nodes without GPUs, if the site has some.
    ``per_node``: how many of all replicas each node has, the master among them; by default as many as fit.
    """

    main = "n_workers"
    elsewhere: ClassVar[Mapping[str, str]] = {"workers": "write `n_workers`", "nodes": OF_BATCH}

    n_workers: int = 0
    n_ps: int = 0
    default_worker: ReplicaEntry | None = None
    default_ps: ReplicaEntry | None = None
    worker: tuple[ReplicaEntry, ...] = ()
    ps: tuple[ReplicaEntry, ...] = ()
    evaluator: ReplicaEntry | None = None
    ps_on: Literal["cpu_nodes", "worker_nodes"] | None = None
    per_node: int | None = None


class Persistence(Model, frozen=True):
    """Named volumes; on a batch machine, paths from the site file.

    ``data``: names from the site's ``volumes``, passed to the program in ``POLYAXON_RUN_DATA_PATHS``.
    ``outputs``: not used; outputs are in the run directory.
    """

    data: tuple[str, ...] = ()
    outputs: str | None = None


class References(Model, frozen=True):
    """Other runs whose outputs this one reads.

    ``jobs`` and ``experiments``: not used; they refer to runs of another system.
    """

    jobs: tuple[Scalar, ...] = ()
    experiments: tuple[Scalar, ...] = ()


class Environment(Model, frozen=True):
    """Resources, replicas and variables.

    ``resources``: the resources of the master. ``replicas``: all other replicas. ``processes_per_replica``:
    the number of tasks of each replica, instead of the framework's default. ``env_vars``: variables of the
    program; they override those of the site and of the framework. ``node_selector``: for the master:
    ``partition`` or ``constraint``, instead of those of ``batch``, the ``gpu_type`` that it prefers, or a
    label of the site's ``node_selectors``. ``max_restarts``: how often a failed launch is repeated in the
    same allocation. ``restart``: after which ends the program is started again. ``persistence``,
    ``data_refs``: volumes.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "env": "write `env_vars`",
        "image": "write it in `build`",
        **dict.fromkeys(("cpu", "memory", "gpu", "gpus"), "write it in `resources`"),
        **dict.fromkeys(("n_workers", "n_ps", "per_node"), "write it in `replicas`"),
        **dict.fromkeys(
            ("nodes", "modules", "spack_env", "partition", "walltime", "account", "site"), OF_BATCH
        ),
    }

    resources: Resources | None = None
    replicas: Replicas | None = None
    processes_per_replica: int | None = None
    env_vars: dict[str, Scalar] = {}
    node_selector: dict[str, Scalar] = {}
    max_restarts: int | None = None
    restart: Restart | None = None
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
    """The container image.

    ``image``: a name (``nvcr.io/nvidia/pytorch:24.08-py3``) or a path (``./torch.sif``), run by the site's
    container runtime. ``binds``: further folders and files that tasks see in it: ``SRC``, ``SRC:DST`` or
    ``SRC:DST:ro``, where ``$NAME`` is a variable of the job. ``fetch_once``: an image of a registry is made a
    file before the tasks start (by default as the site has it). ``env_vars``: pairs of name and value, set
    like those of ``environment``.
    """

    main = "image"

    image: str | None = None
    binds: tuple[str, ...] = ()
    fetch_once: bool | None = None
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


class Logging(Model, frozen=True):
    """The log level of the program.

    ``level``: such as ``INFO``, passed to the program in ``POLYAXON_LOG_LEVEL``.
    """

    main = "level"

    level: str | None = None
    formatter: str | None = None


class Experiment(Model, frozen=True, kw_only=True, dict=True):
    """One experiment file; ``sections``: all further top-level keys, the sections of frameworks by name.

    ``version``: the version of the form, for Polyaxon. ``kind``: its kind in ``POLYAXON_*_INFO``. ``name``:
    the name of the job and of its runs; by default the name of the file, or this one for standard input.
    ``description`` and ``tags`` are kept with the run. ``framework``: how the replicas work together; without
    one there is only the master. ``backend``: as in Polyaxon; with ``mpi`` the workers are all replicas, and
    the command starts them itself. ``logging``: the log level of the program. ``params``: names with values,
    for ``{{ name }}`` in other sections and for ``-p name=value``; Polyaxon's ``declarations``. ``inputs``:
    declared params, each with its type and default. ``environment``: resources, replicas and variables.
    ``build``: the container image. ``run``: the command. ``stage``: data that is copied to each node before.
    ``tracking``: metrics that are found in the output.
    ``hptuning``: a search over params, each of whose trials is a job of its own. ``batch``: settings of the
    batch job.
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
    stage: tuple[Stage, ...] = ()
    tracking: Tracking = Tracking()
    hptuning: Search | None = None
    sections: dict[str, Any] = {}
    batch: Batch = Batch()

    @cached_property
    def trials(self) -> Sequence[Trial]:
        """The trials of the search, of one that is adaptive the first ones; empty without a search."""
        search = self.hptuning
        return trials(search) if search else ()

    @cached_property
    def section(self) -> Builder:
        """The function that returns a framework's section as a model, and its problems."""
        return builder(self.sections)
