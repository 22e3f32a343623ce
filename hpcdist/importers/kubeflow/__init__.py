"""Kubeflow's jobs: MPIJob, TFJob, PyTorchJob, MXJob, JAXJob, XGBoostJob, all API versions, and TrainJob.

An Experiment of Katib is a search, whose trials are such a job, or a Job of Kubernetes.

Sources: kubeflow/mpi-operator ``pkg/apis/kubeflow/v2beta1/types.go``, kubeflow/training-operator 1.8
``pkg/apis/kubeflow.org/v1``. The modules beside this one each read a part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from hpcdist.documents.tree import Map
from hpcdist.errors import ConfigError, Path, Problem, did_you_mean, errors_in
from hpcdist.importers import Imported, container
from hpcdist.importers.kubeflow import katib
from hpcdist.importers.kubeflow.all_reduce import jaxjob, xgboostjob
from hpcdist.importers.kubeflow.mpi import mpijob
from hpcdist.importers.kubeflow.mxnet import mxjob
from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.kubeflow.pytorch import pytorchjob
from hpcdist.importers.kubeflow.roles import whole
from hpcdist.importers.kubeflow.tensorflow import tfjob
from hpcdist.importers.kubeflow.training import one_pod
from hpcdist.importers.kubeflow.trainjob import trainjob
from hpcdist.importers.reading import Reading
from hpcdist.units import Walltime
from hpcdist.words import slug

_KINDS: Final[Mapping[str, Callable[[Reading], None]]] = {
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
        """Decide by the kind: a runtime of Kubeflow, which is not a job, is not recognised beside one."""
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


def _job(data: Map, kinds: Mapping[str, Callable[[Reading], None]]) -> Imported:
    """Return the native form of a job of one of these kinds."""
    read = Reading(data)
    kind = word(read, "kind") or ""
    _check(read, data, kind, kinds)
    _metadata(read)
    for key in ("runPolicy", "RunPolicy"):
        _policy(read, ("spec", key))
    _policy(read, ("spec",))
    kinds[kind](read)
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
    version = word(read, "apiVersion")
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
    generated = word(read, "metadata", "generateName")
    name = word(read, "metadata", "name") or (generated or "").rstrip("-")
    if name:
        source = "name" if read.peek("metadata", "name") else "generateName"
        if "." in name:
            read.warn("metadata", source, why=f"the job is named {slug(name)!r}: a job name has no dots")
        read.put("name", slug(name) if "." in name else name, "metadata", source)


def _policy(read: Reading, path: Path) -> None:
    """Take the time limit and the retries of the whole job."""
    read.ignore_all(_POLICY, *path)
    read.ignore_all(_GANG, *path, "schedulingPolicy")
    seconds = whole(read, *path, "activeDeadlineSeconds")
    if seconds:
        read.put("batch.walltime", str(Walltime(seconds)), *path, "activeDeadlineSeconds")
    retries = whole(read, *path, "backoffLimit")
    if retries:
        read.put("environment.max_restarts", retries, *path, "backoffLimit")
