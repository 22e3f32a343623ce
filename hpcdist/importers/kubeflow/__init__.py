"""Kubeflow's jobs: MPIJob, TFJob, PyTorchJob, MXJob, JAXJob, XGBoostJob, all API versions, and TrainJob.

An Experiment of Katib is a search whose trials are such jobs, or Jobs of Kubernetes.

Sources: kubeflow/mpi-operator ``pkg/apis/kubeflow/v2beta1/types.go``, kubeflow/training-operator 1.8
``pkg/apis/kubeflow.org/v1``. Each module of this package reads a part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from hpcdist.base.errors import ConfigError, Key, Path, Problem, did_you_mean, errors_in
from hpcdist.base.tree import Map
from hpcdist.base.units import Walltime
from hpcdist.importers import Imported, container
from hpcdist.importers.job import ForeignJob, Sourced, keep_nodes, put_name
from hpcdist.importers.kubeflow import katib
from hpcdist.importers.kubeflow.pod import container_of, pod
from hpcdist.importers.kubeflow.replicas import (
    Part,
    PodGroup,
    WorkerGroup,
    launched_ranks,
    mpijob,
    only_one,
    parts_of,
    put_command,
    put_replicas,
    put_variables,
    ranks,
    refuse_pod_names,
    replicas_of,
    with_master,
    worker_first,
)
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, parse_launch_line
from hpcdist.importers.node_job import check_nodes
from hpcdist.importers.reading import Reading

# --- PyTorchJob of Kubeflow's training operator, and of the operator before it

_SPECS: Final = ("pytorchReplicaSpecs", "replicaSpecs")
_NAMES: Final = {"master": "master", "worker": "worker"}
OPERATOR_VARIABLES: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
)
"""Variables that the operator sets after the user's (``envvar.go``), and variables of a node's launch."""
_RENDEZVOUS: Final = "hpcdist configures the rendezvous of torchrun"
_ELASTIC: Final = {
    **dict.fromkeys(("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId", "rdzvConf", "standalone"), _RENDEZVOUS),
    **dict.fromkeys(("minReplicas", "maxReplicas", "metrics"), "the number of replicas of a job is fixed"),
}  # fmt: skip
_STARTS_PROCESSES: Final = re.compile(r"torchrun|torch\.distributed|accelerate|\.sh\b|PET_")
_PET: Final = (
    'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"',
    'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"',
)
"""What the operator sets for every torchrun (training-operator, ``pkg/controller.v1/pytorch/envvar.go``)."""


def pytorchjob(read: Reading, job: ForeignJob) -> None:
    """Read a PyTorchJob: torchrun becomes hpcdist's own launch if all of it can be converted."""
    read.ignore("spec", "backend", why="the program says which backend it uses")
    read.ignore("spec", "successPolicy", why="the job ends when all of its replicas have ended")
    read.ignore("spec", "masterPort", why="every job gets ports of its own")
    read.ignore_all(_ELASTIC, "spec", "elasticPolicy")
    restarts = read.whole("spec", "elasticPolicy", "maxRestarts")
    source: Path = ("spec", "nprocPerNode")
    for key in ("nProcPerNode", "nprocPerNode"):
        source = ("spec", "elasticPolicy", key) if read.peek("spec", "elasticPolicy", key) else source
    found = replicas_of(read, _SPECS, _NAMES, "pytorch", OPERATOR_VARIABLES)
    master = found.get("master")
    if found and master is None:
        found = with_master(found["worker"])
    else:
        only_one(read, master, "Master")
    torch_program(read, job, found, source, restarts)


