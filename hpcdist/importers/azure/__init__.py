"""Azure ML: DistributedComponent and CommandComponent (spec v1), and ``type: command`` jobs and components.

Supported are azure-ml-component 0.9 (``DistributedComponent``, ``CommandComponent``) and azure-ai-ml 1
(https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command). One file is one job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hpcdist.base.errors import ConfigError, Path, Problem, warning
from hpcdist.base.tree import Map, Seq
from hpcdist.base.words import quote
from hpcdist.importers import Form, Imported, PipelineStep
from hpcdist.importers.azure import layout, pipelines
from hpcdist.importers.azure.command import AzureCode, Translation, one_line, read_outputs
from hpcdist.importers.azure.inputs import Inputs, put_search
from hpcdist.importers.container import escape_templates, export_hint, finish_with_command
from hpcdist.importers.job import ForeignJob, Sourced, put_name
from hpcdist.importers.polyaxon.command import joined
from hpcdist.importers.reading import Reading, one_of

# --- Variables that Azure sets for a command, and their equivalents here

_EQUIVALENTS: Final = {
    "AZ_BATCHAI_MPI_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS",
    "AZ_BATCH_MASTER_NODE": "$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT",
    "AZUREML_NODE_COUNT": "$HPCDIST_NODES",
    "AZUREML_MPI_HOSTFILE": "$HPCDIST_HOSTFILE",
    **dict.fromkeys(("AZUREML_RUN_ID", "AZUREML_ROOT_RUN_ID", "AZ_BATCH_JOB_ID"), "$HPCDIST_JOB_ID"),
}
_NAME: Final = re.compile(
    r"(?<!\w)(?:AZUREML_[A-Z\d_]+|AZ_BATCH(?:AI)?_[A-Z\d_]+"
    r"|MLFLOW_(?:TRACKING_TOKEN|RUN_ID|EXPERIMENT_(?:ID|NAME)))(?!\w)"
)
"""Names that Azure sets, by prefix; only its machines' and MLflow's are documented.

https://learn.microsoft.com/azure/batch/batch-compute-node-environment-variables,
https://learn.microsoft.com/azure/machine-learning/how-to-use-mlflow-configure-tracking
"""


def warn_of_variables(read: Reading, command: str, path: Path) -> None:
    """Warn about variables in a command that neither the file nor the command sets."""
    sections: list[Path] = [(), *((name,) for name in layout.settings_sections(read))]
    given = {name for section in sections for name in read.keys(*section, "environment_variables")}
    used = dict.fromkeys(_NAME.findall(command))
    unset = [name for name in used if name not in given and not re.search(rf"\b{name}=", command)]
    for name in unset:
        if name in _EQUIVALENTS:
            read.warn(*path, why=f"{name} is set on Azure only, not here", hint=f"write {_EQUIVALENTS[name]}")
    if lost := [name for name in unset if name not in _EQUIVALENTS]:
        verb = "is" if len(lost) == 1 else "are"
        hint = f"write the value itself, or {export_hint('it')}"
        read.warn(*path, why=f"{', '.join(lost)} {verb} set on Azure only, not here", hint=hint)


# --- Azure ML

_SCHEMA: Final = re.compile(
    r"componentsdk|azureml/sdk-[12]|azuremlschemas|azuremlsdk2|command(job|component)", re.IGNORECASE
)
_TYPE: Final = r"\w+Component(@|$)|command_(job|component)$|MpiJob$|Microsoft\.MachineLearning"
_JOINED: Final = (
    "write `command: >-`, or `command: |` and a backslash at the end of each continued line; "
    "quote spaces that must be kept"
)
_SHOWN: Final = 10
_RUN_KINDS: Final = ("command", "commandcomponent", "distributedcomponent")
_MANY: Final = (
    "a pipeline is many jobs",
    "give the file that has its steps as `jobs`",
)
_TRAINS: Final = "give the job that trains it"
_OTHERS: Final = {
    "environment": ("an environment", "name its image in `environment` of the job"),
    "deployment": ("a deployment", _TRAINS),
    "endpoint": ("an endpoint", _TRAINS),
    "online": ("an endpoint", _TRAINS),
    "compute": ("a compute target", "give the job that runs there; `--site` chooses the machine"),
    "model": ("a model", _TRAINS),
    "schedule": ("a schedule", "give the job that it starts, and use cron"),
    **dict.fromkeys(("data", "asset", "uri_", "mltable"), ("data", "give the job that reads it")),
}
"""Files that are not jobs, by a word of their type or schema."""
_ENVIRONMENT_KEYS: Final = {"image", "docker", "conda", "conda_file", "build", "name"}
"""Keys that distinguish an Azure environment from hpcdist's section of that name."""


