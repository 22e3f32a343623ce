"""TrainJob of Kubeflow Trainer 2, on a runtime for PyTorch, MPI or Flux: its nodes all run the same.

Fields: kubeflow/trainer ``pkg/apis/trainer/v1alpha1/trainjob_types.go``; its own runtimes, which have an
image and no command, are in ``manifests/base/runtimes``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hpcdist.errors import Key, Path
from hpcdist.importers import container
from hpcdist.importers.kubeflow.mpi import WorkerGroup, launched_ranks, ranks
from hpcdist.importers.kubeflow.pod import container_of, word
from hpcdist.importers.kubeflow.pytorch import OPERATOR_VARIABLES, torch_program
from hpcdist.importers.kubeflow.roles import Role, whole
from hpcdist.importers.kubeflow.training import with_master
from hpcdist.importers.reading import Reading

_TRAINER: Final[Path] = ("spec", "trainer")
_REFERENCES: Final = ("runtimeRef", "trainingRuntimeRef")
_TORCH: Final = re.compile(r"(?:py)?torch(?!tune|-tune)[-\w.]*")
_RANKS: Final[Mapping[str, Callable[[Reading, WorkerGroup], None]]] = {
    "deepspeed|(?:open)?mpi|horovod": lambda read, group: launched_ranks(read, group, group.pod),
    "flux": ranks,
}
"""What the command is of other runtimes: a launch that one node runs, or the program of every rank."""
_WITHOUT_COMMAND: Final = frozenset({"torch-distributed"})
_PATCHES: Final = "it changes pods of the runtime; what the program needs of it belongs in `trainer`"
_IGNORED: Final = {
    **dict.fromkeys(("runtimePatches", "podSpecOverrides", "podTemplateOverrides"), _PATCHES),
    "workloadSpec": "the batch system schedules the job",
}
_ELASTIC: Final = "the number of nodes of a job is fixed"


def trainjob(read: Reading) -> None:
    """Read a TrainJob with its own command, or image, on a runtime that is known by its name."""
    key = next((key for key in _REFERENCES if read.peek("spec", key)), _REFERENCES[0])
    runtime = word(read, "spec", key, "name") or ""
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
    restarts = whole(read, *_TRAINER, "elasticPolicy", "maxRestarts")
    container.check_claims(read, *_TRAINER, "resourceClaimsPerNode")
    pod = container_of(read, _TRAINER, None, OPERATOR_VARIABLES, "resourcesPerNode")
    if not pod.image:
        why = f"the image of the runtime {runtime!r} is not used: it is another object"
        read.warn(*_TRAINER, why=why, hint="write `trainer.image`")
    nodes, each = _nodes(read, runtime), (*_TRAINER, "numProcPerNode")
    if not runtime or _TORCH.fullmatch(runtime):
        torch_program(read, with_master(Role((*_TRAINER, "numNodes"), nodes, pod)), each, restarts)
    elif start := next((start for names, start in _RANKS.items() if re.match(names, runtime)), None):
        start(read, WorkerGroup(nodes, whole(read, *each) or 1, pod, pod, (*_TRAINER, "numNodes")))
    else:
        why = f"what the runtime {runtime!r} sets for the program is in another object"
        read.refuse("spec", key, "name", why=why, hint="write a PyTorchJob or an MPIJob")


def _nodes(read: Reading, runtime: str) -> int:
    """Return the number of nodes, of an elastic job the least; one where only the runtime has it."""
    nodes, least = whole(read, *_TRAINER, "numNodes"), whole(read, *_TRAINER, "elasticPolicy", "minNodes")
    for key in ("minNodes", "maxNodes", "metrics") if nodes is not None else ("maxNodes", "metrics"):
        read.ignore(*_TRAINER, "elasticPolicy", key, why=_ELASTIC)
    nodes = least if nodes is None else nodes
    if nodes is None and runtime not in _WITHOUT_COMMAND:
        why = f"the number of nodes of the runtime {runtime!r} is in another object: the job has one"
        read.warn(*_TRAINER, why=why, hint="write `trainer.numNodes`")
    return 1 if nodes is None else max(nodes, 1)