def torch_program(
    read: Reading, job: ForeignJob, found: dict[str, PodGroup], source: Path, restarts: int | None = None
) -> None:
    """Put the program of the replicas; ``source``: the key of the number of processes of each."""
    each = read.word(*source)
    if each and not re.fullmatch(r"auto|gpu|cpu|[1-9]\d{0,5}", each, re.ASCII):
        hint = "write a number, or auto, gpu or cpu"
        read.refuse(*source, why=f"{each!r} is not a number of processes", hint=hint)
        each = None
    parts = parts_of(read, found)
    job.set("framework", "pytorch", "kind")
    if not parts:
        return
    total = sum(role.number for role in found.values())
    keep_nodes(job, parts[0].command, total, each, *(source if each else parts[0].pod.command_path))
    lines = _torchruns(read, parts, total, each)
    if lines:
        if restarts:
            job.set("pytorch.max_restarts", restarts, *parts[0].pod.command_path)
        _torchrun(read, job, parts, lines[0], source if each else ())
        put_replicas(read, job, found, [])
        return
    if restarts:
        why = "maxRestarts has no effect: only a torchrun that hpcdist starts is restarted"
        hint = "`environment: {max_restarts: ...}` restarts the whole job"
        read.warn("spec", "elasticPolicy", "maxRestarts", why=why, hint=hint)
    put_replicas(read, job, found, [_with_preset(part, total, each) for part in parts])


def _with_preset(part: Part, total: int, each: str | None) -> Part:
    """Set the variables of the operator for a command that starts processes itself; ``auto`` is its default.

    Source: training-operator, ``pkg/apis/kubeflow.org/v1/pytorch_defaults.go``. Without GPUs ``auto`` would
    be all CPUs of the node; it stays one process, as when hpcdist starts torchrun.
    """
    before: tuple[str, ...] = ()
    processes = each or ("auto" if part.pod.gpus else "")
    if _STARTS_PROCESSES.search(part.command) and (total > 1 or processes or "PET_" in part.command):
        before = (*_PET, f"export PET_NPROC_PER_NODE={processes}") if processes else _PET
    if each and each.isdecimal() and int(each) > 1:
        before = (*before, f"export WORLD_SIZE=$((HPCDIST_SIZE * {each}))")
    return part._replace(before=before)


def _torchruns(read: Reading, parts: list[Part], total: int, each: str | None) -> list[Line]:
    """Return the launch lines, none if any replica runs something else or differs from the others."""
    lines: list[Line] = []
    for part in parts:
        where = part.pod.command_path
        if part.pod.command is None:
            return []
        try:
            line = parse_launch_line(part.command, part.pod.env)
        except UnsupportedLaunch as unclear:
            read.warn(
                *where, why=f"this command, {unclear}, is not converted, and runs once for each replica"
            )
            return []
        if line is None or line.program != "torchrun":
            return []
        lines.append(line)
    both = list(zip(lines, parts, strict=True))
    for where, line in {part.pod.command_path: line for line, part in both}.items():
        check_nodes(read, line.nodes, total, where)
    variants = {(line.command, line.per_node or each, part.pod.folder) for line, part in both}
    same_env = all(part.pod.env == parts[0].pod.env for part in parts)
    known = all(_processes(line.per_node or each, part) for line, part in both)
    return lines if len(variants) == 1 and same_env and known else []


def _processes(each: str | None, part: Part) -> int | None:
    """Return how many processes a replica starts, None if it depends on the node."""
    if each and each.isdecimal():
        return int(each)
    return max(part.pod.gpus, 1) if each is None or (each in ("gpu", "auto") and part.pod.gpus) else None


def _torchrun(read: Reading, job: ForeignJob, parts: list[Part], line: Line, source: Path) -> None:
    """Let hpcdist start torchrun."""
    where = parts[0].pod.command_path
    each = read.word(*source) if source else None
    count = _processes(line.per_node or each, parts[0]) or 1
    job.set("pytorch.launch", "torchrun", *where)
    if line.restarts and not line.restarts.isdecimal():
        read.refuse(
            *where, why=f"{line.restarts!r} is not a number of restarts", hint="write --max-restarts=3"
        )
    elif int(line.restarts or 0):
        job.set("pytorch.max_restarts", int(line.restarts), *where)
    if line.dropped:
        why = f"hpcdist starts torchrun itself, so these words have no effect: {', '.join(line.dropped)}"
        read.warn(*where, why=why)
    if (line.per_node or each) and count != max(parts[0].pod.gpus, 1):
        job.slots = Sourced(count, source or where)
    refuse_pod_names(read, line.command, where)
    first = put_variables(read, job, parts[0].pod.env | line.variables, *parts[0].pod.path, "env")
    put_command(read, job, container.in_folder(parts[0].pod.folder, line.command), where, first)


