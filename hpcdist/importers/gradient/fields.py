"""Options common to all Gradient experiments: name, tags, code, variables, datasets; and the command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.errors import Path
from hpcdist.importers.container import escape_templates
from hpcdist.importers.reading import Reading
from hpcdist.words import RUN_NAME, quote, slug

# --- The options of ``gradient experiments create|run`` and ``jobs create``, the keys of their options files
#
# Source: gradient-cli 0.5 to 1.9, ``gradient/cli/experiments.py`` and ``jobs.py``
# (https://github.com/Paperspace/gradient-cli); ``experimentTypeId``, ``projectHandle`` and
# ``triggerEventId`` are those of its first releases.

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


# --- Options common to all Gradient experiments

_GIT: Final = re.compile(r"(?:https?|git|ssh)://\S+|git@\S+|\S+\.git")
_ARCHIVE: Final = re.compile(r"s3://\S+|\S+\.zip")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")
_GRADIENT_DIRECTORIES: Final = re.compile(
    r"(?<![\w.:/-])/(artifacts|storage|datasets|data|models|inputs|outputs)(?![\w.-])"
)
_LAYOUT: Final = "/paperspace"
"""Where Gradient unpacks the workspace."""


def common_fields(read: Reading, given: set[str]) -> None:
    """Take the options that belong to no role."""
    _name(read, given)
    _tags(read, given)
    _workspace(read, given)
    _variables(read, given)
    _datasets(read, given)


def text_of(read: Reading, *path: str | int) -> str | None:
    """Take a text in its source spelling; refuse sections and lists."""
    value = read.get(*path)
    if isinstance(value, (dict, list)):
        kind = "a list" if isinstance(value, list) else "keys and values"
        read.refuse(*path, why=f"expected text, got {kind}")
        return None
    return read.text(*path)


def put_command(read: Reading, command: str, key: str, *, before: str = "") -> None:
    """Put ``run.cmd``, in the working directory; warn of directories that only Gradient has."""
    for name in dict.fromkeys(_GRADIENT_DIRECTORIES.findall(command)):
        hint = "write $POLYAXON_RUN_OUTPUTS_PATH, or a path of the machine, instead"
        read.warn(key, why=f"/{name} is a directory of Gradient's machines", hint=hint)
    folder = text_of(read, "workingDirectory")
    steps = [before] if before else []
    if folder and folder.rstrip("/") not in {_LAYOUT, "."}:
        steps.append(f"cd {quote(folder)}")
        if folder.startswith("/"):
            hint = "write one that is relative to where the job is submitted"
            read.warn("workingDirectory", why=f"{folder} is a directory of the image", hint=hint)
    elif folder:
        read.ignore("workingDirectory", why="the job starts in the submit directory")
    words = [escape_templates(step) for step in (*steps, command)]
    read.put("run.cmd", words if len(words) > 1 else words[0], key)


def _name(read: Reading, given: set[str]) -> None:
    name = text_of(read, "name") if "name" in given else None
    if name is None:
        return
    if not RUN_NAME.fullmatch(name):
        read.warn("name", why=f"{name!r} is not a valid job name: it becomes {slug(name)!r}")
    read.put("name", name if RUN_NAME.fullmatch(name) else slug(name), "name")


def _tags(read: Reading, given: set[str]) -> None:
    """Take ``tag``, one or a list, and ``tags``, with commas between them."""
    found: list[str] = []
    for key in (key for key in ("tag", "tags") if key in given):
        items: list[Path] = [(key, index) for index, _ in read.items(key)]
        items = items or [(key,)]
        texts = [text_of(read, *path) or "" for path in items]
        found += [part.strip() for text in texts for part in (text.split(",") if key == "tags" else [text])]
    tags = [escape_templates(tag) for tag in dict.fromkeys(found) if tag]
    if tags:
        read.put("tags", tags, "tag" if "tag" in given else "tags")


def _workspace(read: Reading, given: set[str]) -> None:
    """Take the location of the code: a repository becomes ``build.git``, a directory a warning."""
    for key in ("workspace", "workspaceUrl", "workspaceArchive"):
        place = text_of(read, key) if key in given else None
        if place is None:
            continue
        place, secret = _CREDENTIALS.subn("", place)
        if _ARCHIVE.fullmatch(place):
            hint = "unpack it where the job is submitted, and remove this"
            read.refuse(key, why="nothing is fetched or unpacked", hint=hint)
        elif _GIT.fullmatch(place):
            read.put("build.git", escape_templates(place), key)
            if secret:
                read.warn(key, why="the name and password in it are left out")
        elif place not in {"none", ".", "./"}:
            read.warn(
                key,
                why="no files are uploaded: the job starts in the submit directory",
                hint=f"cd {quote(place)}",
            )
    if "workspaceRef" in given:
        read.put("build.commit", escape_templates(text_of(read, "workspaceRef") or ""), "workspaceRef")


def _variables(read: Reading, given: set[str]) -> None:
    """Take the variables: keys and values, or the same as a text of JSON."""
    for key in ENVIRONMENT:
        if key in given:
            _take_variables(read, key)


def _take_variables(read: Reading, key: str) -> None:
    section = read.peek(key)
    if isinstance(section, str):
        section = _json(section)
    if not isinstance(section, Mapping):
        read.refuse(key, why="expected keys and values", hint='write {"NAME": "VALUE"}')
        return
    inside = isinstance(read.peek(key), Mapping)
    if not inside or not section:
        read.get(key)
    for name in section:
        path = (key, name) if inside else (key,)
        text = read.text(*path) if inside else _plain(section[name])
        if isinstance(section[name], (dict, list)):
            read.refuse(*path, why=f"the value of the variable {name} must be text", hint="write it as text")
        elif (text or "").startswith("secret:"):
            hint = f"export {name} in the shell that submits the job; the job inherits its variables"
            read.warn(*path, why=f"{name} is a secret of Gradient's", hint=hint)
        else:
            put_variable(read, str(name), text or "", *path)


def put_variable(read: Reading, name: str, value: str, *source: str | int) -> None:
    """Add a variable of the job; its name may contain dots."""
    if (
        not isinstance(read.native.get("environment"), Mapping)
        or "env_vars" not in read.native["environment"]
    ):
        read.put("environment.env_vars", {}, *source)
    place = read.place(*source)
    read.native["environment"]["env_vars"].put(name, escape_templates(value), place)
    read.origins["environment", "env_vars", name] = source


def _json(text: str) -> Any:
    """Parse JSON, with numbers in their source spelling; return None for invalid JSON."""
    try:
        value = json.loads(
            text, object_pairs_hook=_without_duplicates, parse_int=str, parse_float=str, parse_constant=str
        )
        json.dumps(value, ensure_ascii=False).encode()  # fails where an escape is half a character
    except (ValueError, RecursionError):
        return None
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _datasets(read: Reading, given: set[str]) -> None:
    """Take datasets by their names, which the site's ``volumes`` know; no credentials are kept."""
    names: list[str] = []
    for index, item in read.items("datasets"):
        read.get("datasets", index)
        name = item.get("name") if isinstance(item, Mapping) else []
        if isinstance(name, (dict, list)):
            read.refuse("datasets", index, why="this is not a dataset", hint="write `- {name: NAME}`")
        elif name:
            names.append(str(name))
        else:
            _warn_of_unnamed(read, "datasets", index)
    if "datasets" in given and not isinstance(read.peek("datasets"), list):
        read.refuse("datasets", why="expected a list", hint="write `- {name: NAME}`")
    flat = [key for key in DATASETS if key in given]
    values = {key: _several(read, key) for key in flat}
    count = max(map(len, values.values()), default=0)
    names += [name for name in values.get("datasetName", ()) if name]
    names += (
        [text.partition("@")[0] for text in _several(read, "dataset") if text] if "dataset" in given else []
    )
    if count > len(values.get("datasetName", ())):
        _warn_of_unnamed(read, flat[0])
    if names:
        source = next(key for key in ("datasets", "datasetName", "dataset") if key in given)
        read.put("environment.data_refs", [escape_templates(name) for name in names], source)
        hint = "put the files on the machine; the site's `volumes` say where"
        read.warn(source, why="no dataset is fetched or mounted, and no key is kept", hint=hint)
    for key in flat:
        if key != "datasetName":
            read.ignore(key, why="no dataset is fetched or mounted")


def _warn_of_unnamed(read: Reading, *path: str | int) -> None:
    hint = "put the files on the machine, and write their path in the command"
    read.warn(*path, why="this dataset has no name, and is not fetched", hint=hint)


def _several(read: Reading, key: str) -> list[str]:
    items = list(read.items(key))
    if items:
        return [text_of(read, key, index) or "" for index, _ in items]
    return [text_of(read, key) or ""]
