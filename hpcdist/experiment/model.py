"""The experiment: an experiment file as one frozen value.

``Experiment`` is the native form (Polyaxon 0.5 to 0.6 plus ``batch``); ``hpcdist.importers.polyaxon``
converts older generations. Every key of Polyaxon is a field here, so that nothing a user wrote is lost:
``remarks`` warns about keys without effect on a batch machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from hpcdist.base.fields import Builder, Model, builder
from hpcdist.base.units import Memory
from hpcdist.experiment.batch import OF_BATCH, Batch
from hpcdist.experiment.program import Restart, Run, Stage
from hpcdist.experiment.search import Search
from hpcdist.experiment.trials import Trial, trials

# --- Resources of one replica


class Amount(Model, frozen=True):
    """An amount of CPUs or GPUs; the limit is used, else the request."""

    main = "requests"

    requests: float | None = None
    """How much a replica needs."""
    limits: float | None = None
    """The same, as Kubernetes's limit; it wins over the request."""

    @property
    def value(self) -> float | None:
        """The amount that is requested from the batch system."""
        return self.limits if self.limits is not None else self.requests


class GpuAmount(Amount, frozen=True):
    """An amount of GPUs; the limit is used, else the request.

    ``requests``: how many a replica needs. ``limits``: the same, as Kubernetes's limit; it wins over the
    request.
    """

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("type", "model", "gpu_type"), "write `environment: {node_selector: {gpu_type: TYPE}}`"
    )

    trials_per_gpu: int | None = None
    """How many trials of a packed search share each GPU."""


class MemoryAmount(Model, frozen=True):
    """An amount of memory; the limit is used, else the request."""

    main = "requests"

    requests: Memory | Literal["all"] | None = None
    """How much a replica needs; ``all`` for all memory of its nodes (sbatch's ``--mem=0``); the
    replicas there each get their share."""
    limits: Memory | Literal["all"] | None = None
    """The same, as Kubernetes's limit; it wins over the request."""

    @property
    def value(self) -> Memory | Literal["all"] | None:
        """The amount that is requested from the batch system."""
        return self.limits if self.limits is not None else self.requests


class Resources(Model, frozen=True):
    """The resources of one replica."""

    cpu: Amount = Amount()
    """Its CPUs; fractions are rounded up."""
    memory: MemoryAmount = MemoryAmount()
    """The memory of the whole replica."""
    gpu: GpuAmount = GpuAmount()
    """Its GPUs, a whole number."""
    tpu: Amount = Amount()
    """Refused, because no supported machine has TPUs."""


# --- What is recorded in addition to what the program records


class Tracking(Model, frozen=True):
    """What is recorded in addition to what the program records."""

    metrics: dict[str, str] = {}
    """Metrics in the lines of the output, for each a regular expression of Python with one group, the number,
    such as ``loss[ =]([-+0-9.eE]+)``."""
    step: str | None = None
    r"""One whose group is the step, such as ``epoch (\d+)``, which holds for its line and those after it."""
    gpu_usage: bool | int = True
    """Whether the use of the GPUs and CPUs is sampled on each node, or the seconds between two samples, 30 by
    default."""

    @property
    def gpu_usage_seconds(self) -> int | None:
        """The seconds between two samples; None if nothing is sampled."""
        return _SECONDS if self.gpu_usage is True else self.gpu_usage or None


_SECONDS: Final = 30


# --- The sections of the file

Scalar = str | int | float | bool


class ReplicaEntry(Model, frozen=True):
    """The section of one worker or parameter server, or the default of all others."""

    index: int | None = None
    """The index of the replica, from 0; only in ``worker`` and ``ps``, and required there."""
    resources: Resources | None = None
    """Its resources."""
    cmd: str | tuple[str, ...] | None = None
    """Its command, instead of ``run``."""
    node_selector: dict[str, Scalar] = {}
    """As in ``environment``."""
    # No effect on a batch machine, and kept so that nothing is lost: `remarks.UNUSED`.
    affinity: dict[str, Any] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    labels: dict[str, Scalar] = {}
    annotations: dict[str, Scalar] = {}


class Replicas(Model, frozen=True):
    """The replicas other than the master."""

    main = "n_workers"
    elsewhere: ClassVar[Mapping[str, str]] = {"workers": "write `n_workers`", "nodes": OF_BATCH}

    n_workers: int = 0
    """The number of workers."""
    n_ps: int = 0
    """The number of parameter servers."""
    default_worker: ReplicaEntry | None = None
    """The entry of all workers without an own entry; they inherit nothing from the master."""
    default_ps: ReplicaEntry | None = None
    """The same for parameter servers."""
    worker: tuple[ReplicaEntry, ...] = ()
    """Entries of single workers; their keys replace the keys of the default entry."""
    ps: tuple[ReplicaEntry, ...] = ()
    """The same for parameter servers."""
    evaluator: ReplicaEntry | None = None
    """A replica that evaluates during the training."""
    ps_on: Literal["cpu_nodes", "worker_nodes"] | None = None
    """The nodes of parameter servers; by default nodes without GPUs, if the site has some."""
    per_node: int | None = None
    """How many of all replicas each node has, the master among them; by default as many as fit."""


