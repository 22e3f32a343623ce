"""Azure ML: DistributedComponent and CommandComponent (spec v1), and ``type: command`` jobs and components.

Supported are azure-ml-component 0.9 (``DistributedComponent``, ``CommandComponent``) and azure-ai-ml 1
(https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command). One file is one job.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import ConfigError, Path, Problem, did_you_mean, warning
from hpcdist.importers import Form, Imported, Step
from hpcdist.importers.azure.command import SUBMITTED_IN, Output, Translation, one_line
from hpcdist.importers.azure.environment import take_environment, take_rest, take_variables
from hpcdist.importers.azure.inputs import FILES, HIDDEN, TYPES, Inputs
from hpcdist.importers.azure.layout import SETTINGS, Layout, settings_sections
from hpcdist.importers.azure.steps import (
    REFERENCE,
    SUPPORTED,
    as_job,
    file_named_in,
    kind_of,
    paths_of,
    steps,
    unused,
    with_component,
)
from hpcdist.importers.azure.sweep import put_search
from hpcdist.importers.container import escape_templates, export_hint, finish_with_command
from hpcdist.importers.job import ForeignJob, Sourced
from hpcdist.importers.polyaxon.command import joined
from hpcdist.importers.reading import Reading, one_of
from hpcdist.words import quote, slug

# --- Outputs of Azure ML, which are kept below the directory of the run

_KEPT: Final = "outputs are kept in the directory of the run, below $HPCDIST_OUTPUTS"
_OUTPUT_IGNORED: Final = {
    **dict.fromkeys(
        ("path", "mode", "name", "version", "datastore", "datastore_mode", "is_control", "early_available",
         "data", "optional", "is_link_mode", "display_name", "description"), _KEPT,
    ),
    "intellectual_property": HIDDEN,
}  # fmt: skip


def own_name(output: str) -> str:
    """Return the name of an output's file or folder below the outputs of the run."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", output).lstrip(".-") or "output"


def read_outputs(read: Reading) -> dict[str, Output]:
    """Take the outputs: names below the directory of the run."""
    found: dict[str, Output] = {}
    if not read.section("outputs"):
        return found
    for name in read.keys("outputs"):
        value = read.peek("outputs", name)
        kind = read.peek("outputs", name, "type") if isinstance(value, Mapping) else None
        found[name] = Output(
            own_name(name), is_file=str(kind).lower() in FILES | TYPES.keys()
        )  # a value is a file
        if isinstance(value, Mapping) and value:
            read.get("outputs", name, "type")
            read.ignore_all(_OUTPUT_IGNORED, "outputs", name)
        elif value is None or value == {}:
            read.get("outputs", name)
        else:
            read.ignore("outputs", name, why=_KEPT)
    return found


# --- The code of an Azure ML job, and the directory in which its command runs
#
# Azure copies the code to a directory of each node, makes ``outputs`` and ``logs`` in it before the command
# runs, and keeps what is written to them
# (https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files).

_REMOTE: Final = re.compile(r"[A-Za-z][\w+.-]+:|git@")
_OUTPUTS: Final = 'ln -sn "$HPCDIST_OUTPUTS" outputs; ln -sn "$HPCDIST_OUTPUTS/logs" logs;'
_HIDDEN: Final = (
    "[[ ${HPCDIST_RANK:-0} != 0 || ! -e $OLDPWD/outputs && ! -e $OLDPWD/logs ]] || "
    'echo "./outputs and ./logs are those of $HPCDIST_OUTPUTS, and not of $OLDPWD" >&2'
)
_MLFLOW: Final = (
    'export MLFLOW_TRACKING_URI="${MLFLOW_TRACKING_URI:-file:$HPCDIST_OUTPUTS/mlruns-${HPCDIST_RANK:-0}}" '
    "MLFLOW_ALLOW_FILE_STORE=true"
)
"""On Azure, MLflow records without being told where; version 3 takes files only if it is allowed to."""


