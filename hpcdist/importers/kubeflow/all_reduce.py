"""JAXJob and XGBoostJob of Kubeflow's training operator, and of the operator before it.

Variables: ``pkg/controller.v1/jax/envvar.go`` and ``pkg/controller.v1/xgboost/xgboost.go`` of
kubeflow/training-operator 1.9.
"""

from __future__ import annotations

from typing import Final

from hpcdist.importers.kubeflow.training import only_one, parts_of, put_replicas, replicas_of, with_master
from hpcdist.importers.reading import Reading

_COORDINATOR: Final = {
    "COORDINATOR_ADDRESS": "$HPCDIST_HEAD_ADDRESS",
    "COORDINATOR_PORT": "$HPCDIST_PORT",
    "NUM_PROCESSES": "$HPCDIST_SIZE",
    "PROCESS_ID": "$HPCDIST_RANK",
}
_TRACKER: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "WORKER_ADDRS", "WORKER_PORT"}
)


def jaxjob(read: Reading) -> None:
    """Read a JAXJob, whose first worker is the coordinator."""
    names = {"worker": "worker"}
    found = replicas_of(read, ("jaxReplicaSpecs",), names, "jax", frozenset(_COORDINATOR))
    found = with_master(found["worker"]) if found else {}
    read.put("framework", "jax", "kind")
    line = "export " + " ".join(f'{name}="{value}"' for name, value in _COORDINATOR.items())
    parts = [
        part if part.pod.command is None else part._replace(before=(line,)) for part in parts_of(read, found)
    ]
    put_replicas(read, found, parts)


def xgboostjob(read: Reading) -> None:
    """Read an XGBoostJob: its tracker is at the address that PyTorch has for its master."""
    names = {"master": "master", "worker": "worker"}
    found = replicas_of(read, ("xgbReplicaSpecs", "xgboostReplicaSpecs"), names, "xgboost", _TRACKER)
    if found and "master" not in found:
        read.refuse("spec", why="there is no Master", hint="write one")
        return
    only_one(read, found.get("master"), "Master")
    read.put("framework", "pytorch", "kind")
    if len(found) > 1:
        why = "WORKER_ADDRS and WORKER_PORT, which only programs of LightGBM read, are not set"
        read.warn("kind", why=why)
    put_replicas(read, found, parts_of(read, found))