# --- TrainJob of Kubeflow Trainer 2, on a runtime for PyTorch, MPI or Flux: its nodes all run the same
#
# Fields: kubeflow/trainer ``pkg/apis/trainer/v1alpha1/trainjob_types.go``; its own runtimes, which have an
# image and no command, are in ``manifests/base/runtimes``.

_TRAINER: Final[Path] = ("spec", "trainer")
_REFERENCES: Final = ("runtimeRef", "trainingRuntimeRef")
_TORCH: Final = re.compile(r"(?:py)?torch(?!tune|-tune)[-\w.]*")
_RANKS: Final[Mapping[str, Callable[[Reading, ForeignJob, WorkerGroup], None]]] = {
    "deepspeed|(?:open)?mpi|horovod": lambda read, job, group: launched_ranks(read, job, group, group.pod),
    "flux": ranks,
}
"""The command of other runtimes: a launch that one node runs, or the program of every rank."""
_WITHOUT_COMMAND: Final = frozenset({"torch-distributed"})
_PATCHES: Final = "it changes pods of the runtime; what the program needs of it belongs in `trainer`"
_IGNORED: Final = {
    **dict.fromkeys(("runtimePatches", "podSpecOverrides", "podTemplateOverrides"), _PATCHES),
    "workloadSpec": "the batch system schedules the job",
}
_TRAINJOB_ELASTIC: Final = "the number of nodes of a job is fixed"


def trainjob(read: Reading, job: ForeignJob) -> None:
    """Read a TrainJob with its own command, or image, on a runtime that is known by its name."""
    key = next((key for key in _REFERENCES if read.peek("spec", key)), _REFERENCES[0])
    runtime = read.word("spec", key, "name") or ""
    read.get("spec", key)
    read.ignore_all(_IGNORED, "spec")
    for name in ("initializer", "datasetConfig", "modelConfig"):
        if read.peek("spec", name):
            hint = "download it beforehand, and remove this"
            read.refuse("spec", name, why="what this downloads for the program would be missing", hint=hint)
    own_image = runtime in _WITHOUT_COMMAND and read.peek(*_TRAINER, "image")
    if not (own_image or read.peek(*_TRAINER, "command")):
        why = f"the runtime {runtime!r} names the program, and is another object"
        read.refuse("spec", Key(key), why=why, hint="write `trainer.command`")
        read.get(*_TRAINER)
        return
    restarts = read.whole(*_TRAINER, "elasticPolicy", "maxRestarts")
    container.check_claims(read, *_TRAINER, "resourceClaimsPerNode")
    pod = container_of(read, _TRAINER, None, OPERATOR_VARIABLES, "resourcesPerNode")
    if not pod.image:
        why = f"the image of the runtime {runtime!r} is not used: it is another object"
        read.warn(*_TRAINER, why=why, hint="write `trainer.image`")
    nodes, each = _nodes(read, runtime), (*_TRAINER, "numProcPerNode")
    if not runtime or _TORCH.fullmatch(runtime):
        torch_program(read, job, with_master(PodGroup((*_TRAINER, "numNodes"), nodes, pod)), each, restarts)
    elif start := next((start for names, start in _RANKS.items() if re.match(names, runtime)), None):
        start(read, job, WorkerGroup(nodes, read.whole(*each) or 1, pod, pod, (*_TRAINER, "numNodes")))
    else:
        why = f"what the runtime {runtime!r} sets for the program is in another object"
        read.refuse("spec", key, "name", why=why, hint="write a PyTorchJob or an MPIJob")