class Code:
    """The code of a file, taken from it; paths are relative to the submit directory."""

    def __init__(self, read: Reading, command: Path, *, legacy: bool) -> None:
        self._read = read
        self._path = self._code(read.folder(*command) if legacy else "")
        self._included = [*self._includes()]

    def preparation(self, translation: Translation) -> Iterator[str]:
        """Yield the lines before a command: its own directory on each node, with links to the code.

        Its ``outputs`` and ``logs`` are links to the outputs of the run, so that nothing is written to
        folders of these names in the code, which other runs use too. What is there already, by
        another task or an earlier start, stays.
        """
        if translation.has_paths or self._included:
            yield f"{SUBMITTED_IN}=$PWD"
        if self._path not in ("", "."):
            yield f"cd {escape_templates(quote(self._path))} || exit"
        folders = dict.fromkeys(["logs", *(item.name for item in translation.used if not item.is_file)])
        outputs = " ".join(f'"$HPCDIST_OUTPUTS/{name}"' for name in folders)
        yield f'mkdir -p {outputs} "$HPCDIST_JOB_DIR/code/$HPCDIST_NODE" && cd "$_" || exit'
        yield _HIDDEN
        yield _MLFLOW
        included = "".join(f"{self._word(path)} " for path in self._included)
        yield f'(shopt -s dotglob nullglob; {_OUTPUTS} ln -s "$OLDPWD"/* {included}.) 2>/dev/null'

    def _word(self, path: str) -> str:
        submitted_in = "" if path.startswith("/") else f'"${SUBMITTED_IN}"/'
        return submitted_in + escape_templates(quote(path))

    def _code(self, default: str) -> str:
        """Return the folder in which the command runs."""
        read, path = self._read, self._path_of_code()
        code = read.get(*path) if path != ("code",) or not isinstance(read.peek("code"), dict) else None
        if code is None:
            return default
        if not isinstance(code, str):
            read.refuse(*path, why=f"expected the path of a folder, got {code!r}")
            return ""
        if _REMOTE.match(code) or code.endswith(".zip"):
            why, hint = f"the code {code!r} is not fetched", "check it out, and write its folder"
            read.warn(*path, why=why, hint=hint)
            return ""
        if re.search(r"\.(py|sh|ipynb|R|r|jl)$", code):  # a file, which Azure puts into a folder of its own
            code = posixpath.dirname(code)
        return self._relative(code, *path)

    def _path_of_code(self) -> Path:
        keys = ("path", "directory", "local_path", "file")
        return next((("code", key) for key in keys if self._read.peek("code", key) is not None), ("code",))

    def _includes(self) -> Iterator[str]:
        """Yield the files and folders that are added to the code."""
        for at, item in self._read.items("additional_includes"):
            if isinstance(item, str) and not _REMOTE.match(item):
                self._read.get("additional_includes", at)
                yield self._relative(item, "additional_includes", at)
            else:
                why = "it is not fetched: add a copy of it to the code"
                self._read.ignore("additional_includes", at, why=why)

    def _relative(self, path: str, *key: str | int) -> str:
        return posixpath.normpath(posixpath.join(self._read.folder(*key), path))


# --- A pipeline of Azure ML as its steps: what one writes is the path of an input of another
#
# Steps wait for those whose outputs they read (``${{parent.jobs.NAME.outputs.OUTPUT}}``), and for no
# others.

_OUTPUT: Final = re.compile(r"\$\{\{\s*parent\.jobs\.([^{}.\s]+)\.outputs\.([^{}.\s]+)\s*\}\}")
_OF_JOBS: Final = re.compile(r"\$\{\{\s*parent\.jobs\b[^{}]*\}\}")


def steps_of(data: Map) -> list[Step]:
    """Return the steps of a pipeline; none of one step alone, which is a job.

    Raises:
        ConfigError: with the steps that are no commands, and the outputs that no step has.
    """
    jobs = data.get("jobs")
    runnable = steps(data)
    if not isinstance(jobs, Map) or len(jobs) == 1 or not runnable:
        return []
    problems = [*_others(jobs, runnable), *_unknown(jobs)]
    if problems:
        raise ConfigError(*problems)
    parts = one_of({path: str(path[-1]) for path in runnable}, data)
    return [Step(name, _alone(part, name)) for name, part in parts.items()]


