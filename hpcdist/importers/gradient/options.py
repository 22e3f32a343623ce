"""The options of ``gradient experiments create|run`` and ``jobs create``, the keys of their options files.

Source: gradient-cli 0.5 to 1.9, ``gradient/cli/experiments.py`` and ``jobs.py``
(https://github.com/Paperspace/gradient-cli); ``experimentTypeId``, ``projectHandle`` and ``triggerEventId``
are those of its first releases.
"""

from __future__ import annotations

from typing import Final

SEARCH: Final = (
    "the tuning command chooses the trials itself, by hyperopt with a MongoDB of Gradient",
    "write the command of one trial as `run.cmd` of an experiment, and what it tunes as `hptuning`",
)
"""Why searches are not run, and what to write instead (https://docs.paperspace.com/gradient, of 2019)."""
_ROLES: Final = ("worker", "parameterServer", "master")
_MODELS: Final = "models are not stored; what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept"
_SECRET: Final = "nothing is fetched with it; do not keep secrets in a file"  # noqa: S105
_USER: Final = "the job runs as you, with your own rights"
_REGISTRY: Final = "the site's container runtime gets images"
_NO_IMAGE: Final = "no image is built or stored"
_BOARD: Final = "a batch job has no browser; run tensorboard on the login node"
_ACCOUNT: Final = "it belongs to an account of Paperspace"


def _of_roles(last: str) -> tuple[str, ...]:
    return tuple(role + last for role in _ROLES)


SINGLE: Final = ("container", "machineType", "command")
MULTI: Final = ("experimentType", "experimentTypeId", *_of_roles("Container"), *_of_roles("MachineType"),
                *_of_roles("Command"), *_of_roles("Count"))  # fmt: skip
COUNTS: Final = frozenset(_of_roles("Count"))
DATASETS: Final = ("datasetUri", "datasetName", "datasetId", "datasetAwsAccessKeyId",
                   "datasetAwsSecretAccessKey", "datasetAwsEndpoint", "datasetVersionId", "datasetEtag",
                   "datasetVolumeKind", "datasetVolumeSize")  # fmt: skip
REPEATED: Final = frozenset(("tag", "dataset", *DATASETS))
FLAGS: Final = frozenset(
    ("isPreemptible", "tensorboard", "vpc", "no-logs", "isPublic", "useDockerfile", "buildOnly")
)
"""Options that are true, or have ``true`` or ``false`` behind them."""
ENVIRONMENT: Final = ("experimentEnv", "envVars", "jobEnv")
BUILDS: Final = {
    "useDockerfile": "build it, for example by `apptainer build`, and write its name as `container`",
    "buildOnly": "a job runs a program: write its command, and remove this",
}
"""Options of a job that build an image, and what to do instead."""
_SINGLE_IGNORED: Final = {
    "containerUser": _USER,
    "registryUsername": _REGISTRY,
    "registryPassword": _SECRET,
    "registryUrl": _REGISTRY,
}
_MULTI_IGNORED: Final = {
    **dict.fromkeys(_of_roles("ContainerUser"), _USER),
    **dict.fromkeys((*_of_roles("RegistryUsername"), *_of_roles("RegistryUrl")), _REGISTRY),
    **dict.fromkeys(_of_roles("RegistryPassword"), _SECRET),
    "parameterServerRegistryContainerUser": _USER,
}
_COMMON_IGNORED: Final = {
    **dict.fromkeys(("projectId", "projectHandle", "clusterId", "triggerEventId"), _ACCOUNT),
    **dict.fromkeys(("apiKey", "workspaceUsername", "workspacePassword"), _SECRET),
    **dict.fromkeys(("modelType", "modelPath"), _MODELS),
    "artifactDirectory": "what the program writes to $POLYAXON_RUN_OUTPUTS_PATH is kept",
    "ignoreFiles": "no files are uploaded",
    "isPreemptible": "the batch system decides what is preempted: choose it with `batch: {qos: NAME}`",
    "ports": "the nodes of a job reach each other on all ports",
    "tensorboard": _BOARD,
    "tensorboard_set": _BOARD,
    "vpc": "the site has its own network",
    "no-logs": "`hpcdist logs` shows them",
}
_JOB_IGNORED: Final = {
    **dict.fromkeys(("project", "cluster", "experimentId", "startedByUserId", "isPublic"), _ACCOUNT),
    **dict.fromkeys(("registryTarget", "registryTargetUsername", "relDockerfilePath"), _NO_IMAGE),
    "registryTargetPassword": _SECRET,
    "nodeAttrs": "choose nodes with `batch.partition` or `batch.constraint`",
}
IGNORED: Final = {**_COMMON_IGNORED, **_SINGLE_IGNORED, **_MULTI_IGNORED, **_JOB_IGNORED}
"""Options that mean nothing on a batch machine, and why."""
_COMMON: Final = (
    "name", "workspace", "workspaceRef", "workspaceArchive", "workspaceUrl", "workingDirectory",
    "experimentEnv", "tag", "tags", *DATASETS, *_COMMON_IGNORED,
)  # fmt: skip
OF_SINGLENODE: Final = frozenset((*_COMMON, *SINGLE, *_SINGLE_IGNORED))
OF_MULTINODE: Final = frozenset((*_COMMON, *MULTI, *_MULTI_IGNORED))
OF_JOB: Final = frozenset((*_COMMON, *SINGLE, *_SINGLE_IGNORED, *_JOB_IGNORED, *BUILDS, "envVars", "jobEnv",
                           "dataset")) - {"experimentEnv"}  # fmt: skip
KNOWN: Final = OF_SINGLENODE | OF_MULTINODE | OF_JOB | {"datasets"}
SECRETS: Final = frozenset(name for name in KNOWN if IGNORED.get(name) == _SECRET or "Aws" in name)
"""Options that are kept nowhere."""
HIDDEN: Final = SECRETS | set(ENVIRONMENT)
"""Options whose values are shown nowhere."""