def _nodes(read: Reading, runtime: str) -> int:
    """Return the number of nodes, for an elastic job the minimum; one if only the runtime has it."""
    nodes, least = read.whole(*_TRAINER, "numNodes"), read.whole(*_TRAINER, "elasticPolicy", "minNodes")
    for key in ("minNodes", "maxNodes", "metrics") if nodes is not None else ("maxNodes", "metrics"):
        read.ignore(*_TRAINER, "elasticPolicy", key, why=_TRAINJOB_ELASTIC)
    nodes = least if nodes is None else nodes
    if nodes is None and runtime not in _WITHOUT_COMMAND:
        why = f"the number of nodes of the runtime {runtime!r} is in another object: the job has one"
        read.warn(*_TRAINER, why=why, hint="write `trainer.numNodes`")
    return 1 if nodes is None else max(nodes, 1)


# --- MXJob of Kubeflow's training operator, and of the operator before it

_MXNET_SPECS: Final = ("mxReplicaSpecs", "replicaSpecs")
_MXNET_NAMES: Final = {"scheduler": "master", "server": "ps", "worker": "worker"}
_OPERATOR_VARIABLES: Final = frozenset({
    "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_ROLE",
    "DMLC_SERVER_ID", "DMLC_NODE_HOST",
})  # fmt: skip


def mxjob(read: Reading, job: ForeignJob) -> None:
    """Read an MXJob that trains; servers and the scheduler run the worker's program."""
    mode = read.word("spec", "jobMode") or "MXTrain"
    if mode.lower() not in ("mxtrain", "dist", "local", "train"):
        hint = "start the tuner's own tracker and servers from `run.cmd` of a native experiment"
        read.refuse("spec", "jobMode", why=f"jobs of the mode {mode!r} are not run", hint=hint)
    for key in ("RuntimeId", "mxImage"):
        read.ignore("spec", key, why="it was for servers of the operator")
    read.ignore("spec", "successPolicy", why="the job ends when its workers have ended")
    found = replicas_of(read, _MXNET_SPECS, _MXNET_NAMES, "mxnet", _OPERATOR_VARIABLES)
    worker = found.get("worker")
    if worker is None:
        if found:
            read.refuse("spec", why="there is no Worker", hint="write one")
        return
    only_one(read, found.get("master"), "Scheduler")
    found = {name: _as_worker(read, role, worker) for name, role in found.items()}
    if "master" not in found and len(found) == 1:
        found = worker_first(read, found, "there is no scheduler")
    elif "master" not in found:
        read.refuse("spec", why="servers need a Scheduler", hint="write `Scheduler: {replicas: 1, ...}`")
        return
    parts = parts_of(read, found)
    byteps = [part for part in parts if "bpslaunch" in part.command and part.role == "worker"]
    own = ('export DMLC_WORKER_ID="$HPCDIST_INDEX"',)
    parts = [part._replace(before=own) if part in byteps else part for part in parts]
    if "ps" in found:
        job.set("framework", "mxnet", "kind")
    put_replicas(read, job, found, parts)


def _as_worker(read: Reading, role: PodGroup, worker: PodGroup) -> PodGroup:
    """Return the role with the worker's program, if it has no program itself."""
    if role.pod.command is not None or worker.pod.command is None:
        return role
    why = "it names no program, so the worker's program is started; MXNet selects its role"
    read.warn(*role.path, why=why)
    source, folder = worker.pod.command_path, worker.pod.folder
    member = role.pod._replace(command=worker.pod.command, command_path=source, folder=folder)
    return role._replace(pod=member._replace(env=worker.pod.env | role.pod.env))


# --- JAXJob and XGBoostJob of Kubeflow's training operator, and of the operator before it
#
# Variables: ``pkg/controller.v1/jax/envvar.go`` and ``pkg/controller.v1/xgboost/xgboost.go`` of
# kubeflow/training-operator 1.9.

_COORDINATOR: Final = {
    "COORDINATOR_ADDRESS": "$HPCDIST_HEAD_ADDRESS",
    "COORDINATOR_PORT": "$HPCDIST_PORT",
    "NUM_PROCESSES": "$HPCDIST_SIZE",
    "PROCESS_ID": "$HPCDIST_RANK",
}
_TRACKER: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "WORKER_ADDRS", "WORKER_PORT"}
)


