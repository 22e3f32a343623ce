"""TFJob of Kubeflow's training operator, and of the operator before it."""

from __future__ import annotations

from typing import Final

from hpcdist.importers.kubeflow.pod import word
from hpcdist.importers.kubeflow.training import only_one, parts_of, put_replicas, replicas_of, worker_first
from hpcdist.importers.reading import Reading

_SPECS: Final = ("tfReplicaSpecs", "replicaSpecs", "replica_specs")
_NAMES: Final = {
    "chief": "master",
    "master": "master",
    "worker": "worker",
    "ps": "ps",
    "evaluator": "evaluator",
}
_OPERATOR_VARIABLES: Final = frozenset({"TF_CONFIG"})


def tfjob(read: Reading) -> None:
    """Read a TFJob: v1alpha1 with its list, and all after it."""
    read.ignore("spec", "tensorboard", why="run tensorboard on the login node")
    for key in ("RuntimeId", "tfImage", "tf_image", "terminationPolicy", "TerminationPolicy"):
        read.ignore("spec", key, why="the job ends when its master does, and has no image for servers")
    read.ignore("spec", "enableDynamicWorker", why="the number of workers of a job is fixed")
    everyone = word(read, "spec", "successPolicy") == "AllWorkers"
    found = replicas_of(read, _SPECS, _NAMES, "tensorflow", _OPERATOR_VARIABLES)
    if not found:
        return
    specs = next(read.keys("spec", key) for key in _SPECS if read.peek("spec", key) is not None)
    first = "master" in map(str.lower, specs) or read.peek("spec", "tfReplicaSpecs") is None
    chief = found.get("master")
    if chief is None:
        found = worker_first(read, found, "")
    for name in ("master", "evaluator"):
        only_one(read, found.get(name), name)
    parts = parts_of(read, found)
    if not parts or "master" not in found:
        return
    read.put("framework", "tensorflow", "kind")
    if len(parts) > 1 or found["master"].number > 1:
        if first and chief:
            read.put("tensorflow.version", "1", *chief.path)
        elif bool(chief) != bool({"ps", "evaluator"} & found.keys()):
            read.put("tensorflow.chief", chief is not None, *(chief or found["master"]).path)
        read.put("tensorflow.ends_with", "workers" if everyone else "master", "spec")
    put_replicas(read, found, parts)
