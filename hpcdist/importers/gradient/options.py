"""The options of Gradient's experiments; all kinds have name, tags, code, variables, datasets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from hpcdist.base.errors import Key, Path, Problem
from hpcdist.base.tree import Map
from hpcdist.base.words import quote
from hpcdist.importers import Imported
from hpcdist.importers.container import escape_templates, export_hint, skip_empty
from hpcdist.importers.job import ForeignJob, Sourced, put_name
from hpcdist.importers.reading import Reading

# --- The options of ``gradient experiments create|run`` and ``jobs create``, the keys of their options files
#
# Source: gradient-cli 0.5 to 1.9, ``gradient/cli/experiments.py`` and ``jobs.py``
# (https://github.com/Paperspace/gradient-cli); ``experimentTypeId``, ``projectHandle`` and
# ``triggerEventId`` are from its first releases.

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
"""Options that are true alone, or followed by ``true`` or ``false``."""
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
"""Options without a meaning on a batch machine, and why."""
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
"""Options that are stored nowhere."""
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


def common_fields(read: Reading, job: ForeignJob, given: set[str]) -> None:
    """Take the options that belong to no role."""
    if "name" in given and (name := read.word("name")) is not None:
        put_name(read, name, "name")
    _tags(read, given)
    _workspace(read, given)
    for key in (key for key in ENVIRONMENT if key in given):
        _variables(read, job, key)
    _datasets(read, given)


def put_command(read: Reading, job: ForeignJob, command: str, key: str, *, before: str = "") -> None:
    """Set the command, in the working directory; warn of directories that only Gradient has."""
    for name in dict.fromkeys(_GRADIENT_DIRECTORIES.findall(command)):
        hint = "write $POLYAXON_RUN_OUTPUTS_PATH, or a path of the machine, instead"
        read.warn(key, why=f"/{name} is a directory of Gradient's machines", hint=hint)
    folder = read.word("workingDirectory")
    steps = [before] if before else []
    if folder and folder.rstrip("/") not in {_LAYOUT, "."}:
        steps.append(f"cd {quote(folder)}")
        if folder.startswith("/"):
            hint = "write one that is relative to where the job is submitted"
            read.warn("workingDirectory", why=f"{folder} is a directory of the image", hint=hint)
    elif folder:
        read.ignore("workingDirectory", why="the job starts in the submit directory")
    words = [escape_templates(step) for step in (*steps, command)]
    job.command = Sourced(words if len(words) > 1 else words[0], (key,))


def _tags(read: Reading, given: set[str]) -> None:
    """Take ``tag``, one or a list, and ``tags``, with commas between them."""
    found: list[str] = []
    for key in (key for key in ("tag", "tags") if key in given):
        items: list[Path] = [(key, index) for index, _ in read.items(key)]
        items = items or [(key,)]
        texts = [read.word(*path) or "" for path in items]
        found += [part.strip() for text in texts for part in (text.split(",") if key == "tags" else [text])]
    tags = [escape_templates(tag) for tag in dict.fromkeys(found) if tag]
    if tags:
        read.put("tags", tags, "tag" if "tag" in given else "tags")


def _workspace(read: Reading, given: set[str]) -> None:
    """Take the location of the code: a repository becomes ``build.git``, a directory a warning."""
    for key in ("workspace", "workspaceUrl", "workspaceArchive"):
        place = read.word(key) if key in given else None
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
        read.put("build.commit", escape_templates(read.word("workspaceRef") or ""), "workspaceRef")


def _variables(read: Reading, job: ForeignJob, key: str) -> None:
    """Take the variables: keys and values, or the same as JSON text."""
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
            read.warn(*path, why=f"{name} is a secret of Gradient's", hint=export_hint(name))
        else:
            job.env[str(name)] = Sourced(escape_templates(text or ""), path)


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
        return [read.word(key, index) or "" for index, _ in items]
    return [read.word(key) or ""]


# --- Files of GradientCI, which ran for each commit: one experiment, converted to options
#
# The first version of ``.ps_project/config.yaml`` has one experiment, the second a step whose ``params`` are
# options (https://github.com/Paperspace/Docs, ``gradientci``).

_TYPES: Final = {"single": "", "multi-grpc": "GRPC", "grpc": "GRPC", "multi-mpi": "MPI", "mpi": "MPI"}
_COMMANDS: Final = {
    "experiment.run_single_node": "",
    "experiment.run_multi_node": "GRPC",
    "experiment.run_mpi_multi_node": "MPI",
}
_OF_FILE: Final = {
    "experiment": "name", "project": "projectId", "ports": "ports", "model.type": "modelType",
    "model.path": "modelPath", "paths.workdir": "workingDirectory", "paths.artifacts": "artifactDirectory",
}  # fmt: skip
_CI_ROLES: Final = {
    "worker": "worker", "parameter-server": "parameterServer", "parameter_server": "parameterServer",
    "master": "master",
}  # fmt: skip
_OF_ROLE: Final = {
    "container": "Container", "command": "Command", "machine-type": "MachineType", "count": "Count",
}  # fmt: skip
SECTIONS: Final = frozenset({*_CI_ROLES, "workflows"})
"""Sections of such a file that define what is run."""
_CI_IGNORED: Final = {
    **dict.fromkeys(("triggers", "filters"), "a job is submitted by you, and not by a commit"),
    "checks": "metrics are not checked",
}


class CIOptions:
    """A file of GradientCI converted to options: ``data``, and in ``paths`` the source path of each.

    Options that are not given belong to the section ``section``.
    """

    def __init__(self, data: Map) -> None:
        """Convert the one experiment of a file.

        Raises:
            ConfigError: if there are several, or something other than an experiment.
        """
        self.read = Reading(data)
        self.data = Map(place=data.place)
        self.paths: dict[str, Path] = {}
        self.section: Path = ()
        skip_empty(self.read)
        self._step() if ci_form(data) == "workflows" else self._first_version()

    def imported(self, found: Imported) -> Imported:
        """Return the converted options, with remarks and origins at the paths of the file."""
        own = self.read.finish().remarks
        remarks = [self._relocated(problem) for problem in found.remarks]
        origins = {ours: self._source_path(theirs) for ours, theirs in found.origins.items()}
        return Imported(found.data, (*own, *remarks), origins)

    def _relocated(self, problem: Problem) -> Problem:
        """Return a remark with its path in the file; a missing option has the path where it belongs."""
        path = self._source_path(problem.path)
        missing = bool(problem.path) and problem.path[0] not in self.data
        return problem._replace(path=path, place=self.read.place(*path) if missing else problem.place)

    def _source_path(self, path: Path) -> Path:
        if not path or path[0] not in self.paths:
            return (*self.section, *path)
        there = self.paths[str(path[0])]
        last = Key(there[-1]) if isinstance(path[0], Key) and isinstance(there[-1], str) else there[-1]
        return (*there[:-1], last, *path[1:])

    def _take(self, option: str, *path: str | int) -> None:
        """Set an option to the value at a path, if there is one."""
        above = self.read.peek(*path[:-1])
        self.paths.setdefault(option, path)
        self.read.get(*path)
        if isinstance(above, Map) and isinstance(path[-1], str) and path[-1] in above:
            self.data.copy_from(above, path[-1], option)
            self.paths[option] = path

    def _put_type(self, kind: str, *path: str | int) -> None:
        if kind and "experimentType" not in self.data:
            self.data.put("experimentType", kind, self.read.place(*path))
            self.paths["experimentType"] = path

    def _first_version(self) -> None:
        read = self.read
        roles = [role for role in _CI_ROLES if role in read.data]
        plain = "mpi" if "master" in roles else "single" if roles == ["worker"] else "multi-grpc"
        kind = read.text("type") or plain
        if kind not in _TYPES:
            read.fail("type", why=f"unknown type {kind!r}", hint="write single, multi-grpc or multi-mpi")
        read.get("version")
        for path, option in _OF_FILE.items():
            self._take(option, *path.split("."))
        self._put_type(_TYPES[kind], "type")
        for role in dict.fromkeys([*roles, "worker", *(["master"] if _TYPES[kind] == "MPI" else [])]):
            if _TYPES[kind] or role == "worker":
                self._role(role, _CI_ROLES[role] if _TYPES[kind] else "")
            else:
                read.ignore(role, why="an experiment of one node has no such role")
        read.ignore_all(_CI_IGNORED)

    def _role(self, role: str, prefix: str) -> None:
        """Take the section of a role; without a prefix, the section of one node."""
        read = self.read
        for key, option in _OF_ROLE.items():
            if not prefix and key == "count":
                read.ignore(role, key, why="an experiment of one node has one")
            else:
                self._take(f"{prefix}{option}" if prefix else option[0].lower() + option[1:], role, key)
        if read.peek(role, "dockerfile", "use") is False:
            read.get(role, "dockerfile")
        elif "dockerfile" in read.keys(role):
            hint = "build it, and write its name as `container`"
            read.refuse(role, "dockerfile", why="no image is built here", hint=hint)

    def _step(self) -> None:
        """Take the one step of a file of the second version."""
        read, steps = self.read, list(ci_steps(self.read.data))
        for name in read.keys("workflows"):
            if read.keys("workflows", name, "steps"):
                why = "steps are a list, and this is one step"
                read.fail("workflows", name, "steps", why=why, hint="write `- ` before its first key")
        commands = [str(read.peek(*step, "command")) for step in steps]
        if len(steps) != 1 or not isinstance(read.peek(*steps[0]), Mapping):
            listed = f" ({', '.join(dict.fromkeys(commands))})" if commands else ""
            why = f"this is a file of GradientCI, which runs {len(steps)} steps{listed} for each commit"
            read.fail("workflows", why=why, hint=_one_step(read))
        step = steps[0]
        if commands[0] not in _COMMANDS:
            why = f"this step of GradientCI runs {commands[0]}, which is not an experiment"
            read.fail(*step, "command", why=why, hint=f"supported: {', '.join(_COMMANDS)}")
        if "paramsFile" in read.keys(*step):
            where = "here and in another file" if "params" in read.keys(*step) else "in another file"
            hint = f"give {read.text(*step, 'paramsFile')}"
            read.fail(*step, "paramsFile", why=f"the params of this step are {where}", hint=hint)
        self._params(step, _COMMANDS[commands[0]])

    def _params(self, step: Path, kind: str) -> None:
        read, self.section = self.read, (*step, "params")
        for path in (("version",), (*step, "command")):
            read.get(*path)
        for key in read.keys(*step, "params"):
            self._take(key, *step, "params", key)
        if "name" in self.data:
            read.ignore(*step, "name", why="the experiment has a name of its own")
        else:
            self._take("name", *step, "name")
        self._put_type(kind, *step, "command")
        for above in ((), step[:2], step):
            read.ignore_all(_CI_IGNORED, *above)


def ci_form(data: Map) -> str:
    """Return the key that identifies a file of GradientCI; empty for other files."""
    workflows, worker = data.get("workflows"), data.get("worker")
    sections = workflows.values() if isinstance(workflows, Mapping) else ()
    if any(isinstance(item, Map) and "steps" in item for item in sections):
        return "workflows"
    is_role = isinstance(worker, Mapping) and ("machine-type" in worker or str(data.get("type")) in _TYPES)
    return "worker" if is_role else ""


def ci_steps(data: Map) -> dict[Path, str]:
    """Return the paths of the steps of such a file, with their names."""
    read = Reading(data)
    return {
        ("workflows", name, "steps", index): str(item.get("name") or "") if isinstance(item, Map) else ""
        for name in read.keys("workflows")
        for index, item in read.items("workflows", name, "steps")
        if item is not None
    }


def _one_step(read: Reading) -> str:
    """Return the hint to choose a step, by its name if one that runs a program has a name."""
    names = (name for path, name in ci_steps(read.data).items()
             if name and str(read.peek(*path, "command")) in _COMMANDS)  # fmt: skip
    name = next(names, "")
    hint = "write the `params` of the step that you want as a file of their own"
    return f"{hint}; or choose one with `--name {quote(name)}`" if name else hint