def jaxjob(read: Reading, job: ForeignJob) -> None:
    """Read a JAXJob, whose first worker is the coordinator."""
    names = {"worker": "worker"}
    found = replicas_of(read, ("jaxReplicaSpecs",), names, "jax", frozenset(_COORDINATOR))
    found = with_master(found["worker"]) if found else {}
    job.set("framework", "jax", "kind")
    line = "export " + " ".join(f'{name}="{value}"' for name, value in _COORDINATOR.items())
    parts = [
        part if part.pod.command is None else part._replace(before=(line,)) for part in parts_of(read, found)
    ]
    put_replicas(read, job, found, parts)


def xgboostjob(read: Reading, job: ForeignJob) -> None:
    """Read an XGBoostJob: its tracker is at the address that PyTorch has for its master."""
    names = {"master": "master", "worker": "worker"}
    found = replicas_of(read, ("xgbReplicaSpecs", "xgboostReplicaSpecs"), names, "xgboost", _TRACKER)
    if found and "master" not in found:
        read.refuse("spec", why="there is no Master", hint="write one")
        return
    only_one(read, found.get("master"), "Master")
    job.set("framework", "pytorch", "kind")
    if len(found) > 1:
        why = "WORKER_ADDRS and WORKER_PORT, which only programs of LightGBM read, are not set"
        read.warn("kind", why=why)
    put_replicas(read, job, found, parts_of(read, found))


# --- TFJob of Kubeflow's training operator, and of the operator before it

_TENSORFLOW_SPECS: Final = ("tfReplicaSpecs", "replicaSpecs", "replica_specs")
_TENSORFLOW_NAMES: Final = {
    "chief": "master",
    "master": "master",
    "worker": "worker",
    "ps": "ps",
    "evaluator": "evaluator",
}
_TENSORFLOW_OPERATOR_VARIABLES: Final = frozenset({"TF_CONFIG"})


def tfjob(read: Reading, job: ForeignJob) -> None:
    """Read a TFJob: v1alpha1 with its list, and all after it."""
    read.ignore("spec", "tensorboard", why="run tensorboard on the login node")
    for key in ("RuntimeId", "tfImage", "tf_image", "terminationPolicy", "TerminationPolicy"):
        read.ignore("spec", key, why="the job ends when its master does, and has no image for servers")
    read.ignore("spec", "enableDynamicWorker", why="the number of workers of a job is fixed")
    everyone = read.word("spec", "successPolicy") == "AllWorkers"
    found = replicas_of(
        read, _TENSORFLOW_SPECS, _TENSORFLOW_NAMES, "tensorflow", _TENSORFLOW_OPERATOR_VARIABLES
    )
    if not found:
        return
    specs = next(read.keys("spec", key) for key in _TENSORFLOW_SPECS if read.peek("spec", key) is not None)
    first = "master" in map(str.lower, specs) or read.peek("spec", "tfReplicaSpecs") is None
    chief = found.get("master")
    if chief is None:
        found = worker_first(read, found, "")
    for name in ("master", "evaluator"):
        only_one(read, found.get(name), name)
    parts = parts_of(read, found)
    if not parts or "master" not in found:
        return
    job.set("framework", "tensorflow", "kind")
    if len(parts) > 1 or found["master"].number > 1:
        if first and chief:
            job.set("tensorflow.version", "1", *chief.path)
        elif bool(chief) != bool({"ps", "evaluator"} & found.keys()):
            job.set("tensorflow.chief", chief is not None, *(chief or found["master"]).path)
        job.set("tensorflow.ends_with", "workers" if everyone else "master", "spec")
    put_replicas(read, job, found, parts)


# --- Kubeflow's jobs

_OF_JOBS: Final = dict.fromkeys(
    ("selector", "manualSelector", "completionMode", "podFailurePolicy", "podReplacementPolicy",
     "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"), "there are no pods",
)  # fmt: skip