def _others(jobs: Map, runnable: dict[Path, str]) -> Iterator[Problem]:
    for name, step in jobs.items():
        if ("jobs", name) not in runnable:
            kind = kind_of(step) if isinstance(step, Map) else "none"
            message = f"the step {name} is no command or sweep, but of the type {kind}"
            hint = "choose another one alone with `--name`"
            yield Problem(message, ("jobs", name), hint, place=jobs.place_of(name))


def _unknown(jobs: Map) -> Iterator[Problem]:
    """Yield what is written like the output of a step and is none; a component in a file is not read here."""
    for path, text in texts_in(jobs, ("jobs",)):
        for match in _OF_JOBS.finditer(text):
            exact = _OUTPUT.fullmatch(match[0])
            if not exact:
                yield Problem(f"{match[0]} is no output of a step", path, "write `jobs.NAME.outputs.OUTPUT`")
                continue
            step, known = jobs.get(exact[1]), _outputs(jobs.get(exact[1]))
            if not isinstance(step, Map):
                yield Problem(f"there is no step {exact[1]!r}", path, did_you_mean(exact[1], jobs))
            elif known is not None and exact[2] not in known:
                yield Problem(f"{exact[1]} has no output {exact[2]!r}", path, did_you_mean(exact[2], known))


def _outputs(step: Any) -> set[str] | None:
    """Return the names of a step's outputs; None where they are in a file."""
    component = step.get("component", step.get("trial")) if isinstance(step, Map) else None
    if isinstance(component, str):
        return None
    declared = (part.get("outputs") for part in (step, component) if isinstance(part, Map))
    return {name for outputs in declared if isinstance(outputs, Map) for name in outputs}


def _alone(part: Map, name: str) -> Map:
    """Return a pipeline of one step, with the inputs and outputs of the pipeline that it uses."""
    step = _with_paths(part["jobs"][name])
    used = {(match[1], match[2].split(".")[0]) for match in REFERENCE.finditer(str(step))}
    new = part.copy()
    new["jobs"] = part["jobs"].mapped(lambda _, __: step)
    for key in ("inputs", "outputs"):
        if isinstance(section := part.get(key), Map):
            new[key] = section.copy()
            for unused in {each for each in section if (key, each) not in used}:
                new[key].drop(unused)
    return new


def _with_paths(node: Any) -> Any:
    """Return a step with the folders of other steps in place of the names of their outputs."""
    if isinstance(node, (Map, Seq)):
        return node.mapped(lambda _, item: _with_paths(item))
    return _OUTPUT.sub(_path, node) if isinstance(node, str) else node


def _path(match: re.Match[str]) -> str:
    return f"{{{{ ops.{match[1]}.outputs.path }}}}/{own_name(match[2])}"


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
"""Names that Azure sets, by prefix; it documents only those of its machines and of MLflow.

https://learn.microsoft.com/azure/batch/batch-compute-node-environment-variables,
https://learn.microsoft.com/azure/machine-learning/how-to-use-mlflow-configure-tracking
"""


def warn_of_variables(read: Reading, command: str, path: Path) -> None:
    """Warn of variables in a command that neither the file nor the command sets."""
    sections: list[Path] = [(), *((name,) for name in settings_sections(read))]
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
"""What is not a job, by a word of its type or its schema."""
_ENVIRONMENT_KEYS: Final = {"image", "docker", "conda", "conda_file", "build", "name"}
"""Keys that distinguish an Azure environment from hpcdist's section of that name."""