class Azure(Form):
    """The importer of components and command jobs; the file of a component has no run settings."""

    settings = layout.SETTINGS

    def recognises(self, data: Map) -> bool:
        """Tell by the schema or the type, else by a command with an environment or a compute target."""
        if "apiVersion" in data or "run" in data or "kind" in data:
            return False
        kind = str(data.get("type", data.get("job_type", "")))
        if _SCHEMA.search(str(data.get("$schema", ""))) or re.match(_TYPE, kind):
            return True
        marks = {"sweep": {"trial", "search_space"}, "pipeline": {"jobs"}, "command": data.keys()}
        if marks.get(kind.lower().removesuffix("_job"), set()) & data.keys() or _is_module(data):
            return True
        environment = data.get("environment")
        ours = isinstance(environment, str) or (
            isinstance(environment, dict) and _ENVIRONMENT_KEYS & environment.keys()
        )
        return "command" in data and bool(ours or {"compute", "distribution"} & data.keys())

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the component of a job, or of the one step of a pipeline, that is in another file."""
        return pipelines.file_named_in(data)

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with that component."""
        named = pipelines.file_named_in(data)
        return pipelines.with_component(data, named[0], other) if named else data

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the steps of a pipeline."""
        return one_of({("jobs", name): name for name in Reading(data).keys("jobs")}, data)

    def steps(self, data: Map) -> Sequence[PipelineStep]:
        """Return the steps of a pipeline."""
        return pipelines.steps_of(data)

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is many jobs, a kind of job that no batch machine runs, or no command.
        """
        job = pipelines.as_job(data)
        if job is data:
            return self._job(data)
        try:
            return _of_step(self._job(job), data)
        except ConfigError as error:
            raise ConfigError(*_in_file(error.problems, data)) from None

    def _job(self, job: Map) -> Imported:
        read, found, legacy = Reading(job), ForeignJob(), _is_legacy(job)
        _refuse_kinds(read)
        _names(read)
        inputs = Inputs(read, legacy=legacy)
        put_search(read, inputs.searched)
        command = _command(read, found, inputs, legacy=legacy)
        layout.take_environment(read, found)
        layout.take_variables(read, found)
        layout.Layout(read, found, legacy=legacy, command=command).put()
        layout.take_rest(read, found)
        found.write(read)
        return finish_with_command(read)


IMPORTER: Final = Azure()


def _of_step(found: Imported, data: Map) -> Imported:
    """Return the native form of a step, with paths in its file, and a warning about unused inputs."""
    remarks = _in_file(found.remarks, data)
    if names := pipelines.unused(data):
        why = f"this step does not use {', '.join(names)} of its pipeline"
        remarks.append(warning(why, ("jobs",))._replace(place=data.place_of("jobs")))
    return found._replace(remarks=tuple(remarks), origins={})


def _in_file(problems: Iterable[Problem], data: Map) -> list[Problem]:
    """Return problems of a job that was made of a file, with their paths in that file."""
    paths = {place: path for place, path in pipelines.paths_of(data).items() if place != data.place}
    return [one._replace(path=paths.get(one.place, one.path) if one.place else one.path) for one in problems]


def _is_legacy(data: Map) -> bool:
    """Tell whether this is a component of spec v1."""
    return bool(re.match(r"(Distributed|Command)Component", str(data.get("type", "")))) or "launcher" in data


def _is_module(data: Map) -> bool:
    """Tell a module by the type of its job, or the ``runConfig`` of its container, which Kubeflow's lack."""
    config = Reading(data).peek("implementation", "container", "runConfig")
    return config is not None or {"jobType", "implementation"} <= data.keys()