def one_pod(read: Reading, job: ForeignJob) -> None:
    """Read a Job of Kubernetes that is one pod."""
    for key in ("parallelism", "completions"):
        if (read.whole("spec", key) or 1) > 1:
            why = "a trial is one job, and its pods do not know each other"
            read.refuse("spec", key, why=why, hint="write 1, or a PyTorchJob, MPIJob or TFJob")
    read.ignore_all(_OF_JOBS, "spec")
    if found := pod(read, "spec", "template"):
        role = {"master": PodGroup(("spec", "template"), 1, found)}
        put_replicas(read, job, role, parts_of(read, role))


_KINDS: Final[Mapping[str, Callable[[Reading, ForeignJob], None]]] = {
    "MPIJob": mpijob, "TFJob": tfjob, "TfJob": tfjob, "PyTorchJob": pytorchjob, "MXJob": mxjob,
    "JAXJob": jaxjob, "XGBoostJob": xgboostjob, "TrainJob": trainjob,
}  # fmt: skip
_IN_TRIALS: Final = {**_KINDS, "Job": one_pod}
_GROUP: Final = re.compile(r"(?:[\w-]+\.)?kubeflow\.org|tensorflow\.org|mlkube\.io|(?:[\w-]+\.)?kubedl\.io")
_INSIDE: Final = "write the job inside it to a separate file"
_NO_JOB: Final = "give the file of the training job, or write its command as `run.cmd` of an experiment"
_RUNTIME: Final = "give the TrainJob that refers to it, with its own command"
_OTHERS: Final = {
    **dict.fromkeys(
        ("PaddleJob", "GenericJob", "Job", "CronJob", "JobSet", "Pod", "LeaderWorkerSet"),
        "start it from `run.cmd` of a native experiment",
    ),
    **dict.fromkeys(("TrainingRuntime", "ClusterTrainingRuntime"), _RUNTIME),
    **dict.fromkeys(("ElasticJob", "HyperPodPyTorchJob"), "write it as a PyTorchJob, with `torchrun`"),
    **dict.fromkeys(("AppWrapper", "Cron", "Workflow", "CronWorkflow", "WorkflowTemplate", "List"), _INSIDE),
    "Kustomization": "give what `kustomize build` writes",
    **dict.fromkeys(("RayJob", "RayCluster"),
                    "write a native experiment with `framework: ray`, and the driver as `run.cmd`"),
    **dict.fromkeys(("RayService", "SparkApplication"),
                    "start the cluster in `run.cmd` of a native experiment"),
}  # fmt: skip
_METADATA: Final = {
    "namespace": "a batch machine has no namespaces",
    "labels": "they are for Kubernetes; the partition is `batch.partition`",
    "annotations": "they are for Kubernetes",
    **dict.fromkeys(
        ("clusterName", "creationTimestamp", "generation", "resourceVersion", "selfLink", "uid",
         "finalizers", "managedFields", "ownerReferences", "deletionTimestamp"), "Kubernetes wrote it",
    ),
}  # fmt: skip
_POLICY: Final = {
    **dict.fromkeys(("cleanPodPolicy", "cleanupPodPolicy"), "all tasks end with the job"),
    "schedulerName": "the batch system schedules the job",
    "cacheBackend": "nothing is mounted; write the path of the site's own file system in the command",
    "modelVersion": "what the program writes to $HPCDIST_OUTPUTS is kept",
    "ttlSecondsAfterFinished": "a run's directory stays until you remove it",
    "suspend": "`hpcdist submit` starts the job",
    "managedBy": "the batch system runs the job",
}
_GANG: Final = {
    "queue": "the partition is `batch.partition`",
    "priorityClass": "`batch.qos` sets the priority",
    **dict.fromkeys(
        ("minAvailable", "minResources", "scheduleTimeoutSeconds"), "a job gets all its nodes at once"
    ),
}