class Azure(Form):
    """The importer of components and command jobs; the file of a component has no run settings."""

    settings = SETTINGS

    def recognises(self, data: Map) -> bool:
        """Tell by the schema or the type, else by a command with an environment or a compute target."""
        if "apiVersion" in data or "run" in data or "kind" in data:
            return False
        kind = str(data.get("type", data.get("job_type", "")))
        if _SCHEMA.search(str(data.get("$schema", ""))) or re.match(_TYPE, kind):
            return True
        steps = {"sweep": {"trial", "search_space"}, "pipeline": {"jobs"}, "command": data.keys()}
        if steps.get(kind.lower().removesuffix("_job"), set()) & data.keys() or _is_module(data):
            return True
        environment = data.get("environment")
        ours = isinstance(environment, str) or (
            isinstance(environment, dict) and _ENVIRONMENT_KEYS & environment.keys()
        )
        return "command" in data and bool(ours or {"compute", "distribution"} & data.keys())

    def file_named_in(self, data: Map) -> tuple[Path, str] | None:
        """Return the component of a job, or of the one step of a pipeline, that is in another file."""
        return file_named_in(data)

    def with_named_file(self, data: Map, other: Map) -> Map:
        """Return the data with that component."""
        named = file_named_in(data)
        return with_component(data, named[0], other) if named else data

    def jobs(self, data: Map) -> dict[str, Map]:
        """Return the steps of a pipeline."""
        return one_of({("jobs", name): name for name in Reading(data).keys("jobs")}, data)

    def steps(self, data: Map) -> Sequence[Step]:
        """Return the steps of a pipeline."""
        return steps_of(data)

    def read(self, data: Map) -> Imported:
        """Return the native form.

        Raises:
            ConfigError: when the file is many jobs, a kind of job that no batch machine runs, or no command.
        """
        job = as_job(data)
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
        take_environment(read, found)
        take_variables(read, found)
        Layout(read, found, legacy=legacy, command=command).put()
        take_rest(read, found)
        found.write(read)
        return finish_with_command(read)


IMPORTER: Final = Azure()


def _of_step(found: Imported, data: Map) -> Imported:
    """Return what was made of a step, with the paths in its file, and a warning of what it does not use."""
    remarks = _in_file(found.remarks, data)
    if names := unused(data):
        why = f"this step does not use {', '.join(names)} of its pipeline"
        remarks.append(warning(why, ("jobs",))._replace(place=data.place_of("jobs")))
    return found._replace(remarks=tuple(remarks), origins={})


def _in_file(problems: Iterable[Problem], data: Map) -> list[Problem]:
    """Return problems of a job that was made of a file, with their paths in that file."""
    paths = {place: path for place, path in paths_of(data).items() if place != data.place}
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
    if names := [*steps(read.data).values()]:
        shown = ", ".join([*names[:_SHOWN], *["..."] * (len(names) > _SHOWN)])
        one = f"`--name {quote(names[0])}` ({shown})"
        hint = f"choose a step with {one}; `hpcdist submit` takes all of them as a pipeline"
        read.fail(*key, why="a pipeline is many jobs", hint=hint)
    if kinds := {
        kind_of(step) for name in read.keys("jobs") if isinstance(step := read.peek("jobs", name), Map)
    }:
        read.fail(
            *("jobs",), why=f"no step of this pipeline is a command, but {', '.join(sorted(kinds))}", hint=""
        )
    if "pipeline" in words:
        named = read.peek("component")
        is_file = isinstance(named, str) and not named.startswith("azureml:")
        read.fail(*key, why=_MANY[0], hint=f"give {named} itself" if is_file else _MANY[1])
    if isinstance(component := read.peek("component"), str):
        why = f"the component {component!r} is kept in Azure"
        read.fail("component", why=why, hint="write its command, inputs, code and environment here")
    if _is_module(read.data):
        key = ("jobType",) if "jobType" in read.data else ("implementation",)
        read.fail(*key, why="modules, which preceded components, are not supported", hint=SUPPORTED)
    is_job = kind or not schema or "command" in schema.lower() or "component" in schema.lower()
    if not is_job or kind_of(read.data) not in ("command", "commandcomponent", "distributedcomponent"):
        named = repr(kind or re.sub(r".*/", "", schema))
        what, hint = next((_OTHERS[word] for word in _OTHERS if word in words), (named, SUPPORTED))
        read.fail(*key, why=f"this is {what} of Azure ML, which is not run", hint=hint)


def _names(read: Reading) -> None:
    """Take the name of the job; its other names become tags."""
    names = [(key, text) for key in ("name", "display_name", "experiment_name") if (text := read.word(key))]
    if names:
        key, text = names.pop(0)
        read.put("name", slug(text), key)
        if slug(text) != text:
            read.warn(
                key,
                why=f"the name becomes {slug(text)!r}",
                hint="a job name has letters, digits, - and _ only",
            )
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
    code = Code(read, path, legacy=legacy)
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