class Persistence(Model, frozen=True):
    """Named volumes; on a batch machine, paths from the site file."""

    data: tuple[str, ...] = ()
    """Names from the site's ``volumes``, passed to the program in ``POLYAXON_RUN_DATA_PATHS``."""
    outputs: str | None = None
    """Not used; outputs are in the run directory."""


class References(Model, frozen=True):
    """Other runs whose outputs this one reads."""

    jobs: tuple[Scalar, ...] = ()
    """Not used: they are runs of another system."""
    experiments: tuple[Scalar, ...] = ()
    """Not used: they are runs of another system."""


class Environment(Model, frozen=True):
    """Resources, replicas and variables."""

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
    """The resources of the master."""
    replicas: Replicas | None = None
    """All other replicas."""
    processes_per_replica: int | None = None
    """The number of tasks of each replica, instead of the framework's default."""
    env_vars: dict[str, Scalar] = {}
    """Variables of the program; they override variables of the site and of the framework."""
    node_selector: dict[str, Scalar] = {}
    """For the master: ``partition`` or ``constraint``, instead of ``batch``, the ``gpu_type`` that
    it prefers, or a label of the site's ``node_selectors``."""
    max_restarts: int | None = None
    """How often a failed launch is repeated in the same allocation."""
    restart: Restart | None = None
    """After which ends the program is started again."""
    persistence: Persistence | None = None
    """Named volumes."""
    outputs: References | None = None
    data_refs: tuple[str, ...] = ()
    """Names of volumes."""
    # No effect on a batch machine, and kept so that nothing is lost: `remarks.UNUSED`.
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
    """The container image."""

    main = "image"

    image: str | None = None
    """A name (``nvcr.io/nvidia/pytorch:24.08-py3``) or a path (``./torch.sif``), run by the site's container
    runtime."""
    binds: tuple[str, ...] = ()
    """Further folders and files that tasks see in it: ``SRC``, ``SRC:DST`` or ``SRC:DST:ro``, where ``$NAME``
    is a variable of the job."""
    fetch_once: bool | None = None
    """An image of a registry is made a file before the tasks start (by default as the site has it)."""
    # No effect on a batch machine, and kept so that nothing is lost: `remarks.UNUSED`.
    dockerfile: str | None = None
    ref: Scalar | None = None
    backend: str | None = None
    context: str | None = None
    build_steps: tuple[str, ...] = ()
    lang_env: str | None = None
    env_vars: tuple[tuple[Scalar, ...], ...] = ()
    """Pairs of name and value, set like ``env_vars`` of ``environment``."""
    commit: str | None = None
    branch: str | None = None
    git: str | None = None
    nocache: bool = False


class Logging(Model, frozen=True):
    """The log level of the program."""

    main = "level"

    level: str | None = None
    """Such as ``INFO``, passed to the program in ``POLYAXON_LOG_LEVEL``."""
    formatter: str | None = None


class Experiment(Model, frozen=True, kw_only=True, dict=True):
    """One experiment file."""

    rest = "sections"
    may_be_empty = frozenset({"description"})

    version: int = 1
    """The version of the form, for Polyaxon."""
    kind: Literal["experiment", "job"] = "experiment"
    """Its kind in ``POLYAXON_*_INFO``."""
    name: str = "experiment"
    """The name of the job and of its runs; by default the file's name, or this one for standard input."""
    description: str | None = None
    """What it is; kept with the run."""
    tags: tuple[str, ...] = ()
    """Words to find it by; kept with the run."""
    project: str | None = None
    framework: str | None = None
    """How the replicas work together; without one there is only the master."""
    backend: str | None = None
    """As in Polyaxon; with ``mpi`` the workers are all replicas, and the command starts them itself."""
    logging: Logging = Logging()
    """The log level of the program."""
    params: dict[str, Any] = {}
    """Names with values, for ``{{ name }}`` in other sections and for ``-p name=value``; Polyaxon's
    ``declarations``."""
    inputs: tuple[dict[str, Any], ...] = ()
    """Declared params, each with its type and default."""
    outputs: tuple[dict[str, Any], ...] = ()
    environment: Environment = Environment()
    """Resources, replicas and variables."""
    build: Build | None = None
    """The container image."""
    run: Run
    """The command."""
    stage: tuple[Stage, ...] = ()
    """Data that is copied to each node before."""
    tracking: Tracking = Tracking()
    """Metrics that are found in the output."""
    hptuning: Search | None = None
    """A search over params, each of whose trials is a job of its own."""
    sections: dict[str, Any] = {}
    """All further top-level keys: the sections of frameworks by name."""
    batch: Batch = Batch()
    """Settings of the batch job."""

    @cached_property
    def trials(self) -> Sequence[Trial]:
        """The trials of the search, of one that is adaptive the first ones; empty without a search."""
        search = self.hptuning
        return trials(search) if search else ()

    @cached_property
    def section(self) -> Builder:
        """The function that returns a framework's section as a model, and its problems."""
        return builder(self.sections)