class Kubeflow:
    """The importer of Kubeflow's jobs."""

    def recognises(self, data: Map) -> bool:
        """Decide by the kind: a runtime of Kubeflow, which is not a job, is not recognised."""
        version, kind = data.get("apiVersion"), data.get("kind")
        group = version.partition("/")[0] if isinstance(version, str) else ""
        if katib.is_experiment(data):
            return True
        return kind in _KINDS if isinstance(kind, str) else bool(_GROUP.fullmatch(group))

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: for a kind that is not run, or when no command is found.
        """
        if katib.is_experiment(data):
            return katib.experiment(data, lambda job: _job(job, _IN_TRIALS))
        return _job(data, _KINDS)


IMPORTER: Final = Kubeflow()


def _job(data: Map, kinds: Mapping[str, Callable[[Reading, ForeignJob], None]]) -> Imported:
    """Return the native form of a job of one of these kinds."""
    read, job = Reading(data), ForeignJob()
    kind = read.word("kind") or ""
    _check(read, data, kind, kinds)
    _metadata(read)
    for path in (("spec", "runPolicy"), ("spec", "RunPolicy"), ("spec",)):
        _policy(read, job, path)
    kinds[kind](read, job)
    job.write(read)
    read.ignore("status", why="Kubernetes wrote it")
    container.skip_empty(read)
    found = read.finish()
    if "run" not in found.data:
        raise ConfigError(*(found.remarks if errors_in(found.remarks) else [_nothing(data)]))
    return found


def _nothing(data: Map) -> Problem:
    hint = "write `spec`, with a container and its command"
    place = data.place_of("spec") or data.place
    return Problem("the file does not say what to run", ("spec",), hint, place=place)


def _check(read: Reading, data: Map, kind: str, kinds: Collection[str]) -> None:
    """Refuse other kinds, and a job without its version.

    Raises:
        ConfigError: for a kind that is not run.
    """
    version = read.word("apiVersion")
    place = data.place_of("kind") if "kind" in data else data.place
    group = (version or "kubeflow.org").partition("/")[0]
    if kind not in kinds or not (_GROUP.fullmatch(group) or kind == "Job"):
        near = did_you_mean(kind, _KINDS)
        is_near = near.startswith("did")
        hint = _OTHERS.get(kind) or (near if is_near or not kind else _NO_JOB)
        its = "a job of Kubeflow" if _GROUP.fullmatch(group) else "an object of Kubernetes"
        what = f"it looks like {its}, without its `kind`"
        if kind:
            other = f"this is `kind: {kind}` of Kubernetes ({group}), which is not run"
            what = f"jobs of kind {kind!r} are not run" if is_near else other
        if kind in _KINDS:
            what, hint = f"this is {group}'s {kind}, not Kubeflow's", "write `apiVersion: kubeflow.org/v1`"
        raise ConfigError(Problem(what, ("kind",), hint, place=place))
    if version is None:
        read.refuse("apiVersion", why=f"it looks like Kubeflow's {kind}, without its `apiVersion`",
                    hint="write `apiVersion: kubeflow.org/v1`")  # fmt: skip
    if not isinstance(data.get("spec"), Map):
        raise ConfigError(_nothing(data))


def _metadata(read: Reading) -> None:
    """Take the name; ignore the rest."""
    read.ignore_all(_METADATA, "metadata")
    generated = read.word("metadata", "generateName")
    name = read.word("metadata", "name") or (generated or "").rstrip("-")
    if name:
        source = "name" if read.peek("metadata", "name") else "generateName"
        put_name(read, name, "metadata", source)


def _policy(read: Reading, job: ForeignJob, path: Path) -> None:
    """Take the time limit and the retries of the whole job."""
    read.ignore_all(_POLICY, *path)
    read.ignore_all(_GANG, *path, "schedulingPolicy")
    seconds = read.whole(*path, "activeDeadlineSeconds")
    if seconds:
        job.set("batch.walltime", str(Walltime(seconds)), *path, "activeDeadlineSeconds")
    retries = read.whole(*path, "backoffLimit")
    if retries:
        job.set("environment.max_restarts", retries, *path, "backoffLimit")