def _refuse_kinds(read: Reading) -> None:
    kind = read.text("type")
    schema = read.text("$schema") or ""
    key: Path = ("type",) if kind is not None else ("$schema",) if schema else ()
    of_steps = "pipeline" if "jobs" in read.data else ""
    words = (kind or re.sub(r".*/", "", schema) or of_steps).lower()
    if names := [*pipelines.steps(read.data).values()]:
        shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
        one = f"`--name {quote(names[0])}` ({shown})"
        hint = f"choose a step with {one}; `hpcdist submit` takes all of them as a pipeline"
        read.fail(*key, why="a pipeline is many jobs", hint=hint)
    inner = [step for name in read.keys("jobs") if isinstance(step := read.peek("jobs", name), Map)]
    if kinds := sorted({pipelines.kind_of(step) for step in inner}):
        read.fail("jobs", why=f"no step of this pipeline is a command, but {', '.join(kinds)}")
    if "pipeline" in words:
        named = read.peek("component")
        is_file = isinstance(named, str) and not named.startswith("azureml:")
        read.fail(*key, why=_MANY[0], hint=f"give {named} itself" if is_file else _MANY[1])
    if isinstance(component := read.peek("component"), str):
        why = f"the component {component!r} is kept in Azure"
        read.fail("component", why=why, hint="write its command, inputs, code and environment here")
    if _is_module(read.data):
        key = ("jobType",) if "jobType" in read.data else ("implementation",)
        read.fail(*key, why="modules, which preceded components, are not supported", hint=pipelines.SUPPORTED)
    is_job = kind or not schema or "command" in schema.lower() or "component" in schema.lower()
    if not is_job or pipelines.kind_of(read.data) not in _RUN_KINDS:
        named = repr(kind or re.sub(r".*/", "", schema))
        what, hint = next((_OTHERS[word] for word in _OTHERS if word in words), (named, pipelines.SUPPORTED))
        read.fail(*key, why=f"this is {what} of Azure ML, which is not run", hint=hint)


def _names(read: Reading) -> None:
    """Take the name of the job; its other names become tags."""
    names = [(key, text) for key in ("name", "display_name", "experiment_name") if (text := read.word(key))]
    if names:
        key, text = names.pop(0)
        put_name(read, text, key)
    read.move("description", "description")
    if version := read.word("version"):
        names.append(("version", version))
    _put_tags(read, names)


def _put_tags(read: Reading, names: list[tuple[str, str]]) -> None:
    """Put the other names of a job and its tags as tags, each with its place."""
    tags = Seq(place=read.place("tags"))
    for key, text in names:
        tags.add(escape_templates(f"{key}={text}"), read.place(key))
    for tag, path in _tags(read):
        tags.add(escape_templates(tag), read.place(*path))
    if tags:
        read.put("tags", tags, "tags" if "tags" in read.data else names[0][0])


def _tags(read: Reading) -> list[tuple[str, Path]]:
    """Return each tag with its path."""
    value = read.get("tags")
    if isinstance(value, dict):
        keys: list[tuple[str, Path]] = [(key, ("tags", key)) for key in value]
        return [
            (key if read.peek(*path) is None else f"{key}={read.text(*path)}", path) for key, path in keys
        ]
    if isinstance(value, list):
        return [(read.text("tags", at) or "", ("tags", at)) for at, _ in read.items("tags")]
    text = read.text("tags")
    return [(text, ("tags",))] if text else []


def _command(read: Reading, job: ForeignJob, inputs: Inputs, *, legacy: bool) -> str:
    """Take the command, its code and its outputs; return its original text."""
    path: Path = ("launcher", "additional_arguments") if legacy and read.peek("launcher") else ("command",)
    outputs = read_outputs(read)
    code = AzureCode(read, path, legacy=legacy)
    text = read.get(*path)
    if not isinstance(text, str) or not text.strip():
        read.refuse(*path, why="there is no command", hint="write the command to run")
        return ""
    lines = one_line(text) if legacy else text
    whole = joined(lines)
    if whole != lines:
        why = "an option that begins a line, or follows a backslash, is joined to the text before it"
        read.warn(*path, why=why, hint=_JOINED)
    translation = Translation(whole, inputs.params, outputs, legacy=legacy, searched=inputs.searched)
    for remark in translation.remarks:
        tell = read.refuse if remark.is_error else read.warn
        tell(*path, why=remark.message, hint=remark.hint)
    warn_of_variables(read, text, path)
    job.command = Sourced("\n".join([*code.preparation(translation), translation.text]), path)
    return text
